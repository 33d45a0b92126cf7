"""What commands print: tables and paths to stdout, messages to stderr.

Names, notes and paths come from files that others may have made. They are printed as plain text:
no markup is interpreted, and control characters are shown instead of sent to the terminal.
"""

from __future__ import annotations

import os
import sys
import traceback
import unicodedata
from collections.abc import Sequence
from pathlib import Path


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


def printable(text: str, *, keep: str = "") -> str:
    """Return text with control characters shown as symbols, and stray bytes as \\x...

    Args:
        text: what to print.
        keep: control characters that stay as they are.

    >>> print(printable("a\\x1b[31m b\\tc \\udcff \\u202e"))
    a␛[31m b␉c \\xff \\u202e
    """
    if text.isprintable():
        return text
    return "".join(char if char in keep else _symbol(char) for char in text)


def _symbol(char: str) -> str:
    """How a character is shown: as itself, unless it controls the terminal."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return char.encode("ascii", "backslashreplace").decode()
    return char


def warn(message: str) -> None:
    say(f"warning: {message}")


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in [header, *rows]:
            print("\t".join(map(printable, row)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        grid.add_column(Text(printable(name)), overflow="fold")
    for row in rows:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(grid)


def show_path(path: Path) -> None:
    """Print a path to stdout. In a pipe, a name that is not UTF-8 keeps its bytes."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None or sys.stdout.isatty():
        print(printable(str(path)))
        return
    name = "".join(c if 0xDC80 <= ord(c) <= 0xDCFF else printable(c) for c in str(path))
    sys.stdout.flush()
    stream.write(os.fsencode(name) + b"\n")
    stream.flush()


def say(text: str) -> None:
    """Print a message to stderr, where it is not part of the output."""
    print(printable(text, keep="\n\t"), file=sys.stderr, flush=True)
