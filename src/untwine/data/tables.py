"""Tables: named columns of numbers, from data frames and files, checked cell by cell."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.arrays import as_vectors
from untwine.data.dataset import BERNOULLI, Dataset, Factors, Vectors
from untwine.data.incoming.bounds import read_table_text, refuse_unreadable
from untwine.data.incoming.tables import MAX_COLUMNS, read_parquet
from untwine.errors import DataError
from untwine.records import Columns
from untwine.registry import Choice
from untwine.schema import unknown_name
from untwine.tools.terminal import warn

if TYPE_CHECKING:
    import pandas as pd

REAL = Choice("gaussian", {"squash": False})
SEPARATORS = ",;\t"
MAX_LISTED = 5  # names in a sentence
MAX_LEVELS = 1000  # of a factor
WORDS_CURE = """name a column of classes as a factor (--set table.factors={first}), or turn words \
into numbers first:
  from sklearn.compose import make_column_transformer
  from sklearn.preprocessing import OneHotEncoder
  encode = make_column_transformer((OneHotEncoder(sparse_output=False), {columns}),
                                   remainder="passthrough", verbose_feature_names_out=False)
  frame = encode.set_output(transform="pandas").fit_transform(frame)"""


@dataclass(frozen=True)
class Table:
    """Columns of finite numbers, with factors and names of rows where there are any."""

    names: tuple[str, ...]
    values: NDArray[np.float64]  # (N, D)
    factors: Factors | None = None
    row_names: tuple[str, ...] = ()


def as_table(frame: Any, *, factors: Sequence[str] = (), row_names: str = "") -> Table:
    """The table in a pandas or polars frame, or in a dictionary of columns.

    Args:
        frame: the columns by name.
        factors: names of the columns that are factors, not part of the examples.
        row_names: name of the column that names the rows; by default there is none.
    """
    names = list(map(str, frame))
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"two columns are called {name!r}; give each a name of its own")
    by_name = dict(zip(names, _columns(frame), strict=True))
    for name in (*factors, *([row_names] if row_names else [])):
        if name not in by_name:
            raise DataError(unknown_name("column", name, names))
    rows = tuple(map(str, by_name.pop(row_names))) if row_names else ()
    levels = {name: by_name.pop(name) for name in factors}
    if not by_name:
        raise DataError("there is no column of numbers")
    if not len(next(iter(by_name.values()))):
        raise DataError("there are no rows")
    return Table(tuple(by_name), _numbers(by_name), _factors(levels) if levels else None, rows)


def _columns(frame: Any) -> list[NDArray[Any]]:
    """The columns as arrays; missing numbers are NaN, other missing cells None or NaN."""
    if isinstance(frame, Mapping):
        return [np.asarray(column) for column in frame.values()]
    if not hasattr(frame, "iloc"):  # polars
        arrays = [frame.to_series(k).to_numpy() for k in range(frame.width)]
        return [
            np.asarray(frame.to_series(k).to_list()) if array.dtype == object else array
            for k, array in enumerate(arrays)
        ]
    series = [frame.iloc[:, k] for k in range(frame.shape[1])]
    return [
        one.to_numpy(np.float64, na_value=np.nan)
        if one.dtype.kind in "biuf"
        else one.to_numpy(object)
        for one in series
    ]


def _numbers(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """(N, D) the values of all columns; a cell that is no finite number is named."""
    words: list[str] = []
    values = np.empty((len(next(iter(columns.values()))), len(columns)))
    for k, (name, column) in enumerate(columns.items()):
        if column.dtype.kind in "biuf":
            values[:, k] = column
            continue
        cells, bad = _parse_cells(column)
        if 2 * len(bad) > len(column) or column.dtype.kind in "mM":
            words.append(name)
        elif bad:
            raise DataError(
                f"row {bad[0] + 1}, column {name!r} holds {column[bad[0]]!r}, which is no number"
            )
        else:
            values[:, k] = cells
    if words:
        example = next(str(cell) for cell in columns[words[0]] if not _is_missing(cell))
        several = f"the columns {_listing(words)} hold" if len(words) > 1 else f"{words[0]!r} holds"
        cure = WORDS_CURE.format(columns=words, first=words[0])
        raise DataError(f"{several} words such as {example!r}, not numbers; {cure}")
    _require_finite(values, list(columns))
    return values


def _parse_cells(column: NDArray[Any]) -> tuple[list[float | None], list[int]]:
    """The cells as numbers, and the rows of words; ends where more than half are words."""
    cells: list[float | None] = []
    bad: list[int] = []
    for row, cell in enumerate(column):
        cells.append(_number(cell))
        if cells[-1] is None:
            bad.append(row)
            if 2 * len(bad) > len(column):
                break
    return cells, bad


def _number(cell: Any) -> float | None:
    """A cell as a number; NaN if it is empty, None if it is a word."""
    if _is_missing(cell):
        return np.nan
    try:
        return float(cell)
    except OverflowError:  # a whole number of hundreds of digits
        return np.inf
    except (TypeError, ValueError):
        return None


def _is_missing(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and np.isnan(cell))


def _require_finite(values: NDArray[np.float64], names: Sequence[str]) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, k = bad[0]
        what = "is empty" if np.isnan(values[row, k]) else "is infinite"
        more = f" ({len(bad):,} cells are)" if len(bad) > 1 else ""
        raise DataError(
            f"row {row + 1}, column {names[k]!r} {what}{more}; fill it in, or remove the row"
        )


def _factors(columns: Mapping[str, NDArray[Any]]) -> Factors:
    """Levels are the distinct values of a column in their order."""
    tables, levels, words = [], {}, []
    for name, column in columns.items():
        numeric = column.dtype.kind in "biuf"
        if not numeric:
            column = np.array(["" if _is_missing(cell) else str(cell) for cell in column])
            words.append(name)
        if (numeric and not np.isfinite(column.astype(np.float64)).all()) or "" in column:
            raise DataError(f"the factor {name!r} has empty cells; fill them in")
        distinct, ranks = np.unique(column, return_inverse=True)
        if len(distinct) > MAX_LEVELS:
            raise DataError(
                f"the factor {name!r} has {len(distinct):,} levels; a factor has {MAX_LEVELS:,} at "
                "most, so cut it into ranges"
            )
        levels[name] = tuple(f"{v:g}" if numeric else str(v) for v in distinct)
        tables.append(ranks)
    sizes = tuple(len(levels[name]) for name in columns)
    return Factors(tuple(columns), sizes, np.stack(tables, 1), tuple(words), levels)


def table_dataset(
    table: Table, *, standardise: bool = True, bounded: bool = False, like: Columns | None = None
) -> Dataset:
    """A table as a dataset; `like` are columns whose order and numbers it gets."""
    if like is not None:
        order = match_names(table.names, like.names)
        columns, values = like, table.values[:, order]
    else:
        columns, values = _fit_columns(table, standardise and not bounded), table.values
    data = Dataset(
        Vectors(as_vectors(columns.standardise(values))),
        table.factors,
        REAL,
        in_unit_interval=False,
        preparation={"columns": columns.to_json()},
        example_names=table.row_names,
    )
    if not bounded:
        return data
    low, high = values.min(), values.max()
    if low < 0 or high > 1:
        raise DataError(f"bounded data must lie in [0, 1], not [{low:.3g}, {high:.3g}]")
    return replace(data, likelihood=BERNOULLI, in_unit_interval=True)


def _fit_columns(table: Table, standardise: bool) -> Columns:
    """The columns with their own means and deviations; constant ones are left in their unit."""
    if not standardise:
        return Columns(table.names, (0.0,) * len(table.names), (1.0,) * len(table.names))
    deviation = np.where(np.ptp(table.values, axis=0) == 0, 1.0, table.values.std(0))
    return Columns(table.names, tuple(table.values.mean(0).tolist()), tuple(deviation.tolist()))


def check_columns(data: Dataset) -> None:
    """Refuse a table of one row to train on, and warn of columns that are constant."""
    if data.columns is None or not isinstance(data.source, Vectors):
        return
    if len(data) < 2:
        raise DataError("there is one row; a table needs at least two to train on")
    values = data.source.values
    constant = [
        name
        for name, low, high in zip(data.columns.names, values.amin(0), values.amax(0), strict=True)
        if low == high
    ]
    if constant:
        text = (
            "columns are constant and say" if len(constant) > 1 else "column is constant and says"
        )
        warn(f"{len(constant)} {text} nothing: {_listing(constant)}")


def _listing(names: Sequence[str]) -> str:
    listing = ", ".join(map(repr, names[:MAX_LISTED]))
    return listing + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")


def match_names(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The positions of the wanted columns, in any order, or a sentence on how they differ."""
    missing = [name for name in wanted if name not in names]
    unknown = [name for name in names if name not in wanted]
    if missing or unknown:
        parts = [f"{_listing(missing)} missing"] if missing else []
        parts += [f"{_listing(unknown)} not known to it"] if unknown else []
        raise DataError(f"the columns differ from those of the model: {'; '.join(parts)}")
    return [list(names).index(name) for name in wanted]


