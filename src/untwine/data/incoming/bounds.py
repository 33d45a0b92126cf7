"""Limits of what is read, and whatever a decoder raises as a sentence."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from untwine.errors import DataError, UntwineError
from untwine.tools.files import MAX_HOLLOW_BYTES, is_hollow

FREE_BYTES = 2**26  # what any packed file may grow to
MAX_RATIO = 200  # how many times its size a larger one may grow; dSprites grows 115 times
FREE_TEXT_BYTES = 2**24  # as FREE_BYTES and MAX_RATIO, of tables in text
MAX_TEXT_RATIO = 50
FREE_CELLS = 2**21  # of any table in text
BYTES_PER_CELL = 2  # of a larger one, at least
MAX_REASON = 160  # characters of a decoder's own message that are quoted
READ_CHUNK = 2**20


@contextmanager
def refuse_unreadable(sentence: str) -> Iterator[None]:
    """Turn whatever a decoder raises into a `DataError` that begins with this sentence.

    Decoders of damaged files raise almost anything, so no list of exceptions is complete. Keep the
    block to the decoder's own calls.
    """
    try:
        yield
    except UntwineError:
        raise
    except MemoryError:
        raise DataError(f"{sentence}: it needs more memory than there is") from None
    except Exception as error:
        raise DataError(f"{sentence}: {describe_error(error)}") from error


def describe_error(error: Exception) -> str:
    """The message of an error on one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}..."


def max_unpacked(packed: int) -> int:
    """How many bytes a file of this size may unpack to.

    >>> max_unpacked(100), max_unpacked(10**9)
    (67108864, 200000000000)
    """
    return max(FREE_BYTES, MAX_RATIO * packed)


def check_unpacked(what: str, packed: int, unpacked: int) -> None:
    """Refuse what would unpack to far more than it is."""
    if unpacked > max_unpacked(packed):
        raise DataError(
            f"{what} would grow from {packed:,} to {unpacked:,} bytes, more than {MAX_RATIO} "
            "times; pack it less tightly if that is right"
        )


def file_size(path: Path) -> int:
    """The size of a regular file that is there.

    Refuse what is none, as a pipe or a device never ends, and a file that is nearly all holes, as
    reading zeros takes as long as reading numbers.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file" if path.exists() else f"there is no file at {path}")
    size = path.stat().st_size
    if size > MAX_HOLLOW_BYTES:
        with path.open("rb") as stream:
            if is_hollow(stream.fileno()):
                raise DataError(
                    f"{path} has {size:,} bytes, nearly all of them holes; copy it again"
                )
    return size


class BoundedStream:
    """A stream that ends in a `DataError` where it is damaged, or longer than it may be."""

    def __init__(self, stream: IO[bytes], most: int, what: str) -> None:
        self._stream, self._left, self._what = stream, most, what

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, or all that are left."""
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        with refuse_unreadable(f"{self._what} is damaged or cut short"):
            content = self._stream.read(wanted)
        self._left -= len(content)
        if self._left < 0:
            raise DataError(f"{self._what} unpacks to far more than its size; get it again")
        return content

    def read_exactly(self, count: int) -> bytearray:
        """Exactly so many bytes, which arrays may share and write to."""
        content = bytearray()
        while len(content) < count:
            chunk = self.read(min(count - len(content), READ_CHUNK))
            if not chunk:
                raise DataError(f"{self._what} ends too early; get it again")
            content += chunk
        return content


@contextmanager
def open_packed(path: Path, most: int | None = None) -> Iterator[BoundedStream]:
    """The content of a file, unpacked within limits if it is compressed with gzip.

    Args:
        path: the file.
        most: how many bytes it may unpack to; by default as `max_unpacked` says.
    """
    size = file_size(path)
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if packed else raw
        most = max_unpacked(size) if most is None else most
        yield BoundedStream(stream, most if packed else size, str(path))


def read_packed(path: Path) -> bytes:
    """The content of a file, unpacked within limits if it is compressed with gzip."""
    with open_packed(path) as stream:
        return stream.read()


def read_table_text(path: Path) -> bytes:
    """The content of a table as text, unpacked within narrower limits, as cells take more."""
    size = file_size(path)
    with open_packed(path, max(FREE_TEXT_BYTES, MAX_TEXT_RATIO * size)) as stream:
        content = stream.read()
    check_cells(content, str(path), size)
    return content


def check_cells(content: bytes, what: str, size: int) -> None:
    """Refuse a table of very many cells for the size of its file, most of which must be empty."""
    cells = content.count(b"\n") + max(map(content.count, (b",", b";", b"\t")))
    if cells > max(FREE_CELLS, size // BYTES_PER_CELL):
        raise DataError(
            f"{what} has {cells:,} cells in {size:,} bytes; unpack it, or leave out empty cells"
        )


def read_text(path: Path, most: int, errors: str = "strict") -> str:
    """The text of a file of at most so many bytes; `errors` as of `open`."""
    size = file_size(path)
    if size > most:
        raise DataError(f"{path} has {size:,} bytes; at most {most:,} are read")
    return path.read_text("utf-8", errors)


def hash_stream(stream: IO[bytes] | BoundedStream, kind: str = "sha256") -> Any:
    """The hash of all that a stream holds, read in pieces."""
    total = hashlib.new(kind, usedforsecurity=False)
    while chunk := stream.read(READ_CHUNK):
        total.update(chunk)
    return total
