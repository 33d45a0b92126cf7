"""Progress: a bar on a terminal or in a notebook, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from untwine.tools.notebook import has_widgets, in_notebook
from untwine.tools.terminal import format_duration, printable, say

Show = Callable[[int, str], None]
Listener = Callable[[str, int, int, str], None]  # label, done, total, note
LINE_INTERVAL = 10.0  # seconds between plain lines
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def redirect_progress(listener: Listener) -> Iterator[None]:
    """Send all progress inside a `with` block to a function instead of showing it."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def progress(total: int, label: str, *, quiet: bool = False) -> Iterator[Show]:
    """Yield a function that shows how much of `total` is done, with a note."""
    listener = _LISTENER.get()
    if listener:
        yield lambda done, note: listener(label, done, total, note)
    elif quiet:
        yield lambda done, note: None
    elif sys.stderr.isatty() or (in_notebook() and has_widgets()):
        with _bar(total, label) as show:
            yield show
    else:
        yield _lines(total, label)


class LinePrinter:
    """Prints plain lines to stderr, one every `LINE_INTERVAL` seconds at most."""

    def __init__(self) -> None:
        self._last_time = time.monotonic()

    def update(self, line: Callable[[], str], *, now: bool = False) -> None:
        """Print a line if one is due, or in any case with `now`."""
        if now or time.monotonic() - self._last_time >= LINE_INTERVAL:
            self._last_time = time.monotonic()
            self.write(line())

    def write(self, line: str) -> None:
        """Print a line that does not count as an update."""
        say(line)


def _lines(total: int, label: str) -> Show:
    printer, start_time, first = LinePrinter(), time.monotonic(), -1

    def show(done: int, note: str) -> None:
        nonlocal first
        first = done if first < 0 else first  # more than nothing where something was resumed

        def line() -> str:
            left = _time_left(time.monotonic() - start_time, done - first, total - done)
            return "  ".join(filter(None, [f"{label} {done:,}/{total:,}", left, note]))

        printer.update(line, now=done >= total and bool(note))

    return show


def _time_left(seconds: float, done: int, rest: int) -> str:
    """`3 min left`, once something is done and something is left.

    >>> _time_left(10.0, 5, 50), _time_left(10.0, 0, 50), _time_left(10.0, 5, 0)
    ('2 min left', '', '')
    """
    return f"{format_duration(seconds / done * rest)} left" if done > 0 and rest > 0 else ""


@contextmanager
def _bar(total: int, label: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(printable(label), total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=printable(note))
