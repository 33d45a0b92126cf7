"""The cache directory: decoded arrays and remembered checksums; digests of files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from untwine.data.incoming.bounds import file_size, hash_stream, open_packed
from untwine.errors import DamagedFile, DataError, RunError
from untwine.tools.files import is_regular, read_bytes, resolve, write_atomically
from untwine.tools.sealed import decode_json, read_json, write_json
from untwine.tools.terminal import warn

CONTENT_PREFIX = "content-"
"""Begins the digests of folders by content; version 0.1 took the names and sizes of pictures."""

READ_CHUNK = 1 << 18  # bytes
MAX_NAMES_BYTES = 1 << 16
MAX_INDEX_BYTES = 1 << 28  # of the checksums of the files in one folder
PLAIN_NAME = re.compile(r"[\w-]{1,100}")
CHECKSUM = {"sum": str, "path": str}  # a remembered checksum
ARRAYS = {"arrays": {str: str}}  # arrays.json of a folder of the cache: name, checksum of the file
INDEX = {"files": {str: [str]}}  # of a folder of pictures: name, state and checksum of each file
HASH_THREADS = 4
_OFFLINE, _IDLE = (ContextVar(name, default=False) for name in ("offline", "idle"))


def cache_directory() -> Path:
    """`$UNTWINE_DATA`, or the platform's cache directory."""
    import pooch

    return Path(os.environ.get("UNTWINE_DATA") or pooch.os_cache("untwine"))


@contextmanager
def offline(*, idle: bool = False) -> Iterator[None]:
    """Forbid downloads inside a `with` block; a missing file raises a DataError.

    With `idle`, nothing is decoded into the cache either, which may take minutes.
    """
    tokens = _OFFLINE.set(True), _IDLE.set(idle)
    try:
        yield
    finally:
        _OFFLINE.reset(tokens[0])
        _IDLE.reset(tokens[1])


def is_offline() -> bool:
    """Whether downloads are forbidden."""
    return _OFFLINE.get()


def is_gzip(path: Path) -> bool:
    """Whether a file is compressed with gzip, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def checksum(
    path: Path, kind: str = "sha256", *, fresh: bool = False, content: bool = False
) -> str:
    """The checksum of a file, or of the content of a .gz.

    It is remembered until the file is replaced or changed: its inode, size or times.
    """
    state = f"{resolve(path)}:{file_state(path)}:{kind}:{content}"
    note = cache_directory() / "checksums" / f"{hashlib.sha256(state.encode()).hexdigest()}.json"
    if not fresh:
        with suppress(RunError):  # none, or damaged
            return read_json(note, CHECKSUM, sealed=True)["sum"]
    with open_packed(path) if content else path.open("rb") as stream:
        hexdigest = hash_stream(stream, kind).hexdigest()
    with suppress(OSError):  # an unwritable cache only costs time
        note.parent.mkdir(parents=True, exist_ok=True)
        for scratch in note.parent.glob(".*.tmp"):  # of processes that were killed
            scratch.unlink(missing_ok=True)
        write_json(note, {"sum": hexdigest, "path": str(path)})
    return hexdigest


def file_state(path: Path | os.DirEntry[str]) -> str:
    """What changes when a file is replaced or written: inode, size and times."""
    now = path.stat()
    return f"{now.st_ino}:{now.st_size}:{now.st_mtime_ns}:{now.st_ctime_ns}"


def digest_of(files: Iterable[tuple[str, bytes]]) -> str:
    """A short digest of files, each a pair (name, content)."""
    total = hashlib.sha256()
    for name, content in files:
        total.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape"))
        total.update(content)
    return total.hexdigest()[:16]


def digest_of_content(path: Path) -> str:
    """A short digest of one file, the same as `digest_of([("", content)])`, read in pieces."""
    return digest_of_paths([("", path)])


def digest_of_paths(files: Iterable[tuple[str, Path]]) -> str:
    """A short digest of files, each a pair (name, path): as `digest_of`, read in pieces."""
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name}\0{file_size(path)}\0".encode(errors="surrogateescape"))
        with path.open("rb") as stream:
            while chunk := stream.read(READ_CHUNK):
                total.update(chunk)
    return total.hexdigest()[:16]


def digest_of_folder(root: Path, states: Mapping[str, str]) -> str:
    """A digest of the content of files below a folder, each of which is read once.

    Args:
        root: the folder.
        states: the names of the files, each with its `file_state`.
    """
    folder_id = hashlib.sha256(os.fsencode(resolve(root))).hexdigest()
    note = cache_directory() / "checksums" / f"folder-{folder_id}.json"
    index: dict[str, list[str]] = {}
    with suppress(RunError):  # none, or damaged
        index = read_json(note, INDEX, max_bytes=MAX_INDEX_BYTES, sealed=True)["files"]
    changed = [name for name, state in states.items() if index.get(name, [""])[0] != state]
    with ThreadPoolExecutor(HASH_THREADS) as pool:
        sums = pool.map(lambda name: _file_sum(root / name), changed)
        index |= {name: [states[name], total] for name, total in zip(changed, sums, strict=True)}
    if changed:
        with suppress(OSError, RunError):  # an unwritable cache only costs time
            note.parent.mkdir(parents=True, exist_ok=True)
            files = {name: index[name] for name in states}
            write_json(note, {"files": files}, max_bytes=MAX_INDEX_BYTES)
    content = ((name, index[name][1].encode()) for name in sorted(states))
    return f"{CONTENT_PREFIX}{digest_of(content)}"


def _file_sum(path: Path) -> str:
    file_size(path)  # refuses what is no file
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_of_files(paths: Iterable[Path]) -> str:
    """A short digest of large files, from their remembered checksums."""
    return digest_of((path.name, checksum(path).encode()) for path in paths)


def cached_arrays(
    name: str, digest: str, make: Callable[[], dict[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Arrays by name, made once and memory-mapped from the cache afterwards.

    `make` runs in one process while others wait. Files are written atomically and the list of
    names and checksums last, so an incomplete copy left by a crash or a full disk is detected and
    replaced, and so is one that was changed since.
    """

    def write(folder: Path) -> list[str]:
        made = make()
        for key, values in made.items():
            write_atomically(folder / f"{key}.npy", lambda s, v=values: np.save(s, v))
        return list(made)

    return cached_files(name, digest, write)


