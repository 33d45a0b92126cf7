"""Where data files live and how they arrive."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from untwine.errors import DataError


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
