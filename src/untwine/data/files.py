"""Data files: locate, download, verify and decode them once."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import filelock
import numpy as np
from numpy.typing import NDArray

from untwine.data.incoming.bounds import file_size, hash_stream, open_packed
from untwine.errors import DamagedFile, DataError, RunError
from untwine.tools.files import is_regular, read_bytes, write_atomically
from untwine.tools.sealed import decode_json, read_json, write_json
from untwine.tools.terminal import warn

if TYPE_CHECKING:
    from untwine.tools.progress import Show

ATTEMPTS = 4  # per transfer, each resuming where the last one stopped
READ_CHUNK = 1 << 18  # bytes
TIMEOUT = 30.0  # seconds without data
CONTENT_PREFIX = "content-"
"""Begins the digests of folders by content; version 0.1 took the names and sizes of pictures."""

MAX_NAMES_BYTES = 1 << 16
MAX_INDEX_BYTES = 1 << 28  # of the checksums of the files in one folder
PLAIN_NAME = re.compile(r"[\w-]{1,100}")
CHECKSUM = {"sum": str, "path": str}  # a remembered checksum
ARRAYS = {"arrays": {str: str}}  # arrays.json of a folder of the cache: name, checksum of the file
INDEX = {"files": {str: [str]}}  # of a folder of pictures: name, state and checksum of each file
HASH_THREADS = 4
_OFFLINE, _IDLE = (ContextVar(name, default=False) for name in ("offline", "idle"))


@dataclass(frozen=True)
class File:
    """A published file: its name in the cache, its address and its checksum."""

    name: str  # in the cache; prefixed with a folder where file names would clash
    url: str = ""  # empty if it must be copied into the cache by hand
    hash: str = ""  # "sha256:..." or "md5:..." of the file, or of the content of a .gz
    size: int = 0  # bytes; 0 if unknown
    packaged: str = ""  # its path if the system's package manager installed it
    only: str = ""  # such as "variant=toy": the parameter value that needs it

    @property
    def cache_path(self) -> Path:
        """Its path in the cache, whether it exists or not."""
        return cache_directory() / self.name

    @property
    def fingerprint(self) -> str:
        """The checksum or, without one, the size that identifies it."""
        return self.hash or f"{self.size:,} bytes"

    @property
    def local_path(self) -> Path | None:
        """Its path on this machine, in the cache or from a package; None if it is missing."""
        paths = [self.cache_path, *([Path(self.packaged)] if self.packaged else [])]
        return next((path for path in paths if path.is_file()), None)


@dataclass(frozen=True)
class LocalFiles:
    """The files of a dataset on this machine, checked against the digest of an earlier run."""

    root: Path  # the user's path, or the first published file
    paths: list[Path]
    digest: str  # of their content; part of the name of decoded copies in the cache
    recorded: str  # the digest that a run records: empty for published files


def cache_directory() -> Path:
    """`$UNTWINE_DATA`, or the platform's cache directory."""
    import pooch

    return Path(os.environ.get("UNTWINE_DATA") or pooch.os_cache("untwine"))


def obtain(name: str, files: Sequence[File], *, quiet: bool = False) -> list[Path]:
    """Paths of the published files of a dataset; missing ones are downloaded."""
    for file in files:
        if file.local_path is None:
            _fetch_to(name, file, files, quiet)
    return [_verified(name, file, alone=len(files) == 1) for file in files]


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


def _verified(name: str, file: File, alone: bool) -> Path:
    """The path of a file; refuse one that differs from the published file."""
    path = file.local_path or file.cache_path
    if not is_published(path, file):
        raise DataError(
            f"{path} is not the published file of {name} (which has {file.fingerprint}); "
            f"delete it, or use it nevertheless with --set {name}.path="
            f"{path if alone else path.parent}"
        )
    return path


def _fetch_to(name: str, file: File, files: Sequence[File], quiet: bool) -> None:
    """Download a file into the cache, or raise an error that says how else to get it."""
    if not file.url:
        raise DataError(f"{name} has to be placed by hand: {manual_remedy(name, files)}")
    if _OFFLINE.get():
        raise DataError(
            f"{name} is not on this machine: write untwine data fetch {name}, or "
            f"{manual_remedy(name, files)}"
        )
    try:
        file.cache_path.parent.mkdir(parents=True, exist_ok=True)
        with _lock_file(file.cache_path):
            if not file.cache_path.exists():
                _download(file, quiet)
    except OSError as error:
        why = getattr(error, "reason", error)
        raise DataError(
            f"{name} could not be downloaded from {file.url} ({why}); {manual_remedy(name, files)}"
        ) from error


