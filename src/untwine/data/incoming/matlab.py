"""MATLAB files of version 5 to 7.2, read in Python alone.

SciPy's reader is compiled, believes what a file says of its nesting and counts, and crashes on some
damaged files. Here every size is compared with the bytes that are there.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.data.incoming.bounds import READ_CHUNK, max_unpacked, refuse_unreadable
from untwine.errors import DataError

HEADER = 128  # bytes
BYTE_ORDERS = {b"\0\1IM": "<", b"\1\0MI": ">"}
TAG = 8  # bytes of type and size
MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"} | {
    12: "i8",
    13: "u8",
}
TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
CELL, STRUCTURE, CHARACTERS, OPAQUE = 1, 2, 4, 17
NUMERIC = range(6, 16)
COMPLEX = 0x08
MAX_DEPTH = 8
MAX_PARTS = 200_000  # cells and fields


def read_matlab(content: bytes, name: str, what: str) -> Any:
    """One variable of a MATLAB file.

    Numbers are arrays of the type they are stored in, without axes of length one; text is `str`, a
    structure a dictionary, and a list of structures or cells a list.
    """
    with refuse_unreadable(f"{what} is not a MATLAB file with {name}"):
        order = BYTE_ORDERS.get(content[HEADER - 4 : HEADER])
        if order is None:
            raise ValueError("it is not of version 5; save it with -v7")
        left, start = max_unpacked(len(content)), HEADER
        while start + TAG <= len(content):
            kind, size = struct.unpack_from(f"{order}II", content, start)
            element = content[start : start + TAG + size]
            if kind == COMPRESSED:
                element = _unpack(element[TAG:], left, what)
                left -= len(element)
            variable = _Variable(element, order)
            if variable.begin() == name:
                return variable.value()
            start += TAG + size
        raise ValueError("it holds no such variable")


def _unpack(packed: bytes, most: int, what: str) -> bytes:
    """The content of a whole zlib stream, of at most so many bytes."""
    unpacker, pieces, total = zlib.decompressobj(), [], 0
    while packed:
        pieces.append(unpacker.decompress(packed, READ_CHUNK))
        total += len(pieces[-1])
        if total > most:
            raise DataError(f"{what} unpacks to far more than its size; get it again")
        packed = unpacker.unconsumed_tail
    if not unpacker.eof:  # where the checksum is compared
        raise ValueError("it is cut short")
    return b"".join(pieces)


class _Variable:
    """Reads one matrix element, from its beginning to its end."""

    def __init__(self, content: bytes, order: str) -> None:
        self._content, self._order, self._at = content, order, 0
        self._parts = self._depth = 0
        self._class, self._flags, self._shape = 0, 0, ()

    def begin(self) -> str:
        """Read the head of the matrix; returns its name."""
        kind, _ = self._tag()
        if kind != MATRIX:
            raise ValueError(f"it has an element of kind {kind}")
        return self._head()

    def value(self) -> Any:
        """What the matrix holds, whose head was read."""
        kind, shape = self._class, self._shape
        if kind == CELL:
            return [self._inner() for _ in range(self._count(math.prod(shape)))]
        if kind == STRUCTURE:
            return self._structures(shape)
        if kind == CHARACTERS:
            return self._text(shape)
        if kind in NUMERIC and not self._flags & COMPLEX:
            return self._numbers(shape)
        raise ValueError(f"it has a matrix of class {kind}, which is not read")

    def _head(self) -> str:
        self._flags, self._class = divmod(int(self._array(2)[0]) & 0xFFFF, 256)
        if self._class == OPAQUE:  # an object of MATLAB's own, whose head is another
            return ""
        shape = self._array()
        if not 2 <= len(shape) <= 8 or (shape < 0).any():
            raise ValueError(f"a matrix has the shape {shape.tolist()[:8]}")
        self._shape = tuple(shape.tolist())
        return bytes(self._array()).decode("latin-1")

    def _inner(self) -> Any:
        """A matrix inside this one; None if it is empty."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"matrices are nested more than {MAX_DEPTH} deep")
        kind, size = self._tag()
        if kind != MATRIX:
            raise ValueError(f"a matrix holds an element of kind {kind}")
        value = None
        if size:
            self._head()
            value = self.value()
        self._depth -= 1
        return value

    def _structures(self, shape: tuple[int, ...]) -> Any:
        width = int(self._array(1)[0])
        names = bytes(self._array())
        if not 1 <= width <= 64 or len(names) % width:
            raise ValueError("the names of fields are damaged")
        starts = range(0, len(names), width)
        fields = [names[at : at + width].split(b"\0")[0].decode("latin-1") for at in starts]
        count = math.prod(shape)
        self._count(count * max(1, len(fields)))
        rows = [{field: self._inner() for field in fields} for _ in range(count)]
        return rows[0] if count == 1 else rows

    def _count(self, parts: int) -> int:
        """How many matrices follow, each of which has a tag."""
        self._parts += parts
        if self._parts > MAX_PARTS or parts * TAG > len(self._content) - self._at:
            raise ValueError(f"it announces {parts:,} parts")
        return parts

    def _text(self, shape: tuple[int, ...]) -> str:
        kind, data = self._element()
        if kind not in TEXTS or (len(data) and shape[0] != 1):
            raise ValueError("it has text of several lines or of an unknown kind")
        codec = TEXTS[kind]
        if codec in ("utf-16", "utf-32"):
            codec += "-le" if self._order == "<" else "-be"
        return bytes(data).decode(codec)

    def _numbers(self, shape: tuple[int, ...]) -> NDArray[Any]:
        values = self._array()
        if math.prod(shape) != values.size:
            raise ValueError(f"{values.size:,} numbers do not fill the shape {shape}")
        return values.reshape(shape, order="F").squeeze()

    def _array(self, count: int | None = None) -> NDArray[Any]:
        """The numbers of the next element."""
        kind, data = self._element()
        if kind not in NUMBERS:
            raise ValueError(f"it has numbers of kind {kind}")
        values = np.frombuffer(data, np.dtype(f"{self._order}{NUMBERS[kind]}"))
        if count is not None and values.size != count:
            raise ValueError(f"{values.size} numbers where {count} belong")
        native = values.dtype.newbyteorder("=")
        return values if values.dtype == native else values.astype(native)

    def _element(self) -> tuple[int, memoryview]:
        """Kind and bytes of the next element, which is filled up to eight bytes."""
        (first,) = struct.unpack_from(f"{self._order}I", self._content, self._at)
        kind, size = first & 0xFFFF, first >> 16
        start, length = self._at + 4, 4
        if not size:
            kind, size = self._tag()
            start, length = self._at, -(-size // 8) * 8
        if size > length or start + size > len(self._content):
            raise ValueError("it is cut short")
        self._at = start + length
        return kind, memoryview(self._content)[start : start + size]

    def _tag(self) -> tuple[int, int]:
        kind, size = struct.unpack_from(f"{self._order}II", self._content, self._at)
        self._at += TAG
        return kind, size
