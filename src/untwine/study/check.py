"""Check the files of runs, studies, models and caches: what is damaged, and what mends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from untwine.data.cache import CHECKSUM, INDEX, MAX_INDEX_BYTES, read_arrays
from untwine.errors import DataError, RunError, UntwineError
from untwine.runs.cards import load_model
from untwine.runs.directory import (
    DONE,
    RUN,
    SCORES,
    check_weights,
    is_finished,
    list_runs,
    parse_spec,
    read_done,
    read_history,
    read_record,
    read_scores,
)
from untwine.runs.hub import HUB_FOLDERS
from untwine.runs.progress import FAILED, PROGRESS
from untwine.runs.states import list_states, read_state
from untwine.study.folder import MAX_STUDY_BYTES, STUDY, list_folders, read_imported
from untwine.study.stored_codes import read_codes
from untwine.tools.files import read_bytes
from untwine.tools.sealed import MAX_JSON_BYTES, is_sealed, read_json

WHOLE, UNSEALED = "whole", "readable, not sealed: written by an older version"


class Finding(NamedTuple):
    """What a check says about a file."""

    file: Path
    state: str  # WHOLE, UNSEALED, or what is wrong and what mends it

    @property
    def is_damaged(self) -> bool:
        return self.state not in (WHOLE, UNSEALED)


def check_files(path: Path) -> Iterator[Finding]:
    """Read and verify every file of a run, a study, a directory of either, a model or a cache."""
    if os.path.lexists(path / "run.json"):
        yield from check_run(path)
    elif os.path.lexists(path / "study.json"):
        yield from check_study(path)
    elif os.path.lexists(path / "model.json"):
        yield _check(path, lambda: load_model(path))
    elif os.path.lexists(path / "arrays.json"):
        yield from _check_arrays(path)
    elif runs := list_runs(path):
        for run in runs:
            yield from check_run(run)
    elif studies := list_folders(path):
        for study in studies:
            yield from check_study(study)
    elif any((path / name).is_dir() for name in ("checksums", "hub")) or any(
        path.glob("*/arrays.json")
    ):
        yield from check_cache(path)
    else:
        raise DataError(
            f"there is no run, study, model or cache at {path}; name the directory of one"
        )


def check_run(path: Path) -> Iterator[Finding]:
    """Verify every file in the directory of a run."""
    yield _check_json(path / "run.json", RUN, lambda: parse_spec(read_record(path)))
    for state in list_states(path / "states"):
        yield _check(state, lambda state=state: read_state(state))
    for name, shape in {"failed.json": FAILED, "progress.json": PROGRESS}.items():
        if os.path.lexists(path / name):
            yield _check_json(path / name, shape)
    if not is_finished(path):
        return
    yield _check_json(path / "done.json", DONE, lambda: _check_hash(path))
    yield _check(path / "model.safetensors", lambda: check_weights(path))
    yield _check(path / "history.csv", lambda: read_history(path, read_done(path)))
    if os.path.lexists(path / "scores.json"):
        yield _check_json(path / "scores.json", SCORES, lambda: read_scores(path))
    if os.path.lexists(path / "codes.npz"):
        yield _check(path / "codes.npz", lambda: read_codes(path))
    if os.path.lexists(path / "measures.json"):
        yield _check_json(path / "measures.json", {str: object})


def check_study(path: Path) -> Iterator[Finding]:
    """Verify the files of a study and of the runs in its directory."""
    yield _check_json(path / "study.json", STUDY, max_bytes=MAX_STUDY_BYTES)
    if os.path.lexists(path / "imported.csv"):
        yield _check(path / "imported.csv", lambda: read_imported(path))
    for run in list_runs(path / "runs"):
        yield from check_run(run)


def check_cache(path: Path) -> Iterator[Finding]:
    """Verify the decoded datasets, the models and the remembered checksums in a cache."""
    for file in sorted(path.glob("*/arrays.json")):
        yield from _check_arrays(file.parent)
    for model in sorted(path.glob(HUB_FOLDERS)):
        yield _check(model, lambda model=model: load_model(model, remedy="delete the folder"))
    for note in sorted((path / "checksums").glob("*.json")):
        shape = INDEX if note.name.startswith("folder-") else CHECKSUM
        yield _check_json(note, shape, max_bytes=MAX_INDEX_BYTES)


def _check_arrays(folder: Path) -> Iterator[Finding]:
    yield _check(folder, lambda: read_arrays(folder, fresh=True), "it is decoded again when used")


def _check_json(
    file: Path,
    shape: Any,
    further: Callable[[], object] | None = None,
    max_bytes: int = MAX_JSON_BYTES,
) -> Finding:
    def read() -> None:
        read_json(file, shape, max_bytes=max_bytes)
        if further:
            further()

    finding = _check(file, read)
    if finding.is_damaged or is_sealed(read_bytes(file, MAX_STUDY_BYTES)):
        return finding
    return Finding(file, UNSEALED)


def _check(file: Path, read: Callable[[], object], remedy: str = "") -> Finding:
    try:
        read()
    except FileNotFoundError:
        return Finding(file, "missing")
    except (UntwineError, OSError) as error:
        return Finding(file, f"{error}{remedy and f'; {remedy}'}")
    return Finding(file, WHOLE)


def _check_hash(path: Path) -> None:
    if parse_spec(read_record(path)).hash != read_done(path)["hash"]:
        raise RunError(f"{path / 'run.json'} was changed after the run had finished; put it back")
