"""The doors by name: functions from a file to whatever commands make of it."""

import os
import tempfile
from pathlib import Path

import untwine
from untwine.data.idx import read_idx
from untwine.datasets.folder import folder
from untwine.scoring.rows import read_rows
from untwine.study.file import read_study
from untwine.study.published import read_published


def folder_of(path: Path):
    """A folder with this one picture."""
    with tempfile.TemporaryDirectory() as place:
        os.link(path, Path(place) / "x.png")
        return folder(path=place)


DOORS = {
    "array": lambda path: untwine.dataset("array", path=str(path)),
    "score": lambda path: read_rows(path),
    "picture": folder_of,
    "idx": lambda path: read_idx(path, 3),
    "study": read_study,
    "table": lambda path: read_published([path]),
}
