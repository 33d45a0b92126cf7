"""What commands print: tables to stdout, messages to stderr."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence


def format_traceback(error: BaseException) -> str:
    """Return the traceback of an error as text."""
    return "".join(traceback.format_exception(error))


def format_duration(seconds: float) -> str:
    """Return a duration in a unit that suits its size.

    >>> [format_duration(s) for s in (42, 190, 8000, 300_000)]
    ['42 s', '3 min', '2.2 h', '3.5 days']
    """
    for size, unit, digits in ((86_400, "days", 1), (3_600, "h", 1), (60, "min", 0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in [header, *rows]:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    Console().print(grid)


def say(text: str) -> None:
    """Print a message to stderr, where it is not part of the output."""
    print(text, file=sys.stderr)
