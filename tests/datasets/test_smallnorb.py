"""smallNORB: binary matrices in the published format, written here."""

import gzip
import struct

import numpy as np
import pytest

import untwine
from untwine.data.pictures import shrink
from untwine.errors import DataError

CHUNKS = ("5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing")
MAGIC = {"uint8": 507333717, "int32": 507333716, "float32": 507333713}
N = 12


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


def matrix(values):
    """An array in the format of the files: sizes of short shapes are filled up with ones."""
    sizes = [*values.shape, 1, 1][: max(3, values.ndim)]
    header = struct.pack(f"<{2 + len(sizes)}i", MAGIC[str(values.dtype)], values.ndim, *sizes)
    return header + values.tobytes()


def contents(chunk):
    """What one of the two chunks holds: pairs of images, categories, and facts."""
    rng = np.random.default_rng(chunk)
    yield "dat", rng.integers(0, 256, (N, 2, 96, 96), dtype=np.uint8)
    yield "cat", rng.integers(0, 5, N, dtype=np.int32)
    columns = [rng.integers(0, top, N) * step for top, step in ((10, 1), (9, 1), (18, 2), (6, 1))]
    yield "info", np.stack(columns, 1).astype(np.int32)


def write_smallnorb(root, packed=True):
    for chunk, name in enumerate(CHUNKS):
        for part, values in contents(chunk):
            write(root / f"smallnorb-{name}-{part}.mat", matrix(values), packed)
    return root


def write(path, content, packed):
    if packed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, 1))
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("packed", [True, False])
def test_both_chunks_come_with_their_factors(tmp_path, packed):
    data = untwine.dataset("smallnorb", path=str(write_smallnorb(tmp_path, packed)))
    assert len(data) == 2 * N and data.shape == (1, 64, 64) and data.digest
    assert data.factors.names == ("category", "elevation", "azimuth", "lighting")
    assert data.factors.sizes == (5, 9, 18, 6)
    wanted = []
    for chunk in range(2):
        (_, _), (_, category), (_, info) = contents(chunk)
        wanted.append(np.stack([category, info[:, 1], info[:, 2] // 2, info[:, 3]], 1))
    assert np.array_equal(data.factors.levels_at(np.arange(2 * N)), np.concatenate(wanted))


def test_the_first_camera_is_shrunk(tmp_path):
    write_smallnorb(tmp_path)
    data = untwine.dataset("smallnorb", path=str(tmp_path))
    seen = (data.take([N + 3])[0, 0].numpy() * 255).round()
    pairs = next(contents(1))[1]
    assert np.array_equal(seen, shrink(pairs[3, 0], 64)[..., 0])
    full = untwine.dataset("smallnorb", path=str(tmp_path), size=96)
    assert np.array_equal((full.take([N + 3])[0, 0].numpy() * 255).round(), pairs[3, 0])


def test_it_is_decoded_once(tmp_path):
    write_smallnorb(tmp_path)
    first = untwine.dataset("smallnorb", path=str(tmp_path))
    made = list((tmp_path / "cache").glob("smallnorb-*/images.npy"))
    before = made[0].stat().st_mtime_ns
    again = untwine.datasets.smallnorb(path=str(tmp_path), digest=first.digest)
    assert len(made) == 1 and made[0].stat().st_mtime_ns == before
    assert len(again) == len(first)


def damage(root, part, change):
    path = root / f"smallnorb-{CHUNKS[0]}-{part}.mat"
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("part", "change", "sentence"),
    [
        ("dat", lambda c: b"\0" * 4 + c[4:], "begins with 0, not 507333717"),
        ("dat", lambda c: c[:-1], "dat.mat ends too early"),
        ("dat", lambda c: c[:6], "dat.mat ends too early"),
        ("dat", lambda c: matrix(np.zeros((N, 2, 64, 64), np.uint8)), r"\(24300, 2, 96, 96\)"),
        ("dat", lambda c: matrix(np.zeros((N, 2, 96, 96), np.int32)), "must hold bytes"),
        ("cat", lambda c: matrix(np.zeros(N - 1, np.int32)), r"whole numbers \(12,\)"),
        ("cat", lambda c: matrix(np.full(N, 5, np.int32)), "levels that smallNORB does not have"),
        ("info", lambda c: matrix(np.zeros((N, 3), np.int32)), r"whole numbers \(12, 4\)"),
        ("info", lambda c: matrix(np.zeros((N, 4), np.float32)), "whole numbers"),
    ],
)
def test_odd_files_are_refused_by_name(tmp_path, part, change, sentence):
    write_smallnorb(tmp_path, packed=False)
    damage(tmp_path, part, change)
    with pytest.raises(DataError, match=sentence) as refusal:
        untwine.dataset("smallnorb", path=str(tmp_path))
    assert f"{part}.mat" in str(refusal.value)


def test_a_cut_archive_is_refused_and_leaves_nothing_behind(tmp_path):
    write_smallnorb(tmp_path)
    path = tmp_path / f"smallnorb-{CHUNKS[1]}-dat.mat.gz"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"testing-dat.mat.gz (is damaged|ends too early)"):
        untwine.dataset("smallnorb", path=str(tmp_path))
    assert not list((tmp_path / "cache").glob("*/images.npy"))


def test_a_missing_file_is_named(tmp_path):
    write_smallnorb(tmp_path, packed=False)
    (tmp_path / f"smallnorb-{CHUNKS[1]}-info.mat").unlink()
    with pytest.raises(DataError, match=r"lacks smallnorb-5x01235.*-testing-info.mat or"):
        untwine.dataset("smallnorb", path=str(tmp_path))
