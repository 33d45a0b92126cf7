"""Cars3D: MATLAB files and the archive in the published format, written here."""

import importlib
import io
import tarfile

import numpy as np
import pytest
from scipy.io import savemat

import untwine
from untwine.data.pictures import shrink
from untwine.errors import DataError

CARS = 3  # the published set has 183


@pytest.fixture(autouse=True)
def few(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(importlib.import_module("untwine.datasets.cars3d"), "CARS", CARS)


def views(car):
    """(128, 128, 3, 24, 4): colours that tell car, azimuth and elevation."""
    azimuth, elevation = np.mgrid[:24, :4]
    colour = np.stack([np.full((24, 4), 80 * car), 10 * azimuth, 60 * elevation]).astype(np.uint8)
    return np.broadcast_to(colour, (128, 128, 3, 24, 4))


def content(car, **arrays):
    stream = io.BytesIO()
    savemat(stream, arrays or {"im": views(car)}, do_compression=True)
    return stream.getvalue()


def write_cars3d(root):
    folder = root / "data" / "cars"
    folder.mkdir(parents=True)
    for car in range(CARS):
        (folder / f"car_{car:03}_mesh.mat").write_bytes(content(car))
    return root


def write_archive(root, *, broken=False):
    """The archive with the other data that it carries; the order of its files is not sorted."""
    with tarfile.open(root / "nips2015-analogy-data.tar.gz", "w:gz", compresslevel=1) as archive:
        for name, held in [
            ("data/shapes48.mat", b"shapes"),
            ("data/sprites/sprite.mat", b"sprite"),
            ("data/cars/list.txt", b"car_000_mesh"),
            *((f"data/cars/car_{c:03}_mesh.mat", content(c)) for c in reversed(range(CARS))),
        ]:
            entry = tarfile.TarInfo(name)
            entry.size = len(held)
            archive.addfile(entry, io.BytesIO(held))
    path = root / "nips2015-analogy-data.tar.gz"
    if broken:
        path.write_bytes(path.read_bytes()[:-3000])
    return path


@pytest.mark.parametrize("write", [write_cars3d, write_archive])
def test_folder_and_archive_give_the_grid(tmp_path, write):
    data = untwine.dataset("cars3d", path=str(write(tmp_path)))
    assert data.shape == (3, 64, 64) and len(data) == 4 * 24 * CARS and data.digest
    assert data.factors.names == ("elevation", "azimuth", "object")
    assert data.factors.sizes == (4, 24, CARS) and data.factors.table is None
    index = np.arange(len(data))
    elevation, azimuth, car = data.factors.levels_at(index).T
    colours = (data.take(index)[:, :, 30, 30].numpy() * 255).round()
    assert np.array_equal(colours, np.stack([80 * car, 10 * azimuth, 60 * elevation], 1))


def test_the_published_set_has_183_cars(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.import_module("untwine.datasets.cars3d"), "CARS", 183)
    with pytest.raises(DataError, match="holds 3 cars; Cars3D has 183"):
        untwine.dataset("cars3d", path=str(write_cars3d(tmp_path)))


def test_views_stand_upright_and_are_shrunk(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    write_cars3d(tmp_path)
    shown = np.zeros((128, 128, 3, 24, 4), np.uint8)
    shown[..., 5, 2] = image
    (tmp_path / "data/cars/car_001_mesh.mat").write_bytes(content(1, im=shown))
    data = untwine.dataset("cars3d", path=str(tmp_path))
    place = np.ravel_multi_index((2, 5, 1), data.factors.sizes)
    seen = (data.take([place])[0].permute(1, 2, 0).numpy() * 255).round()
    assert np.array_equal(seen, shrink(image, 64))


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        (b"nothing", "car_002_mesh.mat in .* is not a MATLAB file"),
        (content(0, other=np.zeros(3)), "car_002_mesh.mat in .* is not a MATLAB file"),
        (content(0, im=np.zeros((8, 8, 3, 24, 4), np.uint8)), r"im in car_002.*\(128, 128, 3, 24"),
        (content(0)[:200], "car_002_mesh.mat in .* is not a MATLAB file"),
    ],
)
def test_odd_files_are_refused_by_name(tmp_path, held, sentence):
    write_cars3d(tmp_path)
    (tmp_path / "data" / "cars" / "car_002_mesh.mat").write_bytes(held)
    with pytest.raises(DataError, match=sentence):
        untwine.dataset("cars3d", path=str(tmp_path))


def test_a_cut_archive_and_other_files_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"not a whole \.tar"):
        untwine.dataset("cars3d", path=str(write_archive(tmp_path, broken=True)))
    (tmp_path / "x.tar.gz").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"x.tar.gz is not a whole"):
        untwine.dataset("cars3d", path=str(tmp_path / "x.tar.gz"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no .mat files in .*empty"):
        untwine.dataset("cars3d", path=str(tmp_path / "empty"))
