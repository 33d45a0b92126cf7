"""Where data files live, how they arrive, and how they are known."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import filelock
import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError
from untwine.store import write_atomically, write_json

if TYPE_CHECKING:
    from untwine.progress import Show

ATTEMPTS = 4  # at one transfer, each going on where the last broke off
CHUNK = 1 << 18  # bytes
TIMEOUT = 30.0  # seconds without a byte
BROKEN = (EOFError, OSError, zlib.error)  # what a damaged .gz raises
_OFFLINE, _IDLE = (ContextVar(name, default=False) for name in ("offline", "idle"))


@dataclass(frozen=True)
class File:
    """A published file: its name in the cache, where it comes from, and how to know it."""

    name: str  # with a folder in front where others have a file of the same name
    url: str = ""  # empty where it can only be placed by hand
    hash: str = (
        ""  # "sha256:..." or "md5:..." of the file or, repacking allowed, of what a .gz holds
    )
    size: int = 0  # bytes; 0 where it is not known
    packaged: str = ""  # where the system's package manager puts it, if it has it
    only: str = ""  # "variant=toy" where it is needed for one value of a parameter alone

    @property
    def place(self) -> Path:
        """Where it lies in the cache."""
        return cache_directory() / self.name

    @property
    def mark(self) -> str:
        """What it is known by."""
        return self.hash or f"{self.size:,} bytes"

    @property
    def found(self) -> Path | None:
        """Where it is on this machine: in the cache, or from a package."""
        places = [self.place, *([Path(self.packaged)] if self.packaged else [])]
        return next((path for path in places if path.is_file()), None)


def cache_directory() -> Path:
    """`$UNTWINE_DATA`, or the platform's cache directory."""
    import pooch

    return Path(os.environ.get("UNTWINE_DATA") or pooch.os_cache("untwine"))


def obtain(name: str, files: Sequence[File], *, quiet: bool = False) -> list[Path]:
    """The published files of a dataset on this machine; those that are missing are downloaded."""
    for file in files:
        if file.found is None:
            _bring(name, file, files, quiet)
    return [_checked(name, file, alone=len(files) == 1) for file in files]


@contextmanager
def offline(*, idle: bool = False) -> Iterator[None]:
    """Download nothing inside a `with` block; what is missing is told in a sentence.

    With `idle` nothing is decoded into the cache either, which may take minutes.
    """
    tokens = _OFFLINE.set(True), _IDLE.set(idle)
    try:
        yield
    finally:
        _OFFLINE.reset(tokens[0])
        _IDLE.reset(tokens[1])


def _checked(name: str, file: File, alone: bool) -> Path:
    """Where a file is, if it is the published one."""
    path = file.found or file.place
    if not is_published(path, file):
        raise DataError(
            f"{path} is not the published file of {name} (which has {file.mark}); delete it, or "
            f"use it nevertheless with --set {name}.path={path if alone else path.parent}"
        )
    return path


def _bring(name: str, file: File, files: Sequence[File], quiet: bool) -> None:
    """Download a file into the cache, or say in a sentence how else it can get there."""
    if not file.url:
        raise DataError(f"{name} has to be placed by hand: {remedy(name, files)}")
    if _OFFLINE.get():
        raise DataError(
            f"{name} is not on this machine: write untwine data fetch {name}, or "
            f"{remedy(name, files)}"
        )
    try:
        file.place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(file.place):
            if not file.place.exists():
                _download(file, quiet)
    except OSError as error:
        why = getattr(error, "reason", error)
        raise DataError(
            f"{name} could not be downloaded from {file.url} ({why}); {remedy(name, files)}"
        ) from error


