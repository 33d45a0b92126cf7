"""Regular files only: bounded reading and atomic writing, for all that untwine keeps on disk.

`tools/sealed.py` adds checksums and shapes to the JSON files of runs, studies and caches.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import IO

from untwine.errors import DamagedFile, ParameterError, RunError, UntwineError

READ_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL
WRITE_FLAGS |= sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


MAX_HOLLOW_BYTES = 2**26  # of a file that is all holes
MAX_HOLLOW_RATIO = 200  # of the size of a larger file to what is written in it
BLOCK = 512  # bytes, of `stat`
MAX_PIECES = 10_000  # of a file with holes that are looked at


def read_bytes(path: Path, max_bytes: int, *, error: type[UntwineError] = RunError) -> bytes:
    """The content of a regular file; links, pipes, devices and files too large are refused.

    A missing file raises `FileNotFoundError`, everything else `error` with a sentence.
    """
    with open_regular(path, error=error) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > max_bytes:
            raise error(f"{path} is too large: {size:,} bytes where {max_bytes:,} are allowed")
        try:
            return stream.read(size)
        except OSError as problem:
            raise error(f"{path} cannot be read: {problem.strerror}") from problem


def open_regular(path: Path, *, error: type[UntwineError] = RunError) -> BufferedReader:
    """A regular file, opened for reading without following a link or waiting for a pipe."""
    try:
        handle = os.open(path, READ_FLAGS)
    except FileNotFoundError:
        raise
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.EMLINK) or path.is_symlink():
            raise error(f"{path} is a link; replace it with a copy of the file") from None
        raise error(f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:  # a name with a null character
        raise error(f"{str(path)!r} is not the name of a file") from problem
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise error(f"{path} is not a regular file; remove it")
    if is_hollow(handle):
        os.close(handle)
        raise error(f"{path} is nearly all holes, which no program writes there; copy it again")
    return os.fdopen(handle, "rb")


def regular_size(path: Path) -> int:
    """The size of a file that `open_regular` opens."""
    with open_regular(path, error=DamagedFile) as stream:
        return os.fstat(stream.fileno()).st_size


def is_hollow(handle: int) -> bool:
    """Whether an open file is nearly all holes: they take no disk, and are read as zeros."""
    state = os.fstat(handle)
    allocated = BLOCK * getattr(state, "st_blocks", state.st_size)
    return all(
        state.st_size > max(MAX_HOLLOW_BYTES, MAX_HOLLOW_RATIO * count())
        for count in (lambda: allocated, lambda: _written(handle, state.st_size))
    )


def _written(handle: int, size: int) -> int:
    """How many bytes of a file are not holes; of a file in very many pieces, its size."""
    total = end = 0
    try:
        for _ in range(MAX_PIECES):
            try:
                start = os.lseek(handle, end, os.SEEK_DATA)
            except OSError:  # nothing but a hole from here on
                return total
            end = os.lseek(handle, start, os.SEEK_HOLE)
            total += end - start
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return size


def expand_user(path: str | Path) -> Path:
    """The path with `~` expanded; refuse a name that no file can have.

    >>> expand_user("~no-such-user/runs").as_posix()
    '~no-such-user/runs'
    """
    if "\0" in str(path):
        raise ParameterError(f"{str(path)!r} is not the name of a file or directory")
    return Path(os.path.expanduser(path))


def resolve(path: Path) -> Path:
    """The absolute path with links followed; a link that leads to itself stays, and opens nowhere.

    `Path.resolve` ends in a `RuntimeError` there.
    """
    return Path(os.path.realpath(path))


def is_regular(path: Path) -> bool:
    """Whether there is a regular file at this path, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def write_atomically(
    path: Path, write: Callable[[IO[bytes]], object], *, durable: bool = True
) -> None:
    """Write to a temporary file beside `path`, flush it to disk, then rename it into place.

    A link at `path` is replaced; what it leads to is left alone. A file that is not `durable` is
    not flushed: a crash of the machine may lose it, or leave it empty.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(os.open(temporary, WRITE_FLAGS, 0o666), "wb") as stream:
            write(stream)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
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


def write_bytes(path: Path, content: bytes, *, durable: bool = True) -> None:
    write_atomically(path, lambda stream: stream.write(content), durable=durable)


def write_output(path: Path, content: bytes) -> None:
    """Write a file that the user named: atomically, unless it is a device or a pipe."""
    path = resolve(path)
    if path.exists() and not path.is_file():
        path.write_bytes(content)
    else:
        write_bytes(path, content)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
