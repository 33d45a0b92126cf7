"""Which runs and studies are one's own: a mark made with a key that only the user has.

The mark is the HMAC of run.json or study.json, in the file `.mark` beside it. What is not marked
was received: its paths and addresses are not followed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import IO

import filelock

from untwine.errors import RunError
from untwine.tools.files import read_bytes, write_atomically, write_bytes
from untwine.tools.terminal import warn

MARK_FILE = ".mark"
KEY_BYTES = 32
MAX_MARKED_BYTES = 1 << 28


def config_directory() -> Path:
    """`$UNTWINE_CONFIG`, or the platform's directory for configuration."""
    import platformdirs

    return Path(os.environ.get("UNTWINE_CONFIG") or platformdirs.user_config_path("untwine"))


def is_mine(file: Path) -> bool:
    """Whether this run.json or study.json was marked by the user, and not changed since."""
    try:
        mark = read_bytes(file.with_name(MARK_FILE), 1024)
        return hmac.compare_digest(mark.strip(), _sign(file, _read_key()))
    except (OSError, RunError):
        return False


def mark_as_mine(file: Path) -> None:
    """Mark a run.json or study.json; without a writable configuration, only warn."""
    try:
        key = _make_key()
    except (OSError, RunError) as error:
        warn(f"{file.parent} cannot be marked as yours: {error}; open it with --trust")
        return
    write_bytes(file.with_name(MARK_FILE), _sign(file, key) + b"\n")


def _sign(file: Path, key: bytes) -> bytes:
    content = read_bytes(file, MAX_MARKED_BYTES)
    return hmac.new(key, file.name.encode() + b"\0" + content, hashlib.sha256).hexdigest().encode()


def _read_key() -> bytes:
    key = read_bytes(config_directory() / "key", KEY_BYTES)
    if len(key) != KEY_BYTES:
        raise RunError(f"{config_directory() / 'key'} is damaged; delete it")
    return key


def _make_key() -> bytes:
    """The user's key, made on first use."""
    folder = config_directory()
    try:
        return _read_key()
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        try:
            return _read_key()
        except FileNotFoundError:
            write_atomically(folder / "key", _write_key)
    return _read_key()


def _write_key(stream: IO[bytes]) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(stream.fileno(), 0o600)
    stream.write(secrets.token_bytes(KEY_BYTES))
