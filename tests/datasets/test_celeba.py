"""CelebA: pictures and tables in the published formats, written here; the real ones when there."""

import zipfile

import numpy as np
import pytest
from PIL import Image

import untwine
from untwine.errors import DataError

ATTRIBUTES = [f"Attribute_{k}" for k in range(20)] + ["Male", *(f"Other_{k}" for k in range(19))]
N = 9
PARTS = [0, 0, 0, 0, 0, 1, 1, 2, 2]
rng = np.random.default_rng(0)
VALUES = rng.choice([-1, 1], (N, 40))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


def name(k):
    return f"{k + 1:06}.jpg"


def face(k, width=178, height=218):
    """Red rises to the right and green downwards; blue counts."""
    y, x = np.mgrid[:height, :width]
    red, green = 255 * (x + 0.5) / width, 255 * (y + 0.5) / height
    return np.stack([red, green, np.full_like(red, 20.0 * k)], -1).round().astype(np.uint8)


def write_tables(folder):
    rows = (f"{name(k)} {' '.join(f'{v:2d}' for v in VALUES[k])}" for k in range(N))
    (folder / "list_attr_celeba.txt").write_text("\n".join([str(N), " ".join(ATTRIBUTES), *rows]))
    parts = (f"{name(k)} {PARTS[k]}\n" for k in range(N))
    (folder / "list_eval_partition.txt").write_text("".join(parts))


def write_celeba(root, size=(178, 218)):
    (root / "img_align_celeba").mkdir(parents=True)
    for k in range(N):
        picture = Image.fromarray(face(k, *size))
        picture.save(root / "img_align_celeba" / name(k), quality=100, subsampling=0)
    write_tables(root)
    return root


def zipped(root):
    with zipfile.ZipFile(root / "img_align_celeba.zip", "w") as archive:
        for path in (root / "img_align_celeba").iterdir():
            archive.write(path, f"img_align_celeba/{path.name}")
            path.unlink()
    (root / "img_align_celeba").rmdir()
    return root


