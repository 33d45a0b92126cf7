"""A bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Show = Callable[[int, str], None]
Listener = Callable[[str, int, int, str], None]  # label, done, total, note
LINE_EVERY = 10.0  # seconds
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Give all progress inside a `with` block to a function, instead of showing it."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def progress(total: int, label: str, *, quiet: bool = False) -> Iterator[Show]:
    """Give a function that shows how much of `total` is done, with a note."""
    listener = _LISTENER.get()
    if listener:
        yield lambda done, note: listener(label, done, total, note)
    elif quiet:
        yield lambda done, note: None
    elif sys.stderr.isatty():
        with _bar(total, label) as show:
            yield show
    else:
        yield _lines(total, label)


def _lines(total: int, label: str) -> Show:
    last = time.monotonic()

    def show(done: int, note: str) -> None:
        nonlocal last
        if (done >= total and note) or time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            print(f"{label} {done:,}/{total:,}  {note}".rstrip(), file=sys.stderr, flush=True)

    return show


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
        TextColumn(label),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(label, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)
