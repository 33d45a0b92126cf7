"""Atomic files and JSON."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from untwine.errors import RunError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path.parent} is not a run: it has no {path.name}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} is damaged: it does not hold a JSON object")
    return content


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write to a temporary file beside `path`, flush it to disk, then rename it into place."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    """Make a rename durable, on systems that can."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda stream: stream.write(content))


def write_output(path: Path, content: bytes) -> None:
    """Write a file that the user named: atomically, unless it is a device or a pipe."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(content)
    else:
        write_bytes(path, content)


def write_json(path: Path, content: object) -> None:
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
