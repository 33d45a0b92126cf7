"""What commands print: tables for the output, words for the person."""

import sys
from collections.abc import Sequence


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, tab-separated lines elsewhere."""
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
    """A word to the person, not part of the output."""
    print(text, file=sys.stderr)