def manual_remedy(name: str, files: Sequence[File]) -> str:
    """A sentence on how to supply missing files by hand."""
    from untwine.registry import datasets

    missing = [file.cache_path for file in files if file.local_path is None]
    *first, last = [path.name for path in missing]
    names = f"{', '.join(first)} and {last}" if first else last
    what = "FILE" if len(files) == 1 else "FOLDER"
    standin = datasets[name].metadata.get("standin") if name in datasets else None
    return (
        f"put {names} into {missing[0].parent}, or name another place with --set "
        f"{name}.path={what} (inside another dataset: {name}(path={what}))"
        + (f", or use the stand-in {standin}, which needs no file" if standin else "")
    )


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Let one process at a time work on this path."""
    with filelock.FileLock(path.with_name(f".{path.name}.lock")):
        yield


def _download(file: File, quiet: bool) -> None:
    """Download a file atomically into the cache and verify it."""
    part = file.cache_path.with_name(f"{file.cache_path.name}.part")
    resumed = part.exists()
    if resumed and not file.hash:  # only a checksum can tell that two halves belong together
        part.unlink()
    _transfer_with_retries(file.url, part, file.cache_path.name, quiet)
    if is_published(part, file):
        os.replace(part, file.cache_path)
        return
    part.unlink()
    if not resumed:
        raise OSError("what arrived has the wrong checksum")
    _download(file, quiet)


def _transfer_with_retries(url: str, part: Path, label: str, quiet: bool) -> None:
    """Transfer a file; resume after a broken connection."""
    from http.client import HTTPException

    for left in reversed(range(ATTEMPTS)):
        try:
            return _transfer(url, part, label, quiet)
        except (ConnectionError, TimeoutError, HTTPException) as error:
            if not left:
                raise OSError(f"the transfer broke off: {error}") from error


def _transfer(url: str, part: Path, label: str, quiet: bool) -> None:
    """Append the missing bytes to `part`, or rewrite it if the server sends only whole files."""
    from untwine.tools.progress import progress

    have = part.stat().st_size if part.exists() else 0
    with _open_url(url, have) as response:
        if getattr(response, "status", 200) != 206:
            have = 0
        elif not (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent another part than was asked for")
        total = have + int(response.headers.get("Content-Length") or 0)
        with part.open("ab" if have else "wb") as stream:
            with progress(total, label, quiet=quiet) as show:
                _copy(response, stream, have, show)
            stream.flush()
            os.fsync(stream.fileno())
    if part.stat().st_size < total:
        raise ConnectionError(f"{part.stat().st_size:,} of {total:,} bytes arrived")


def _open_url(url: str, have: int) -> Any:
    """The response to a request for all but the first `have` bytes."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"User-Agent": "untwine", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if error.code != 416:  # the part is as long as the file, or longer: begin again
            raise
        error.close()
        return urlopen(Request(url, headers={"User-Agent": "untwine"}), timeout=TIMEOUT)


def _copy(source: IO[bytes], target: IO[bytes], done: int, show: Show) -> None:
    while chunk := source.read(READ_CHUNK):
        target.write(chunk)
        done += len(chunk)
        show(done, "")


def is_published(path: Path, file: File, *, fresh: bool = False) -> bool:
    """Whether this is the published file; a repacked .gz is judged by its content.

    `fresh` ignores the remembered checksum and reads the file again.
    """
    if not file.hash:
        return not file.size or path.stat().st_size == file.size
    kind, _, wanted = file.hash.partition(":")
    if checksum(path, kind, fresh=fresh) == wanted:
        return True
    try:
        return is_gzip(path) and checksum(path, kind, fresh=fresh, content=True) == wanted
    except DataError:
        return False


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
    state = f"{path.resolve()}:{file_state(path)}:{kind}:{content}"
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
    folder_id = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()
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


def existing_path(path: str, kind: str) -> Path:
    """The path with `~` expanded; refuse one that does not exist."""
    expanded = Path(os.path.expanduser(path))
    if not os.path.exists(expanded):  # unlike `Path.exists`, whatever the name
        raise DataError(f"there is no {kind} at {path!r}")
    return expanded


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


def locate_files(
    name: str, files: Sequence[File], path: str, *, kind: str, unpacked: str = ""
) -> list[Path]:
    """The user's path, or the published files: a folder of the cache, else obtained.

    Args:
        name: of the dataset.
        files: the published files.
        path: the user's file or folder; empty for the published files.
        kind: what the path should lead to, for the error if nothing is there.
        unpacked: a folder in the cache that may hold the published files unpacked.
    """
    if path:
        return [existing_path(path, kind)]
    folder = cache_directory() / unpacked
    return [folder] if unpacked and folder.is_dir() else obtain(name, files)


def open_files(
    name: str,
    files: Sequence[File],
    path: str,
    digest: str,
    *,
    kind: str,
    file_hint: str = "",
    select: Callable[[Path], list[Path]] | None = None,
    digest_with: Callable[[list[Path]], str] = digest_of_files,
) -> LocalFiles:
    """The files behind a dataset, for the `path` and `digest` parameters that its readers share.

    Published files are obtained and verified. Files at a path of the user's own are checked
    against the digest of an earlier run, which `LocalFiles.recorded` passes on to the `Dataset`.

    Args:
        name: of the dataset.
        files: the published files.
        path: the user's file or folder; empty for the published files.
        digest: recorded by an earlier run; empty for a new one.
        kind: what the path should lead to, for the error if nothing is there.
        file_hint: what to write if the path is a folder; empty if a folder will do.
        select: from the user's path to the files to read; the path itself by default.
        digest_with: from the files to their digest.
    """
    paths = locate_files(name, files, path, kind=kind)
    root = paths[0]
    if file_hint and not root.is_file():
        raise DataError(f"{path} is not a file; {file_hint}")
    if path and select:
        paths = select(root)
    for file in paths:
        file_size(file)  # refuses pipes, devices and folders
    content = check_digest(path, digest, digest_with(paths))
    return LocalFiles(root, paths, content, recorded=content if path else "")