def match_columns(data: Dataset, like: Columns) -> Dataset:
    """A dataset with the columns of a model: in their order, standardised by their numbers.

    Vectors without columns are left as they are.
    """
    columns = data.columns
    if columns is None or columns == like:
        return data
    order = match_names(columns.names, like.names)
    if not isinstance(data.source, Vectors):
        raise DataError("columns that are read when drawn must be those of the model, in order")
    values = columns.restore(data.source.values.cpu().numpy())[:, order]
    vectors = torch.from_numpy(like.standardise(values))
    return replace(data, source=Vectors(vectors), preparation={"columns": like.to_json()})


def read_table(path: Path, factors: Iterable[str] = (), row_names: str = "") -> Table:
    """The table in a .csv, .tsv or .parquet file.

    A first column without a name holds the names of the rows. A first line of numbers alone is no
    header, and columns are called `column 1` and so on.
    """
    frame = read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)
    names = list(map(str, frame.columns))
    unnamed = "" if names and names[0] == "" else None
    if unnamed is not None and not row_names:
        rows = tuple(map(str, frame.iloc[:, 0]))
        return replace(as_table(frame.iloc[:, 1:], factors=tuple(factors)), row_names=rows)
    return as_table(frame, factors=tuple(factors), row_names=row_names)


def _read_csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    with refuse_unreadable("its lines differ in length or are damaged"):
        try:
            text = read_table_text(path).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DataError("it is not text in UTF-8; save it as CSV in UTF-8") from None
        stream = io.StringIO(text, newline="")
        line = stream.readline()
        separator = max(SEPARATORS, key=line.count)
        header = next(csv.reader([line], delimiter=separator), [])
        if not header:
            raise DataError("it is empty")
        if len(header) > MAX_COLUMNS:
            raise DataError(f"it has {len(header):,} columns; at most {MAX_COLUMNS:,} are read")
        bare = all(_is_number(cell) for cell in header)
        names = [f"column {k + 1}" for k in range(len(header))] if bare else header
        if bare:
            stream.seek(0)
        try:
            frame = pd.read_csv(
                stream, sep=separator, header=None, names=range(len(names)), index_col=False
            )
        except pd.errors.EmptyDataError:
            raise DataError("there are no rows") from None
    frame.columns = [name.strip() for name in names]
    return frame


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
