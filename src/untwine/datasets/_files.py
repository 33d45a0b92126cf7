"""Where data files live and how they arrive."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError
from untwine.store import write_atomically, write_json


def cache_directory() -> Path:
    """`$UNTWINE_DATA`, or the platform's cache directory."""
    import pooch

    return Path(os.environ.get("UNTWINE_DATA") or pooch.os_cache("untwine"))


def fetch(name: str, url: str, known_hash: str) -> Path:
    """The file at this address, downloaded once and checked."""
    import pooch

    folder, file = cache_directory(), url.rpartition("/")[2]
    try:
        path = pooch.retrieve(url, known_hash, file, folder, progressbar=sys.stderr.isatty())
    except (OSError, ValueError) as error:
        raise DataError(
            f"{name} could not be downloaded ({error.__class__.__name__}); put {file} into "
            f"{folder}, or name its place with --set {name}.path=FILE"
        ) from error
    return Path(path)


def digest_of(files: Iterable[tuple[str, bytes]]) -> str:
    """A short name for the content of files, given as (name, content)."""
    total = hashlib.sha256()
    for name, content in files:
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


def digest_of_files(paths: Iterable[Path]) -> str:
    """A short name for the content of large files; it is remembered while they do not change."""
    return digest_of((path.name, _sha256(path).encode()) for path in paths)


def _sha256(path: Path) -> str:
    """The checksum of a file, read from disk only when its size or time has changed."""
    stat = path.stat()
    state = f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"
    note = cache_directory() / "checksums" / f"{hashlib.sha256(state.encode()).hexdigest()}.json"
    try:
        return str(json.loads(note.read_text())["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    note.parent.mkdir(parents=True, exist_ok=True)
    write_json(note, {"sha256": found, "path": str(path)})
    return found


def cached(
    name: str, digest: str, make: Callable[[], dict[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Arrays that are made once and memory-mapped ever after, by name.

    `make` runs in one process while others wait. Files appear whole or not at all, so what a
    crash leaves is made again; the list of names is written last.
    """
    folder = cache_directory() / f"{name}-{digest}"
    names = folder / "arrays.json"
    if not names.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock"):
            if not names.exists():
                made = make()
                for key, values in made.items():
                    write_atomically(folder / f"{key}.npy", lambda s, v=values: np.save(s, v))
                write_json(names, list(made))
    try:
        keys: list[str] = json.loads(names.read_text())
        return {key: np.load(folder / f"{key}.npy", mmap_mode="c") for key in keys}
    except (OSError, ValueError) as error:
        raise DataError(
            f"the cached copy of {name} in {folder} is damaged ({error}); delete that folder"
        ) from error


def existing(path: str, kind: str) -> Path:
    """The path, if something is there."""
    found = Path(path).expanduser()
    if not found.exists():
        raise DataError(f"there is no {kind} at {path}")
    return found


def check_digest(path: str, wanted: str, found: str) -> str:
    """Refuse data that is not what a run was made with."""
    if wanted and wanted != found:
        raise DataError(
            f"the data at {path} is not what this run was made with (digest {found}, not {wanted});"
            " put the old data back or start a new run"
        )
    return found
