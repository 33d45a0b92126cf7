"""Tables as files: written whole, and without formulas that a spreadsheet would run."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from untwine.errors import DataError
from untwine.tools.files import write_output

if TYPE_CHECKING:
    from pandas import DataFrame as Table

FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # also full-width


def format_csv(table: Table) -> str:
    """A table as CSV, without formulas."""
    return disarm(table).to_csv(index=False)


def write_csv(table: Table, path: Path) -> None:
    """Write a table as CSV, without formulas."""
    write_output(path, format_csv(table).encode("utf-8", "backslashreplace"))


def write_parquet(table: Table, path: Path) -> None:
    """Write a table as Parquet, without formulas."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise DataError("Parquet needs pyarrow; pip install 'untwine[parquet]'") from None
    content = io.BytesIO()
    disarm(table).to_parquet(content, index=False)
    write_output(path, content.getvalue())


def markdown_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def disarm(table: Table) -> Table:
    """The table with an apostrophe before text that a spreadsheet would run as a formula."""
    columns = [disarm_text(str(name)) for name in table.columns]
    return table.map(lambda cell: disarm_text(cell) if isinstance(cell, str) else cell).set_axis(
        columns, axis=1
    )


def disarm_text(text: str) -> str:
    """Text with an apostrophe before it if a spreadsheet would run it; numbers stay as they are.

    >>> [disarm_text(text) for text in ("=1+1", "-2+cmd", "-2.5", "beta-vae", "'=1")]
    ["'=1+1", "'-2+cmd", '-2.5', 'beta-vae', "'=1"]
    """
    if not text.lstrip().startswith(FORMULA_STARTS) and not text.startswith(("\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
