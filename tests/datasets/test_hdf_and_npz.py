"""3D Shapes and MPI3D: large files in the published formats, written here small."""

import importlib
import zipfile

import h5py
import numpy as np
import pytest

import untwine
from untwine.data.dataset import Factors
from untwine.datasets.shapes3d_render import FACTORS
from untwine.errors import DataError

SHAPES3D = Factors(
    ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation"),
    (10, 10, 10, 8, 4, 15),
)
MPI3D = (6, 6, 2, 3, 3, 40, 40)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


def labels(levels):
    """The published values of these levels."""
    hues = np.arange(10) / 10
    scales, angles = np.linspace(0.75, 1.25, 8), np.linspace(-30, 30, 15)
    values = (hues, hues, hues, scales, np.arange(4.0), angles)
    return np.stack([value[level] for value, level in zip(values, levels.T, strict=True)], 1)


def write_shapes3d(root, n=2100, side=8, **changes):
    index = np.arange(n) * (480_000 // n)
    held = {
        "images": np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8),
        "labels": labels(SHAPES3D.levels_at(index)),
        **changes,
    }
    with h5py.File(root / "3dshapes.h5", "w") as file:
        for key, values in held.items():
            if values is not None:
                file.create_dataset(key, data=values, compression="gzip", compression_opts=1)
    return root / "3dshapes.h5"


def write_mpi3d(root, n=1_036_800, side=1, **arrays):
    """All 1,036,800 images, of one pixel: its colour counts them."""
    count = np.arange(n)[:, None] // np.array([65536, 256, 1]) % 256
    images = np.broadcast_to(count[:, None, None].astype(np.uint8), (n, side, side, 3))
    np.savez(root / "mpi3d_toy.npz", **(arrays or {"images": images}))
    return root / "mpi3d_toy.npz"


def test_part_of_3d_shapes_keeps_levels_and_sizes(tmp_path):
    path = write_shapes3d(tmp_path)
    data = untwine.dataset("shapes3d", path=str(path))
    assert (data.factors.names, data.factors.sizes) == (SHAPES3D.names, SHAPES3D.sizes)
    index = np.arange(2100)
    assert np.array_equal(
        data.factors.levels_at(index), SHAPES3D.levels_at(index * (480_000 // 2100))
    )
    with h5py.File(path) as file:
        seen = (data.take(index).permute(0, 2, 3, 1).numpy() * 255).round()
        assert np.array_equal(seen, file["images"][:])


def test_the_whole_of_3d_shapes_is_a_grid(tmp_path):
    data = untwine.dataset("shapes3d", path=str(write_shapes3d(tmp_path, n=480_000, side=1)))
    assert len(data) == 480_000 and data.factors == FACTORS
    assert (FACTORS.names, FACTORS.sizes) == (SHAPES3D.names, SHAPES3D.sizes)


def test_3d_shapes_is_unpacked_once_and_a_damaged_copy_is_made_again(tmp_path):
    path = str(write_shapes3d(tmp_path))
    make = untwine.datasets.shapes3d
    first = make(path=path).take([7])
    (copy,) = (tmp_path / "cache").glob("shapes3d-*/images.npy")
    before = copy.stat().st_mtime_ns
    make(path=path)
    assert copy.stat().st_mtime_ns == before
    copy.write_bytes(copy.read_bytes()[:500])
    assert (make(path=path).take([7]) == first).all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"images": None}, "it has no images"),
        ({"labels": None}, "it has no labels"),
        ({"images": np.zeros((2100, 8, 8), np.uint8)}, r"must be bytes \(480000, 64, 64, 3\)"),
        ({"images": np.zeros((2100, 8, 8, 3), np.float32)}, r"must be bytes"),
        ({"labels": np.zeros((2099, 6))}, r"labels in .* must be numbers \(2100, 6\)"),
        ({"labels": np.full((2100, 6), np.nan)}, "values that the factors of 3D Shapes"),
        ({"labels": np.full((2100, 6), 0.05)}, "values that the factors of 3D Shapes do not have"),
        ({"labels": np.full((2100, 6), 99.0)}, "values that the factors of 3D Shapes do not have"),
    ],
)
def test_an_odd_file_of_3d_shapes_is_refused(tmp_path, changes, sentence):
    with pytest.raises(DataError, match=sentence) as refusal:
        untwine.dataset("shapes3d", path=str(write_shapes3d(tmp_path, **changes)))
    assert "3dshapes.h5" in str(refusal.value)


