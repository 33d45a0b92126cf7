"""The doors by name: functions from a file to whatever commands make of it."""

import importlib
import os
import tempfile
from pathlib import Path

import untwine
from untwine.data.idx import read_idx
from untwine.data.in_memory import identify, read_stored
from untwine.datasets.folder import folder
from untwine.scoring.rows import read_rows
from untwine.study.file import read_study
from untwine.study.published import read_published

NORB_PARTS = {"dat", "cat", "info"}
NORB_CHUNKS = ("5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing")


def folder_of(path: Path):
    """A folder with this one picture."""
    with tempfile.TemporaryDirectory() as place:
        os.link(path, Path(place) / "x.png")
        return folder(path=place)


def cars3d(path: Path):
    """One car, in a folder of .mat files or in the archive."""
    module = importlib.import_module("untwine.datasets.cars3d")
    module.CARS = 1
    if path.suffix != ".mat":
        return module.cars3d(path=str(path), size=16)
    with tempfile.TemporaryDirectory() as place:
        os.link(path, Path(place) / "car.mat")
        return module.cars3d(path=place, size=16)


def smallnorb(path: Path):
    """A folder with good files and this one, which is named after the part that it replaces."""
    with tempfile.TemporaryDirectory() as place:
        for chunk in NORB_CHUNKS:
            for part in NORB_PARTS:
                file = path if part == path.name else path.with_name(f"good-{part}")
                os.link(file, Path(place) / f"smallnorb-{chunk}-{part}.mat.gz")
        return untwine.datasets.smallnorb(path=place, size=16)


def table(path: Path):
    """As data, with the column `kind` as a factor where there is one."""
    try:
        return untwine.datasets.table(path=str(path), factors="kind")
    except untwine.errors.DataError:
        return untwine.datasets.table(path=str(path))


DOORS = {
    "array": lambda path: untwine.dataset("array", path=str(path)),
    "score": lambda path: read_rows(path),
    "picture": folder_of,
    "idx": lambda path: read_idx(path, 3),
    "study": read_study,
    "table": lambda path: read_published([path]),
    "hdf5": lambda path: untwine.datasets.shapes3d(path=str(path)),
    "matlab": cars3d,
    "tar of MATLAB": cars3d,
    "zip": lambda path: untwine.datasets.faces3d(path=str(path), size=16, split="all"),
    "tar": lambda path: untwine.datasets.faces3d(path=str(path), size=16, split="all"),
    "dsprites": lambda path: untwine.datasets.dsprites(path=str(path)),
    "smallnorb": smallnorb,
    "data table": table,
    "stored data": lambda path: identify(read_stored(path)),
}
