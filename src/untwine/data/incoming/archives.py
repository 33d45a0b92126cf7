"""Archives of files, read in place within limits and never unpacked to disk."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from untwine.data.incoming.bounds import (
    check_unpacked,
    file_size,
    open_packed,
    refuse_unreadable,
)
from untwine.errors import DataError

METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
ENCRYPTED = 0x1
MAX_MEMBER = 2**28  # bytes of one file of an archive that is read whole
Fetch = Callable[[str], bytes]  # from a member's name to its content


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A .zip; ask `check_member` before anything in it is read."""
    file_size(path)
    with refuse_unreadable(f"{path} is not a whole .zip or .npz file"):
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


def is_zip(path: Path) -> bool:
    return path.is_file() and zipfile.is_zipfile(path)


def check_member(info: zipfile.ZipInfo, what: str) -> None:
    """Refuse a member that is encrypted, packed in an unusual way, or a bomb."""
    if info.flag_bits & ENCRYPTED:
        raise DataError(f"{what} is encrypted; unpack it first")
    if info.compress_type not in METHODS:
        raise DataError(f"{what} is packed by method {info.compress_type}; use stored or deflated")
    check_unpacked(what, info.compress_size, info.file_size)


def read_member(archive: zipfile.ZipFile, name: str, what: str) -> bytes:
    """The content of one member of a .zip."""
    with refuse_unreadable(f"{what} cannot be read"):
        info = archive.getinfo(name)
        check_member(info, what)
        _check_size(what, info.file_size)
        return archive.read(info)


@contextmanager
def open_files(path: Path) -> Iterator[tuple[list[str], Fetch]]:
    """The names of the files in a .zip or an uncompressed .tar, and a function that reads one."""
    if is_zip(path):
        with open_zip(path) as archive:
            yield archive.namelist(), lambda name: read_member(archive, name, f"{name} in {path}")
        return
    size = file_size(path)
    with refuse_unreadable(f"{path} is not a folder or a whole .zip or .tar of files"):
        tar = tarfile.open(path, "r:")
    with tar:
        with refuse_unreadable(f"{path} ends too early or is damaged"):
            members = {m.name.removeprefix("./"): m for m in tar if m.isfile()}

        def fetch(name: str) -> bytes:
            member, what = members[name], f"{name} in {path}"
            if member.issparse() or member.offset_data + member.size > size:
                raise DataError(f"{what} is longer than the archive; get it again")
            _check_size(what, member.size)
            with refuse_unreadable(f"{what} cannot be read"):
                return cast(IO[bytes], tar.extractfile(member)).read()

        yield list(members), fetch


def stream_tar(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files of a .tar or .tar.gz, in one pass."""
    with open_packed(path) as stream:
        sentence = f"{path} is not a whole .tar or .tar.gz"
        with refuse_unreadable(sentence):
            tar = tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|")
        with tar:
            while True:
                with refuse_unreadable(sentence):
                    member = tar.next()
                if member is None:
                    return
                if member.isfile() and not member.issparse() and wanted(member.name):
                    _check_size(f"{member.name} in {path}", member.size)
                    with refuse_unreadable(sentence):
                        content = cast(IO[bytes], tar.extractfile(member)).read()
                    yield member.name, content


def _check_size(what: str, size: int) -> None:
    if size > MAX_MEMBER:
        raise DataError(f"{what} has {size:,} bytes; files of up to {MAX_MEMBER:,} are read")
