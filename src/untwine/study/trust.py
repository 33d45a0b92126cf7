"""Mark runs and studies as one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from untwine.errors import DataError, UntwineError
from untwine.runs.directory import list_runs, read_spec
from untwine.runs.received import named_files
from untwine.study.folder import list_folders, read_study_file
from untwine.tools.trust import mark_as_mine


def trust_directory(path: Path) -> Iterator[list[str]]:
    """Mark a run, a study with its runs, or a directory of either; yield rows (marked, opens)."""
    if os.path.lexists(path / "run.json"):
        yield _trust_run(path)
    elif os.path.lexists(path / "study.json"):
        yield from _trust_study(path)
    elif runs := list_runs(path):
        yield from map(_trust_run, runs)
    elif studies := list_folders(path):
        for study in studies:
            yield from _trust_study(study)
    else:
        raise DataError(f"there is no run or study at {path}; name the directory of one")


def _trust_run(path: Path) -> list[str]:
    """Mark a run; one that cannot be read is left alone."""
    try:
        paths = ", ".join(named_files(read_spec(path).data))
        mark_as_mine(path / "run.json")
    except UntwineError as error:
        return [f"not {path}", str(error)]
    return [str(path), paths]


def _trust_study(path: Path) -> Iterator[list[str]]:
    try:
        place = read_study_file(path).get("place", "")
        mark_as_mine(path / "study.json")
    except UntwineError as error:
        yield [f"not {path}", str(error)]
        return
    yield [str(path), place]
    yield from map(_trust_run, list_runs(path / "runs"))
