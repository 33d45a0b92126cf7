"""Tables of other programs: CSV, Parquet and HDF5."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from untwine.data.incoming.bounds import (
    check_cells,
    check_unpacked,
    file_size,
    read_table_text,
    refuse_unreadable,
)
from untwine.errors import DataError
from untwine.tools.extras import needs_extra

if TYPE_CHECKING:
    import h5py
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

CODE = re.compile(r"z\d{1,5}")  # a column of codes
MAX_COLUMNS = 10_000
MAX_MIXED_COLUMNS = 4_000  # of numbers and words, which take longer
BYTES_PER_CELL = 8
SINGLE_QUOTED = re.compile(rb"(^|,)'[^'\n]*'(,|\r?$)", re.MULTILINE)  # a cell
HDF5_FILTERS = {1, 2, 3, 4, 32000}  # gzip, shuffle, Fletcher's checksum, szip, LZF
MAX_HDF5_CHUNK = 2**28  # bytes


def read_csv(path: Path) -> pd.DataFrame:
    """A table with a header, plain or compressed with gzip, with single or double quotes."""
    content = read_table_text(path)
    quote = "'" if SINGLE_QUOTED.search(content[:4096]) else '"'
    return parse_csv(content, str(path), quote=quote)


def parse_csv(
    content: bytes, what: str, *, quote: str = '"', texts: Sequence[str] = ()
) -> pd.DataFrame:
    """The table in the content of a CSV file with a header.

    Args:
        content: of the file.
        what: names it in errors.
        quote: around cells.
        texts: columns that are read as text, whatever they hold.
    """
    import pandas as pd

    first = content[: content.find(b"\n") + 1 or None]
    if not first.strip() or first.count(b",") >= MAX_MIXED_COLUMNS:
        raise DataError(f"{what} must begin with the names of 1 to {MAX_MIXED_COLUMNS:,} columns")
    check_cells(content, what, len(content))
    types: Any = dict.fromkeys(texts, "str")
    with refuse_unreadable(f"{what} is not a CSV file"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        return pd.read_csv(
            io.BytesIO(content), quotechar=quote, low_memory=False, index_col=False, dtype=types
        )


def read_numbers(path: Path) -> NDArray[np.float64]:
    """(N, D) numbers of a CSV file, with or without a header.

    Of a file that `untwine encode` wrote, the codes.
    """
    with refuse_unreadable(f"{path} is not a CSV file of plain numbers"):
        lines = read_table_text(path).decode("utf-8-sig").splitlines()
        cells = lines[0].strip().split(",") if lines else []
        if not 1 <= len(cells) <= MAX_COLUMNS:
            raise DataError(f"{path} must have 1 to {MAX_COLUMNS:,} columns")
        numbered = cells == [str(i) for i in range(len(cells))] and len(cells) > 1
        header = numbered or not all(map(_is_number, cells))
        if len(lines) == int(header):
            raise DataError(f"{path} has no rows")
        codes = [k for k, cell in enumerate(cells) if CODE.fullmatch(cell)]
        use = codes if cells[0] == "example" and codes else None
        return np.loadtxt(lines[int(header) :], delimiter=",", ndmin=2, usecols=use, quotechar='"')


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def read_parquet(path: Path) -> pd.DataFrame:
    """The table in a Parquet file of plain columns.

    Words are read as their dictionary, so that few long ones do not become many. The caller names
    the file before an error.
    """
    size = file_size(path)
    with needs_extra("parquet", "Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    with refuse_unreadable("it is not a Parquet file"):
        schema = pq.read_schema(path)
        words = [field.name for field in schema if not pa.types.is_primitive(field.type)]
        with pq.ParquetFile(path, read_dictionary=words) as file:
            width, rows = file.metadata.num_columns, file.metadata.num_rows
            if not 1 <= width <= MAX_COLUMNS or any(pa.types.is_nested(f.type) for f in schema):
                raise DataError(f"it must have 1 to {MAX_COLUMNS:,} columns of numbers or text")
            check_unpacked("it", size, max(rows * width * BYTES_PER_CELL, _declared_bytes(file)))
            table = file.read(use_threads=False)
            check_unpacked("it", size, sum(map(_most_bytes, table.columns)))
            return table.to_pandas(use_threads=False)


def _declared_bytes(file: pq.ParquetFile) -> int:
    """What the file says that its columns unpack to."""
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    return sum(
        group.column(k).total_uncompressed_size
        for group in groups
        for k in range(group.num_columns)
    )


def _most_bytes(column: pa.ChunkedArray) -> int:
    """The bytes of a column, if every cell were as long as the longest word."""
    import pyarrow as pa
    import pyarrow.compute

    if not pa.types.is_dictionary(column.type):
        return column.nbytes
    compute: Any = pyarrow.compute  # whose functions are made when it is loaded
    longest = (compute.max(compute.binary_length(c.dictionary)).as_py() for c in column.chunks)
    return len(column) * max((length or 0 for length in longest), default=0)


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file, read with `hdf5_array` alone."""
    import h5py

    file_size(path)
    with refuse_unreadable(f"{path} is not a whole HDF5 file"):
        file = h5py.File(path, "r")
    with file:
        yield file


def hdf5_array(file: h5py.File, key: str) -> h5py.Dataset:
    """An array of the file itself, still on disk; refuse one that lies in another file."""
    import h5py

    what = f"{key} in {file.filename}"
    with refuse_unreadable(f"{what} cannot be read"):
        link = file.get(key, getlink=True)
        if link is None:
            raise DataError(f"{file.filename} is another file: it has no {key}")
        if not isinstance(link, h5py.HardLink):
            raise DataError(f"{what} is a link to something else; copy the data into the file")
        values = file[key]
        if not isinstance(values, h5py.Dataset) or values.shape is None:
            raise DataError(f"{what} is not an array")
        if values.external or values.is_virtual:
            raise DataError(f"{what} lies in another file; copy the data into this one")
        if values.dtype.kind not in "biuf":
            raise DataError(f"{what} must hold numbers, not {values.dtype}")
        _check_storage(values, what)
        return values


def _check_storage(values: h5py.Dataset, what: str) -> None:
    """Refuse an array that is far larger than its bytes, or packed by a foreign filter."""
    plan = values.id.get_create_plist()
    filters = {plan.get_filter(i)[0] for i in range(plan.get_nfilters())}
    if not filters <= HDF5_FILTERS:
        raise DataError(f"{what} is packed by a filter that is not read; use gzip")
    if math.prod(values.chunks or (1,)) * values.dtype.itemsize > MAX_HDF5_CHUNK:
        raise DataError(f"{what} is stored in pieces of more than {MAX_HDF5_CHUNK:,} bytes")
    check_unpacked(what, values.id.get_storage_size(), values.size * values.dtype.itemsize)


def read_rows(values: h5py.Dataset, rows: slice, what: str) -> NDArray[Any]:
    """Some rows of an array of an HDF5 file."""
    with refuse_unreadable(f"{what} is damaged"):
        return values[rows]