def remedy(name: str, files: Sequence[File]) -> str:
    """What a person can do about files that are not there."""
    from untwine.registry import datasets

    missing = [file.place for file in files if file.found is None]
    *most, last = [path.name for path in missing]
    names = f"{', '.join(most)} and {last}" if most else last
    what = "FILE" if len(files) == 1 else "FOLDER"
    standin = datasets[name].facts.get("standin") if name in datasets else None
    return (
        f"put {names} into {missing[0].parent}, or name another place with --set "
        f"{name}.path={what} (inside another dataset: {name}(path={what}))"
        + (f", or use the stand-in {standin}, which needs no file" if standin else "")
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time at this path."""
    with filelock.FileLock(path.with_name(f".{path.name}.lock")):
        yield


def _download(file: File, quiet: bool) -> None:
    """Bring a file into the cache, whole and checked or not at all."""
    part = file.place.with_name(f"{file.place.name}.part")
    resumed = part.exists()
    if resumed and not file.hash:  # only a checksum can tell that two halves belong together
        part.unlink()
    _transfer_stubbornly(file.url, part, file.place.name, quiet)
    if is_published(part, file):
        os.replace(part, file.place)
        return
    part.unlink()
    if not resumed:
        raise OSError("what arrived has the wrong checksum")
    _download(file, quiet)


def _transfer_stubbornly(url: str, part: Path, label: str, quiet: bool) -> None:
    """Transfer a file, going on where a broken transfer stopped."""
    from http.client import HTTPException

    for left in reversed(range(ATTEMPTS)):
        try:
            return _transfer(url, part, label, quiet)
        except (ConnectionError, TimeoutError, HTTPException) as error:
            if not left:
                raise OSError(f"the transfer broke off: {error}") from error


def _transfer(url: str, part: Path, label: str, quiet: bool) -> None:
    """Append to `part` what it lacks, or write it anew where the server sends only whole files."""
    from untwine.progress import progress

    have = part.stat().st_size if part.exists() else 0
    with _opened(url, have) as response:
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


def _opened(url: str, have: int) -> Any:
    """The answer to a request for all but the first bytes."""
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
    while chunk := source.read(CHUNK):
        target.write(chunk)
        done += len(chunk)
        show(done, "")


def is_published(path: Path, file: File, *, fresh: bool = False) -> bool:
    """Whether this is the file that was published; repacked .gz files count by their content.

    `fresh` reads it again even if it seems unchanged since its checksum was taken.
    """
    if not file.hash:
        return not file.size or path.stat().st_size == file.size
    kind, _, wanted = file.hash.partition(":")
    if checksum(path, kind, fresh=fresh) == wanted:
        return True
    try:
        return is_gzip(path) and checksum(path, kind, fresh=fresh, content=True) == wanted
    except BROKEN:
        return False


def is_gzip(path: Path) -> bool:
    """Whether a file is packed with gzip, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def checksum(
    path: Path, kind: str = "sha256", *, fresh: bool = False, content: bool = False
) -> str:
    """The checksum of a file, or of what a .gz holds; remembered while size and time stay."""
    now = path.stat()
    state = f"{path.resolve()}:{now.st_size}:{now.st_mtime_ns}:{kind}:{content}"
    note = cache_directory() / "checksums" / f"{hashlib.sha256(state.encode()).hexdigest()}.json"
    try:
        if not fresh:
            return str(json.loads(note.read_text())["sum"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with gzip.open(path) if content else path.open("rb") as stream:
        found = hashlib.file_digest(cast(Any, stream), kind).hexdigest()
    with suppress(OSError):  # a cache that cannot be written is only slower
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, {"sum": found, "path": str(path)})
    return found


def digest_of(files: Iterable[tuple[str, bytes]]) -> str:
    """A short name for the content of files, given as (name, content)."""
    total = hashlib.sha256()
    for name, content in files:
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


def digest_of_files(paths: Iterable[Path]) -> str:
    """A short name for the content of large files; it is remembered while they do not change."""
    return digest_of((path.name, checksum(path).encode()) for path in paths)


def cached(
    name: str, digest: str, make: Callable[[], dict[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Arrays that are made once and memory-mapped ever after, by name.

    `make` runs in one process while others wait. Files appear whole or not at all, and the list of
    names is written last; what a crash or a full disk leaves is noticed and made again.
    """
    folder = cache_directory() / f"{name}-{digest}"
    arrays = _arrays(folder)
    if arrays is not None:
        return arrays
    if _IDLE.get():
        raise DataError(f"{name} has not been decoded yet")
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        arrays = _arrays(folder)
        if arrays is None:
            made = make()
            for key, values in made.items():
                write_atomically(folder / f"{key}.npy", lambda s, v=values: np.save(s, v))
            write_json(folder / "arrays.json", list(made))
            arrays = _arrays(folder)
    if arrays is None:
        raise DataError(f"the copy of {name} in {folder} cannot be read back; delete that folder")
    return arrays


def _arrays(folder: Path) -> dict[str, NDArray[Any]] | None:
    """The arrays in a folder of the cache, or nothing if they are not all there and whole."""
    try:
        keys: list[str] = json.loads((folder / "arrays.json").read_text())
        return {key: np.load(folder / f"{key}.npy", mmap_mode="c") for key in keys}
    except (OSError, ValueError, EOFError, TypeError):
        return None


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
