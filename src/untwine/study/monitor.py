"""What a person sees while a study runs: a live table, or a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from untwine.study.local import Event, Watch
from untwine.tools.progress import LinePrinter
from untwine.tools.terminal import format_duration, printable

if TYPE_CHECKING:
    from rich.table import Table

MAX_WORKERS_SHOWN = 30  # workers in the table


@dataclass
class StudyProgress:
    """How far a study is."""

    total: int
    done: int = 0
    failed: int = 0
    retried: int = 0
    began: float = field(default_factory=time.monotonic)
    done_here: int = 0
    running: dict[int, Event] = field(default_factory=dict[int, Event])
    speeds: dict[int, float] = field(default_factory=dict[int, float])  # images/s by worker
    _marks: dict[int, tuple[str, int, float]] = field(
        default_factory=dict[int, tuple[str, int, float]]
    )

    def note(self, event: Event) -> None:
        if event.kind in ("start", "step"):
            self.running[event.worker] = event
            self._measure(event)
            return
        self.running.pop(event.worker, None)
        self.speeds.pop(event.worker, None)
        self.done += event.kind == "done"
        self.done_here += event.kind == "done"
        self.failed += event.kind == "failed"
        self.retried += event.kind == "retry"

    def _measure(self, event: Event) -> None:
        """Images per second of a worker, between two reports of the same training."""
        now = time.monotonic()
        name, done, then = self._marks.get(event.worker, ("", 0, now))
        if event.note.startswith("training"):
            if name == event.job.spec.directory and event.done > done and now > then:
                speed = (event.done - done) * event.job.spec.batch / (now - then)
                self.speeds[event.worker] = speed
            self._marks[event.worker] = (event.job.spec.directory, event.done, now)
        else:
            self.speeds.pop(event.worker, None)

    @property
    def left(self) -> float | None:
        """Seconds until the end, if what is left takes as long as what was done."""
        if not self.done_here:
            return None
        each = (time.monotonic() - self.began) / self.done_here
        return each * (self.total - self.done - self.failed)

    def summary(self) -> str:
        parts = [
            f"{self.done:,} of {self.total:,} done",
            f"{len(self.running)} running",
            f"{self.failed} failed" if self.failed else "",
            f"{self.retried} tried again" if self.retried else "",
            f"{sum(self.speeds.values()):,.0f} images/s" if self.speeds else "",
            f"{format_duration(self.left)} left" if self.left is not None else "",
        ]
        return ", ".join(part for part in parts if part)


@contextmanager
def monitor(total: int, done: int, *, quiet: bool = False) -> Iterator[Watch]:
    """Yield a function that receives events and shows progress."""
    tally = StudyProgress(total, done)
    if quiet:
        yield tally.note
    elif sys.stderr.isatty():
        with _table(tally) as watch:
            yield watch
    else:
        yield _lines(tally)


def _lines(tally: StudyProgress) -> Watch:
    printer = LinePrinter()

    def watch(event: Event) -> None:
        tally.note(event)
        if event.kind in ("failed", "retry"):
            reason = event.note.strip().rpartition("\n")[2]
            printer.write(f"{event.kind} {event.job.spec.directory}: {reason}")
        printer.update(tally.summary, now=tally.done + tally.failed == tally.total)

    return watch


@contextmanager
def _table(tally: StudyProgress) -> Iterator[Watch]:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:

        def watch(event: Event) -> None:
            tally.note(event)
            live.update(_progress_table(tally))

        yield watch


def _progress_table(tally: StudyProgress) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, title=tally.summary(), title_justify="left", header_style="bold")
    for name in ("worker", "run", "done", ""):
        table.add_column(name, min_width=len(name), overflow="ellipsis", no_wrap=True)
    for worker, event in sorted(tally.running.items())[:MAX_WORKERS_SHOWN]:
        share = f"{100 * event.done / event.total:.0f} %" if event.total else ""
        cells = (str(worker + 1), event.job.spec.directory, share, event.note)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