def test_a_cut_file_of_3d_shapes_is_refused(tmp_path):
    path = write_shapes3d(tmp_path)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(DataError, match=r"3dshapes.h5 is not a whole HDF5 file"):
        untwine.dataset("shapes3d", path=str(path))
    with pytest.raises(DataError, match=r"is not a file; name the file 3dshapes.h5"):
        untwine.dataset("shapes3d", path=str(tmp_path))


def test_mpi3d_is_a_grid_in_the_published_order(tmp_path):
    data = untwine.dataset("mpi3d", path=str(write_mpi3d(tmp_path)))
    assert len(data) == 1_036_800 and data.shape == (3, 1, 1)
    assert data.factors.sizes == MPI3D and data.factors.table is None
    index = np.array([0, 39, 40, 1_036_799, 123_456])
    red, green, blue = (data.take(index)[:, :, 0, 0].numpy() * 255).round().T
    assert np.array_equal(red * 65536 + green * 256 + blue, index)


def test_mpi3d_of_complex_objects_has_fewer_colours_and_shapes(tmp_path):
    data = untwine.dataset("mpi3d", path=str(write_mpi3d(tmp_path, n=460_800)))
    assert data.factors.sizes == (4, 4, 2, 3, 3, 40, 40)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"pictures": np.zeros(3)}, "it has no images"),
        ({"images": np.zeros((10, 64, 64, 3), np.uint8)}, r"must be bytes \(1036800, 64, 64, 3\)"),
        ({"images": np.zeros((460_800, 1, 1, 3), np.int16)}, "must be bytes"),
        ({"images": np.array({"a": 1}, dtype=object)}, "not an array of plain numbers"),
    ],
)
def test_an_odd_file_of_mpi3d_is_refused(tmp_path, arrays, sentence):
    with pytest.raises(DataError, match=sentence) as refusal:
        untwine.dataset("mpi3d", path=str(write_mpi3d(tmp_path, **arrays)))
    assert "mpi3d_toy.npz" in str(refusal.value)


def test_a_cut_or_damaged_file_of_mpi3d_is_refused(tmp_path):
    path = write_mpi3d(tmp_path, n=460_800)
    content = path.read_bytes()
    path.write_bytes(content[:-1000])
    with pytest.raises(DataError, match=r"mpi3d_toy.npz is not a whole .zip or .npz"):
        untwine.dataset("mpi3d", path=str(path))
    path.write_bytes(content[:5000] + b"?" + content[5001:])
    with pytest.raises(DataError, match=r"mpi3d_toy.npz is damaged or cut short: Bad CRC"):
        untwine.dataset("mpi3d", path=str(path))
    assert not list((tmp_path / "cache").glob("mpi3d-*/images.npy"))


def test_an_array_of_mpi3d_that_is_too_short_is_refused(tmp_path):
    path = write_mpi3d(tmp_path, n=460_800)
    with zipfile.ZipFile(path) as archive:
        held = archive.read("images.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", held[:-3])
    with pytest.raises(DataError, match=r"images in .* is cut short"):
        untwine.dataset("mpi3d", path=str(path))


def test_each_variant_of_mpi3d_is_looked_for_under_its_own_name(tmp_path):
    module = importlib.import_module("untwine.datasets.mpi3d")
    (tmp_path / "cache").mkdir()
    write_mpi3d(tmp_path, n=460_800).rename(module.FILES["real"].cache_path)
    assert len(untwine.datasets.mpi3d(variant="real")) == 460_800