def cached_files(
    name: str, digest: str, write: Callable[[Path], list[str]]
) -> dict[str, NDArray[Any]]:
    """As `cached_arrays`, with a function that writes KEY.npy files and returns their keys."""
    folder = cache_directory() / f"{name}-{digest}"
    with suppress(RunError):
        return read_arrays(folder)
    if _IDLE.get():
        raise DataError(f"{name} has not been decoded yet")
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        try:
            return read_arrays(folder)
        except DamagedFile as error:
            warn(f"{error}; {name} is decoded again")
        except RunError:
            pass
        for leftover in folder.glob(".*.tmp"):  # of a process that died while writing
            leftover.unlink()
        keys = write(folder)
        sums = {key: checksum(folder / f"{key}.npy", fresh=True) for key in keys}
        write_json(folder / "arrays.json", {"arrays": sums})
        try:
            return read_arrays(folder)
        except RunError as error:
            raise DataError(
                f"the copy of {name} in {folder} cannot be read back: {error}"
            ) from None


def read_arrays(folder: Path, *, fresh: bool = False) -> dict[str, NDArray[Any]]:
    """The arrays in a folder of the cache, memory-mapped; refuse what is missing or damaged.

    A file is read to compare its checksum when it was replaced or changed since the last time, or
    with `fresh`.
    """
    file = folder / "arrays.json"
    if (sums := _unsealed_sums(file)) is not None:
        write_json(file, {"arrays": sums})
    sums = read_json(file, ARRAYS, sealed=True)["arrays"]
    return {key: _read_array(folder / f"{key}.npy", sums[key], fresh) for key in sums}


def _unsealed_sums(file: Path) -> dict[str, str] | None:
    """The checksums of the arrays in a folder of version 0.1, whose list had names alone."""
    with suppress(OSError, RunError):
        content = read_bytes(file, MAX_NAMES_BYTES)
        names = decode_json(content) if content.startswith(b"[") else None
        if isinstance(names, list) and all(PLAIN_NAME.fullmatch(str(name)) for name in names):
            return {str(name): checksum(file.with_name(f"{name}.npy")) for name in names}
    return None


def _read_array(file: Path, expected: str, fresh: bool) -> NDArray[Any]:
    try:
        if is_regular(file) and checksum(file, fresh=fresh) == expected:
            return np.load(file, mmap_mode="c")
    except (OSError, ValueError, EOFError) as error:
        raise DamagedFile(f"{file} is damaged ({error})") from None
    raise DamagedFile(f"{file} is damaged (its checksum differs)")


def matching_digest(recorded: str, content: str, former: str) -> str:
    """The digest to compare with what a run recorded: the former kind for a run that has one."""
    is_former = recorded and not recorded.startswith(CONTENT_PREFIX)
    return former if former and is_former else content


def check_digest(path: str, recorded: str, actual: str) -> str:
    """Return the actual digest; refuse data that differs from what a run recorded."""
    if recorded and recorded != actual:
        raise DataError(
            f"the data at {path} is not what this run was made with (digest {actual}, not "
            f"{recorded}); put the old data back or start a new run"
        )
    return actual
