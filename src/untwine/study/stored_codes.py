"""The codes of a run, stored for comparisons with other runs: codes.npz, sealed.

The comment at the end of the archive holds a checksum of all before it and of the weights that the
codes were computed with. Files of version 0.1 have no comment.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DamagedFile, RunError
from untwine.runs.directory import read_done
from untwine.tools.files import read_bytes, sha256, write_bytes

MAX_BYTES = 1 << 28
COMMENT = re.compile(rb"format 2, weights ([0-9a-f]{64}), seal ([0-9a-f]{64})")
COMMENT_LENGTH = len("format 2, weights , seal ") + 128
Arrays = dict[str, NDArray[np.float32]]


def write_codes(path: Path, arrays: Arrays) -> None:
    """Write the arrays `codes` and `kl` of a finished run."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    archive = stream.getvalue()[:-2] + struct.pack("<H", COMMENT_LENGTH)
    weights = read_done(path)["weights"]
    seal = sha256(archive + weights.encode())
    write_bytes(path / "codes.npz", archive + f"format 2, weights {weights}, seal {seal}".encode())


def has_codes(path: Path) -> bool:
    """Whether a run's codes are stored, whole, and of its weights."""
    try:
        return read_codes(path) is not None
    except RunError:
        return False


def read_codes(path: Path) -> Arrays | None:
    """The arrays `codes` and `kl` of a run; None if they are not stored."""
    file = path / "codes.npz"
    if not os.path.lexists(file):
        return None
    content = read_bytes(file, MAX_BYTES, error=DamagedFile)
    try:
        _check_seal(content, path)
        return {name: _read_array(content, name) for name in ("codes", "kl")}
    except DamagedFile as error:
        raise DamagedFile(f"{file} is damaged: {error}; run the study again") from None


def _check_seal(content: bytes, path: Path) -> None:
    archive, comment = content[:-COMMENT_LENGTH], content[-COMMENT_LENGTH:]
    match = COMMENT.fullmatch(comment)
    if match is None:
        if content[-22:-18] == b"PK\5\6" and content[-2:] == b"\0\0":  # of version 0.1
            return
        raise DamagedFile("it does not end as it should")
    if sha256(archive + match[1]).encode() != match[2]:
        raise DamagedFile("its checksum differs")
    if read_done(path)["weights"] != match[1].decode():
        raise DamagedFile("it holds codes of other weights")


def _read_array(content: bytes, name: str) -> NDArray[np.float32]:
    """One array of the archive, in which nothing is compressed, without a copy."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            info = archive.getinfo(f"{name}.npy")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content):
                raise DamagedFile(f"{name} is compressed")
            member = archive.read(info)
        stream = io.BytesIO(member)
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise DamagedFile(f"{name} has an unknown format")
        header: Any = np.lib.format.read_array_header_1_0(stream)
        shape, fortran, dtype = header
        array = np.frombuffer(member, np.float32, offset=stream.tell())
        if dtype != np.float32 or fortran or not 1 <= len(shape) <= 2:
            raise DamagedFile(f"{name} is not a table of numbers")
        return array.reshape(shape)
    except DamagedFile:
        raise
    except Exception as error:  # a reader of archives raises a dozen kinds
        raise DamagedFile(f"{name} cannot be read ({error})") from None