@pytest.mark.parametrize("pack", [lambda root: root, zipped])
def test_folder_and_archive_give_pictures_and_attributes(tmp_path, pack):
    data = untwine.dataset("celeba", path=str(pack(write_celeba(tmp_path / "c"))), split="all")
    assert len(data) == N and data.shape == (3, 64, 64) and data.digest
    assert data.factors.names == tuple(ATTRIBUTES) and data.factors.sizes == (2,) * 40
    assert np.array_equal(data.factors.levels_at(np.arange(N)), (VALUES + 1) // 2)
    blue = (data.take(np.arange(N))[:, 2, 30, 30] * 255).numpy()
    assert np.abs(blue - 20 * np.arange(N)).max() < 3


def test_parts_are_the_official_ones(tmp_path):
    path = str(write_celeba(tmp_path / "c"))
    blues = {}
    for split in ("train", "validation", "test"):
        data = untwine.dataset("celeba", path=path, split=split)
        blues[split] = (data.take(np.arange(len(data)))[:, 2, 9, 9] * 255 / 20).round().tolist()
        rows = [k for k in range(N) if PARTS[k] == ("train", "validation", "test").index(split)]
        assert blues[split] == rows
        assert np.array_equal(data.factors.table, (VALUES[rows] + 1) // 2)


@pytest.mark.parametrize("size", [(178, 218), (89, 109)])
@pytest.mark.parametrize(("crop", "kept"), [("148", 148), ("178", 178), ("108", 108)])
def test_crops_keep_the_middle_in_proportion(tmp_path, size, crop, kept):
    write_celeba(tmp_path / "c", size)
    data = untwine.dataset("celeba", path=str(tmp_path / "c"), split="all", crop=crop, size=32)
    red, green, _ = data.take([0])[0].numpy()
    for ramp, whole in ((red[16], 178), (green[:, 16], 218)):
        first = (whole - kept) / 2 / whole
        wanted = first + (np.arange(32) + 0.5) / 32 * kept / whole
        assert np.abs(ramp - wanted)[2:-2].max() < 0.015


def test_whole_pictures_become_square(tmp_path):
    write_celeba(tmp_path / "c")
    data = untwine.dataset("celeba", path=str(tmp_path / "c"), crop="whole", size=128)
    red, green, _ = data.take([0])[0].numpy()
    wanted = (np.arange(128) + 0.5) / 128
    assert np.abs(red[64] - wanted).max() < 0.015 and np.abs(green[:, 64] - wanted).max() < 0.015


def test_part_of_the_pictures_will_do(tmp_path):
    write_celeba(tmp_path / "c")
    for k in (0, 3, 8):
        (tmp_path / "c" / "img_align_celeba" / name(k)).unlink()
    data = untwine.dataset("celeba", path=str(tmp_path / "c"), split="train")
    assert np.array_equal(data.factors.table, (VALUES[[1, 2, 4]] + 1) // 2)


def test_the_published_tree_of_folders_is_read(tmp_path):
    write_celeba(tmp_path / "Img")
    for below, table in (("Anno", "list_attr_celeba.txt"), ("Eval", "list_eval_partition.txt")):
        (tmp_path / below).mkdir()
        (tmp_path / "Img" / table).rename(tmp_path / below / table)
    assert len(untwine.dataset("celeba", path=str(tmp_path), split="test")) == 2


def test_a_copy_in_the_cache_needs_no_path(tmp_path):
    write_celeba(tmp_path / "cache" / "celeba")
    data = untwine.datasets.celeba()
    assert len(data) == 5 and data.digest == ""


def test_without_files_it_says_what_to_put_where():
    with pytest.raises(
        DataError, match=r"placed by hand: put img_align_celeba.zip.*stand-in faces"
    ):
        untwine.datasets.celeba()


def edit(path, change):
    path.write_text(change(path.read_text()))


@pytest.mark.parametrize(
    ("table", "change", "sentence"),
    [
        ("attr_celeba", lambda t: t.replace("9\n", "10\n", 1), "have as many lines; it has 9"),
        ("attr_celeba", lambda t: t.replace(" Male", "", 1), "40 attributes"),
        ("attr_celeba", lambda t: t[: t.rindex(" ")], "000009.jpg must have 40 values"),
        ("attr_celeba", lambda t: t[:-2] + " 7", "must hold -1 and 1 for attributes"),
        ("attr_celeba", lambda t: t[:-2] + " x", "must hold whole numbers"),
        ("attr_celeba", lambda t: "", "must begin with the number of its lines"),
        ("eval_partition", lambda t: t.replace("000004.jpg 0\n", ""), "000004.jpg must have"),
        ("eval_partition", lambda t: t.replace("000004.jpg 0", "000004.jpg 5"), "parts 0, 1 and 2"),
    ],
)
def test_odd_tables_are_refused(tmp_path, table, change, sentence):
    write_celeba(tmp_path)
    edit(tmp_path / f"list_{table}.txt", change)
    with pytest.raises(DataError, match=sentence) as refusal:
        untwine.dataset("celeba", path=str(tmp_path))
    assert "list_attr_celeba.txt" in str(refusal.value)


def test_odd_pictures_are_refused_by_name(tmp_path):
    folder = write_celeba(tmp_path) / "img_align_celeba"
    Image.new("RGB", (178, 178)).save(folder / name(4))
    with pytest.raises(DataError, match=r"000005.jpg in .* has 178x178 pixels, not 178x218"):
        untwine.dataset("celeba", path=str(tmp_path))
    (folder / name(4)).write_bytes((folder / name(3)).read_bytes()[:700])
    with pytest.raises(DataError, match=r"000005.jpg in .* is damaged"):
        untwine.dataset("celeba", path=str(tmp_path))
    (folder / name(4)).rename(folder / "someone.jpg")
    with pytest.raises(DataError, match=r"someone.jpg in .* is not in the list of attributes"):
        untwine.dataset("celeba", path=str(tmp_path))


def test_missing_pieces_are_named(tmp_path):
    write_celeba(tmp_path)
    (tmp_path / "list_eval_partition.txt").unlink()
    with pytest.raises(DataError, match=r"lacks list_eval_partition.txt"):
        untwine.dataset("celeba", path=str(tmp_path))
    (tmp_path / "empty").mkdir()
    write_tables(tmp_path / "empty")
    with pytest.raises(DataError, match=r"img_align_celeba or its .zip is missing"):
        untwine.dataset("celeba", path=str(tmp_path / "empty"))


def test_a_table_in_an_npz_must_have_its_arrays(tmp_path):
    write_celeba(tmp_path)
    np.savez(tmp_path / "celeba_attrs_known.npz", names=np.array(["a.jpg"]))
    with pytest.raises(DataError, match=r"celeba_attrs_known.npz has no attr_names"):
        untwine.dataset("celeba", path=str(tmp_path))


def test_real_faces_have_the_published_shares_of_attributes(tmp_path, shared):
    """Of the real pictures only a few are decoded; the labels are all there."""
    folder = shared("data/celeba")
    known = np.load(folder / "celeba_attrs_known.npz")
    np.savez(tmp_path / "celeba_attrs_known.npz", **known)
    with (
        zipfile.ZipFile(folder / "celeba_000001-010000_89x109.zip") as source,
        zipfile.ZipFile(tmp_path / "celeba_few.zip", "w") as target,
    ):
        for k in range(400):
            target.writestr(name(k), source.read(name(k)))
    data = untwine.dataset("celeba", path=str(tmp_path))
    assert len(data) == 400 and data.shape == (3, 64, 64)
    male = data.factors.table[:, data.factors.names.index("Male")]
    assert 1 - male.mean() == pytest.approx(0.5806, abs=0.06)
    assert 0.3 < data.take(np.arange(400)).mean() < 0.6


def test_the_parts_of_real_labels_are_those_of_the_official_split(shared):
    known = np.load(shared("data/celeba") / "celeba_attrs_known.npz")
    number = np.array([int(name[:6]) for name in known["names"]])
    assert np.array_equal(known["partition"], np.searchsorted([162_771, 182_638], number, "right"))
