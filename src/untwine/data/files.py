"""Data files: locate, download and verify them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import filelock

from untwine.data.cache import (
    READ_CHUNK,
    cache_directory,
    check_digest,
    checksum,
    digest_of_files,
    is_gzip,
    is_offline,
)
from untwine.data.incoming.bounds import file_size
from untwine.errors import DataError

if TYPE_CHECKING:
    from untwine.tools.progress import Show

ATTEMPTS = 4  # per transfer, each resuming where the last one stopped
TIMEOUT = 30.0  # seconds without data


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


def obtain(name: str, files: Sequence[File], *, quiet: bool = False) -> list[Path]:
    """Paths of the published files of a dataset; missing ones are downloaded."""
    for file in files:
        if file.local_path is None:
            _fetch_to(name, file, files, quiet)
    return [_verified(name, file, alone=len(files) == 1) for file in files]


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
    if is_offline():
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


def existing_path(path: str, kind: str) -> Path:
    """The path with `~` expanded; refuse one that does not exist."""
    expanded = Path(os.path.expanduser(path))
    if not os.path.exists(expanded):  # unlike `Path.exists`, whatever the name
        raise DataError(f"there is no {kind} at {path!r}")
    return expanded


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
