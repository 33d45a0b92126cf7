"""3D Chairs, 3D FACES and Cars: folders of pictures with the published names, written here."""

import functools
import io
import os
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image, ImageDraw
from scipy.io import savemat

import untwine
from untwine.errors import DataError

MODELS = [f"{letter}{letter}0{k}" for k, letter in enumerate("abcde")]
ELEVATIONS, AZIMUTHS = (20, 30), (11, 24, 232)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


def save(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


@functools.cache
def chair(model, elevation, azimuth):
    """A box with a thin leg on white: its place tells the view, its grey the model."""
    image = Image.new("RGB", (600, 600), "white")
    draw = ImageDraw.Draw(image)
    left, top, grey = 120 + azimuth, 150 + 4 * elevation, 40 * model
    draw.rectangle((left, top, left + 79, top + 79), fill=(grey, grey, 250))
    draw.rectangle((left, top + 80, left + 3, top + 159), fill=(0, 0, 0))
    stream = io.BytesIO()
    image.save(stream, "png", compress_level=1)
    return stream.getvalue()


def write_chairs(root, models=MODELS):
    views = [(e, a) for e in ELEVATIONS for a in AZIMUTHS]
    for m, model in enumerate(models):
        for k, (e, a) in enumerate(views, 1):
            path = root / "rendered_chairs" / model / "renders"
            path.mkdir(parents=True, exist_ok=True)
            (path / f"image_{k:03}_p{e:03}_t{a:03}_r096.png").write_bytes(chair(m, e, a))
    (root / "rendered_chairs" / "all_chair_names.mat").write_bytes(b"names")
    return root / "rendered_chairs"


def packed_tar(folder):
    with tarfile.open(folder.parent / "rendered_chairs.tar", "w") as archive:
        archive.add(folder, "rendered_chairs")
    return folder.parent / "rendered_chairs.tar"


def packed_zip(folder):
    with zipfile.ZipFile(folder.parent / "x.zip", "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent))
        archive.writestr("__MACOSX/._00001.jpg", b"hidden")
    return folder.parent / "x.zip"


@pytest.mark.parametrize("pack", [lambda folder: folder, packed_tar])
def test_chairs_are_a_grid_of_models_and_views(tmp_path, pack):
    data = untwine.dataset("chairs3d", path=str(pack(write_chairs(tmp_path))), split="all")
    assert data.shape == (1, 64, 64) and data.digest
    assert data.factors.names == ("model", "elevation", "azimuth")
    assert data.factors.sizes == (5, 2, 3) and data.factors.table is None


def test_masks_are_black_and_white_and_keep_thin_legs(tmp_path):
    data = untwine.dataset("chairs3d", path=str(write_chairs(tmp_path)), split="all")
    x = data.take(np.arange(len(data)))
    assert set(x.unique().tolist()) == {0, 1}
    assert x.sum((1, 2, 3)).min() > (80 / 400 * 64) ** 2  # more than the seat alone
    assert (x[:6] == x[6:12]).all()  # the same views of another model, as masks
    left = [image[0].any(0).nonzero()[0].item() for image in x[:3]]
    assert left == sorted(left) and left[0] < left[1] < left[2]


def test_chairs_in_colour_show_the_model(tmp_path):
    path = str(write_chairs(tmp_path))
    data = untwine.dataset("chairs3d", path=path, split="all", kind="colour", crop=0, size=150)
    x = data.take([0, 6, 24])
    assert x.shape == (3, 3, 150, 150) and x[0, :, 0, 0].tolist() == [1, 1, 1]
    row, column = (150 + 80 + 40) // 4, (120 + 11 + 40) // 4
    grey = (x[:, 0, row, column] * 255).round().tolist()
    assert grey == [0, 40, 160]


def test_the_first_four_fifths_of_the_models_are_for_training(tmp_path):
    path = str(write_chairs(tmp_path))
    train, test = (untwine.dataset("chairs3d", path=path, split=s) for s in ("train", "test"))
    assert train.factors.sizes == (4, 2, 3) and test.factors.sizes == (1, 2, 3)
    whole = untwine.dataset("chairs3d", path=path, split="all")
    assert (whole.take(np.arange(24, 30)) == test.take(np.arange(6))).all()


def test_a_list_chooses_models_and_is_part_of_the_digest(tmp_path):
    path = write_chairs(tmp_path)
    (path / "models.txt").write_text("bb01\ndd03\n")
    chosen = untwine.dataset("chairs3d", path=str(path), split="all")
    assert chosen.factors.sizes == (2, 2, 3)
    (path / "models.txt").write_text("bb01\nee04\n")
    assert untwine.dataset("chairs3d", path=str(path), split="all").digest != chosen.digest
    (path / "models.txt").write_text("zz99\n")
    with pytest.raises(DataError, match=r"no renderings .* of the models in models.txt"):
        untwine.dataset("chairs3d", path=str(path))


def test_missing_views_make_a_table(tmp_path):
    path = write_chairs(tmp_path)
    (path / "bb01" / "renders" / "image_002_p020_t024_r096.png").unlink()
    data = untwine.dataset("chairs3d", path=str(path), split="all")
    assert data.factors.sizes == (5, 2, 3) and len(data.factors.table) == 29
    assert [1, 0, 1] not in data.factors.table.tolist()


def test_a_damaged_rendering_is_named(tmp_path):
    path = write_chairs(tmp_path)
    name = path / "cc02" / "renders" / "image_001_p020_t011_r096.png"
    name.write_bytes(name.read_bytes()[:100])
    with pytest.raises(DataError, match=r"cc02/renders/image_001_p020_t011_r096.png in .* damaged"):
        untwine.dataset("chairs3d", path=str(path))
    name.write_bytes(b"nothing at all")
    with pytest.raises(DataError, match=r"image_001_p020_t011_r096.png in .* is not a picture"):
        untwine.dataset("chairs3d", path=str(path))


def test_other_folders_and_cut_archives_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no renderings named MODEL/renders/image_001"):
        untwine.dataset("chairs3d", path=str(tmp_path / "empty"))
    (tmp_path / "x.tar").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"not a folder or a whole .zip or .tar"):
        untwine.dataset("chairs3d", path=str(tmp_path / "x.tar"))
    archive = packed_tar(write_chairs(tmp_path, MODELS[:1]))
    archive.write_bytes(archive.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"rendered_chairs.tar"):
        untwine.dataset("chairs3d", path=str(archive), split="all")


def test_odd_things_in_a_folder_are_refused_or_left_out(tmp_path):
    path = write_chairs(tmp_path, MODELS[:2])
    os.mkfifo(path / "pipe.png")
    (path / "models.txt").write_bytes(b"\xff aa00")
    assert len(untwine.dataset("chairs3d", path=str(path), split="all")) == 6
    (path / "loop").symlink_to(path)
    (path / "another").symlink_to(path)
    with pytest.raises(DataError, match="is a link to a folder that contains it"):
        untwine.dataset("chairs3d", path=str(path))


@pytest.mark.parametrize("name", ["cars3d", "smallnorb"])
def test_what_is_no_file_in_a_folder_is_named(tmp_path, name):
    chunks = ("5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing")
    files = [f"smallnorb-{c}-{part}.mat" for c in chunks for part in ("dat", "cat", "info")]
    for file in files:
        os.mkfifo(tmp_path / file)
    with pytest.raises(DataError, match=r"\.mat is not a file|there is no|lacks"):
        untwine.dataset(name, path=str(tmp_path))


def coloured(*levels):
    return Image.new("RGB", (90, 100), tuple(20 * level for level in (*levels, 0, 0)[:3]))


def write_faces(root):
    """The 270 renderings of the model: ten scans in 27 views."""
    for scan in range(10):
        for view in range(27):
            name = f"{scan:05}_20061015_{400 + scan:05}_pose{view // 3}_light{view % 3}.png"
            save(root / "faces" / "05_renderings" / name, coloured(scan, view // 3, view % 3))
    return root / "faces"


@pytest.mark.parametrize("pack", [lambda folder: folder, packed_zip])
def test_published_faces_have_identities_and_views(tmp_path, pack):
    folder = write_faces(tmp_path)
    if pack is packed_zip:
        (folder / "05_renderings" / "readme.txt").write_text("not a picture")
    data = untwine.dataset("faces3d", path=str(pack(folder)), split="all", size=32)
    assert data.shape == (3, 32, 32)
    assert (data.factors.names, data.factors.sizes) == (("identity", "view"), (10, 27))
    index = np.array([0, 30, 269])
    scan, view = data.factors.levels_at(index).T
    colours = (data.take(index)[:, :, 5, 5].numpy() * 255).round()
    assert np.array_equal(colours, 20 * np.stack([scan, view // 3, view % 3], 1))


def test_faces_are_divided_as_in_the_paper(tmp_path):
    path = str(write_faces(tmp_path))
    train, test = (
        untwine.dataset("faces3d", path=path, split=s, size=16) for s in ("train", "test")
    )
    assert len(train) == 256 and len(test) == 9
    assert train.factors.sizes == test.factors.sizes == (10, 27)
    assert (test.factors.levels_at(np.arange(9))[:, 0] == 9).all()


def test_faces_of_your_own_are_named_by_numbers(tmp_path):
    for identity in (7, 12):
        for azimuth in (-30, 0, 30):
            for light in (2, 10):
                save(tmp_path / "f" / f"{identity}_{azimuth}_5_{light}.png", coloured(light))
    data = untwine.dataset("faces3d", path=str(tmp_path / "f"), split="all")
    assert data.factors.names == ("identity", "azimuth", "elevation", "lighting")
    assert data.factors.sizes == (2, 3, 1, 2) and data.factors.table is None
    assert (data.take([0, 1])[:, 0, 3, 3] * 255).round().tolist() == [40, 200]


def test_faces_with_other_names_are_refused(tmp_path):
    folder = write_faces(tmp_path)
    save(folder / "face.png", coloured(1))
    with pytest.raises(DataError, match="must hold pictures that are all named as published"):
        untwine.dataset("faces3d", path=str(folder))
    with pytest.raises(DataError, match=r"faces3d has to be placed by hand.*the stand-in faces"):
        untwine.datasets.faces3d()


def annotations(labels):
    """A list as published: a structure with the file's name and the model from 1."""
    kinds = [("bbox_x1", object), ("class", object), ("fname", object)]
    rows = np.array([(1, label, name) for name, label in labels.items()], dtype=kinds)
    stream = io.BytesIO()
    savemat(stream, {"annotations": rows[None]})
    return stream.getvalue()


def write_cars(root):
    """The published folders: pictures in two of them, lists beside them."""
    parts = {"train": {"00001.jpg": 3, "00002.jpg": 196, "00003.jpg": 3}, "test": {"00001.jpg": 1}}
    lists = {"train": "devkit/cars_train_annos.mat", "test": "cars_test_annos_withlabels.mat"}
    for part, labels in parts.items():
        for name, label in labels.items():
            save(root / "c" / f"cars_{part}" / name, Image.new("RGB", (120, 80), (label, 0, 0)))
        (root / "c" / lists[part]).parent.mkdir(exist_ok=True)
        (root / "c" / lists[part]).write_bytes(annotations(labels))
    save(root / "c" / "cars_train" / "00002.jpg", Image.new("L", (50, 70), 128))
    return root / "c"


@pytest.mark.parametrize("pack", [lambda folder: folder, packed_zip])
def test_published_cars_have_the_models_of_their_lists(tmp_path, pack):
    path = str(pack(write_cars(tmp_path)))
    train, test, whole = (
        untwine.dataset("cars", path=path, split=s) for s in ("train", "test", "all")
    )
    assert train.factors.names == ("model",) and train.factors.sizes == (196,)
    assert train.factors.table.ravel().tolist() == [2, 195, 2]
    assert test.factors.table.ravel().tolist() == [0] and len(whole) == 4
    assert train.shape == (3, 64, 64)
    assert train.take([1])[0, :, 9, 9].tolist() == pytest.approx([128 / 255] * 3, abs=0.01)


def test_cars_in_folders_by_model_are_read_too(tmp_path):
    for part, model in [
        ("train", "BMW M3 2012"),
        ("train", "Audi S4 2007"),
        ("test", "BMW M3 2012"),
    ]:
        save(tmp_path / "car_data" / part / model / "1.jpg", Image.new("RGB", (20, 20), "red"))
    train, test = (untwine.dataset("cars", path=str(tmp_path), split=s) for s in ("train", "test"))
    assert train.factors.sizes == test.factors.sizes == (2,)
    assert train.factors.table.ravel().tolist() == [0, 1] and test.factors.table.tolist() == [[1]]


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        (b"nothing", "cars_train_annos.mat in .* is not a MATLAB file with annotations"),
        (annotations({"00001.jpg": 1, "9.jpg": 1}), "00002.jpg in .* is not in the list"),
        (annotations({"00001.jpg": 197, "9.jpg": 1}), "models beyond the 196"),
    ],
)
def test_odd_lists_of_cars_are_refused(tmp_path, held, sentence):
    folder = write_cars(tmp_path)
    (folder / "devkit" / "cars_train_annos.mat").write_bytes(held)
    with pytest.raises(DataError, match=sentence):
        untwine.dataset("cars", path=str(folder))


def test_cars_with_one_of_their_lists_are_refused(tmp_path):
    path = write_cars(tmp_path)
    (path / "cars_test_annos_withlabels.mat").unlink()
    save(path / "test" / "BMW" / "1.jpg", Image.new("RGB", (20, 20), "red"))
    with pytest.raises(DataError, match="holds one of the lists"):
        untwine.dataset("cars", path=str(path))


def test_a_folder_without_cars_is_refused(tmp_path):
    (tmp_path / "c").mkdir()
    with pytest.raises(
        DataError, match=r"neither cars_train/ with cars_train_annos.mat nor train/"
    ):
        untwine.dataset("cars", path=str(tmp_path / "c"))
    save(tmp_path / "c" / "train" / "a" / "1.jpg", Image.new("RGB", (9, 9)))
    with pytest.raises(DataError, match="no pictures of the part named test"):
        untwine.dataset("cars", path=str(tmp_path / "c"), split="test")


def test_a_damaged_member_of_an_archive_is_named(tmp_path):
    path = packed_zip(write_cars(tmp_path))
    content = path.read_bytes()
    at = content.index(b"c/cars_train/00001.jpg") + 200
    path.write_bytes(content[:at] + b"????" + content[at + 4 :])
    with pytest.raises(DataError, match=r"c/cars_train/00001.jpg in .* cannot be read: Bad CRC"):
        untwine.dataset("cars", path=str(path))
