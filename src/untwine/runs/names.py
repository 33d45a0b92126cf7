"""What runs are called, and where they lie below a directory of runs.

A run's directory is called NAME-MODEL-DATA-HASH. NAME is what the user calls the run, if anything,
and DATA the dataset, or the folder or file that it comes from. The hash alone says which run it is,
so that a directory may be renamed and data may move.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from untwine.errors import ParameterError
from untwine.spec import Run

OWN_DATA = ("folder", "array", "table")  # datasets that are named by their path
NAME = re.compile(r"\w[\w.+-]*")
UNFIT = re.compile(r"[^\w.+-]+")  # for the name of a directory
MAX_NAME = 60  # letters of a name
MAX_LABEL = 40  # letters of the data in the name of a directory


def data_label(spec: Run) -> str:
    """What the data is called: its name, or that of the file or folder it comes from."""
    return Path(str(spec.data.params.get("path") or spec.data.name)).name or spec.data.name


def check_name(name: str) -> None:
    """Refuse a name that cannot begin the name of a directory."""
    if len(name) > MAX_NAME or not NAME.fullmatch(name):
        raise ParameterError(
            f"a run cannot be called {name!r}; use up to {MAX_NAME} letters, digits, '.', '_' and "
            "'-', beginning with a letter or digit"
        )


def directory_name(spec: Run, name: str = "") -> str:
    """What the directory of a new run is called."""
    return "-".join([*([name] if name else []), spec.model_name, _short_label(spec), spec.hash])


def _short_label(spec: Run) -> str:
    """The data in the name of a directory: a file without its ending."""
    if spec.data.name not in OWN_DATA:
        return spec.data.name
    label = data_label(spec)
    stem = label if spec.data.name == "folder" else Path(label).stem
    return UNFIT.sub("-", stem)[:MAX_LABEL].strip("-.") or spec.data.name


def run_name(path: Path, spec: Run) -> str:
    """What the user calls a run, with --name or by renaming its directory; empty if nothing."""
    stem = path.name.removesuffix(f"-{spec.hash}")
    for usual in (f"{spec.model_name}-{_short_label(spec)}", f"{spec.model_name}-{spec.data.name}"):
        if stem == usual or stem.endswith(f"-{usual}"):
            return stem.removesuffix(usual).removesuffix("-")
    return stem


def place_run(spec: Run, out: str | Path, name: str = "") -> Path:
    """The directory of a run below `out`: where it lies already, or where a new one will.

    Args:
        spec: the run.
        out: the directory of runs.
        name: what a new run is called.
    """
    if name:
        check_name(name)
    usual = Path(out) / directory_name(spec, name)
    former = Path(out) / spec.directory  # of studies and of version 0.1
    for path in (usual, former):
        if os.path.lexists(path):
            return path
    with suppress(FileNotFoundError, NotADirectoryError):
        same = [entry.name for entry in os.scandir(out) if entry.name.endswith(f"-{spec.hash}")]
        return Path(out) / min(same, default=usual.name)
    return usual
