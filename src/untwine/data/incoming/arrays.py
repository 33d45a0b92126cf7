"""Arrays of .npy and .npz files: the header is compared with the bytes before memory is taken."""

from __future__ import annotations

import ast
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from untwine.data.incoming.archives import check_member, open_zip
from untwine.data.incoming.bounds import BoundedStream, file_size, refuse_unreadable
from untwine.errors import DataError

MAGIC = b"\x93NUMPY"
MAX_HEADER = 10_000  # bytes
MAX_DIMENSIONS = 5
PLAIN_KINDS = "biufcSU"  # of types whose values are bytes, not objects


@dataclass(frozen=True)
class ArrayHeader:
    """What the header of an array says, checked."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    length: int  # of the header in bytes

    @property
    def size(self) -> int:
        """Of the array in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def open_arrays(path: Path) -> Iterator[Arrays]:
    """The arrays of an .npy or .npz file, by name; an .npy holds one, named ""."""
    file_size(path)
    with path.open("rb") as stream:
        is_zip = stream.read(4) == b"PK\x03\x04"
    if is_zip:
        with open_zip(path) as archive:
            yield Arrays(path, archive)
    else:
        yield Arrays(path, None)


class Arrays:
    """The arrays of an open file; each is read when it is asked for."""

    def __init__(self, path: Path, archive: zipfile.ZipFile | None) -> None:
        self.path, self._archive = path, archive
        self.names = [""]
        if archive is not None:
            members = archive.namelist()
            self.names = [name.removesuffix(".npy") for name in members if name.endswith(".npy")]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def read(self, name: str = "") -> NDArray[Any]:
        """An array in memory, in the byte order of this machine."""
        with self.stream(name) as (stream, header):
            values = np.frombuffer(stream.read_exactly(header.size), header.dtype)
            stream.read(1)  # the end, where an archive compares its checksum
        return _shaped(values, header)

    def map(self, name: str = "") -> NDArray[Any]:
        """The same for large files: an .npy stays on disk until rows are taken."""
        with self.stream(name) as (_, header):
            if self._archive is not None or header.dtype.kind == "b":
                return self.read(name)
        values = np.memmap(self.path, header.dtype, "r", header.length, math.prod(header.shape))
        return _shaped(values, header)

    @contextmanager
    def stream(self, name: str = "") -> Iterator[tuple[BoundedStream, ArrayHeader]]:
        """The bytes of an array, opened behind its header, for those that read in blocks."""
        what = f"{name} in {self.path}" if name else str(self.path)
        if self._archive is None:
            with self.path.open("rb") as raw:
                yield _behind_header(raw, file_size(self.path), what)
            return
        if name not in self.names:
            raise DataError(f"{self.path} has no {name}; it holds {', '.join(self.names) or '-'}")
        info = self._archive.getinfo(f"{name}.npy")
        check_member(info, what)
        with refuse_unreadable(f"{what} cannot be read"):
            raw = self._archive.open(info)
        with raw:
            yield _behind_header(cast(IO[bytes], raw), info.file_size, what)


def _behind_header(raw: IO[bytes], size: int, what: str) -> tuple[BoundedStream, ArrayHeader]:
    stream = BoundedStream(raw, size, what)
    header = _read_header(stream, what)
    there = size - header.length
    if header.size != there:
        raise DataError(
            f"{what} is cut short or too long: {header.size:,} bytes are announced and {there:,} "
            "are there"
        )
    return stream, header


def _read_header(stream: BoundedStream, what: str) -> ArrayHeader:
    """The header of an array; only plain numbers and text are allowed."""
    start = stream.read(8)
    if start[:6] != MAGIC or len(start) < 8 or start[6] not in (1, 2, 3):
        raise DataError(f"{what} is not an .npy or .npz file of plain arrays")
    width = 2 if start[6] == 1 else 4
    count = int.from_bytes(stream.read_exactly(width), "little")
    if count > MAX_HEADER:
        raise DataError(f"{what} has a header of {count:,} bytes; arrays of plain numbers do not")
    text = stream.read_exactly(count)
    with refuse_unreadable(f"{what} is not a plain array"):
        content = ast.literal_eval(text.decode("latin1").strip())
        if set(content) != {"descr", "fortran_order", "shape"}:
            raise ValueError("its header lacks an entry")
        descr, fortran, shape = (content[key] for key in ("descr", "fortran_order", "shape"))
        dtype = np.dtype(descr) if type(descr) is str else np.dtype(object)
    if dtype.kind not in PLAIN_KINDS or not dtype.itemsize or type(fortran) is not bool:
        raise DataError(f"{what} is not an array of plain numbers or text")
    if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise DataError(f"{what} has the shape {str(shape)[:40]}, which no array has")
    if len(shape) > MAX_DIMENSIONS or (0 in shape and shape != (0,)):
        raise DataError(
            f"{what} has the shape {shape}; an array has at most {MAX_DIMENSIONS} dimensions, "
            "none of them empty"
        )
    return ArrayHeader(dtype, shape, fortran, 8 + width + count)


def _shaped(values: NDArray[Any], header: ArrayHeader) -> NDArray[Any]:
    """Values in their shape; booleans of other bytes than 0 and 1 are true."""
    if header.dtype.kind == "b":
        values = values.view(np.uint8) != 0
    values = values.reshape(header.shape, order="F" if header.fortran else "C")
    native = header.dtype.newbyteorder("=")
    return values if native == header.dtype else values.astype(native)
