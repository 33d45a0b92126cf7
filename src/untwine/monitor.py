"""What a person sees while a study runs: a live table, or a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from untwine.jobs import Job
from untwine.launch import Event, Watch
from untwine.runs import is_finished

if TYPE_CHECKING:
    from rich.table import Table

LINE_EVERY = 10.0  # seconds
SHOWN = 30  # workers in the table


@dataclass
class Tally:
    """How far a study is."""

    total: int
    done: int = 0
    failed: int = 0
    retried: int = 0
    began: float = field(default_factory=time.monotonic)
    finished_here: int = 0
    ended: set[Path] = field(default_factory=set[Path])
    trained: set[Path] = field(default_factory=set[Path])  # beside others, and not ended
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
        if event.kind in ("done", "failed"):
            self._end(event.job, event.kind == "done")
        self.done += event.kind == "done"
        self.failed += event.kind == "failed"
        self.retried += event.kind == "retry"

    def _end(self, job: Job, done: bool) -> None:
        """Count a run, and those that were trained along with it before they are scored."""
        beside = {other.path for other in job.others if is_finished(other.path)} - self.ended
        self.finished_here += len(beside) + (done and job.path not in self.trained)
        self.ended.add(job.path)
        self.trained = (self.trained | beside) - {job.path}

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
        if not self.finished_here:
            return None
        each = (time.monotonic() - self.began) / self.finished_here
        return each * (self.total - self.done - self.failed - len(self.trained))

    def summary(self) -> str:
        parts = [
            f"{self.done:,} of {self.total:,} done",
            f"{len(self.running)} running",
            f"{self.failed} failed" if self.failed else "",
            f"{self.retried} tried again" if self.retried else "",
            f"{sum(self.speeds.values()):,.0f} images/s" if self.speeds else "",
            f"{duration(self.left)} left" if self.left is not None else "",
        ]
        return ", ".join(part for part in parts if part)


def duration(seconds: float) -> str:
    """A time as a person says it.

    >>> [duration(s) for s in (42, 190, 8000, 300_000)]
    ['42 s', '3 min', '2.2 h', '3.5 days']
    """
    for size, unit, digits in ((86_400, "days", 1), (3_600, "h", 1), (60, "min", 0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


@contextmanager
def monitor(total: int, done: int, *, quiet: bool = False) -> Iterator[Watch]:
    """Give a function that is told events, and shows them."""
    tally = Tally(total, done)
    if quiet:
        yield tally.note
    elif sys.stderr.isatty():
        with _table(tally) as watch:
            yield watch
    else:
        yield _lines(tally)


def _lines(tally: Tally) -> Watch:
    last = time.monotonic()

    def watch(event: Event) -> None:
        nonlocal last
        tally.note(event)
        if event.kind in ("failed", "retry"):
            reason = event.note.strip().rpartition("\n")[2]
            print(f"{event.kind} {event.job.spec.directory}: {reason}", file=sys.stderr, flush=True)
        ended = tally.done + tally.failed == tally.total
        if time.monotonic() - last >= LINE_EVERY or ended:
            last = time.monotonic()
            print(tally.summary(), file=sys.stderr, flush=True)

    return watch


@contextmanager
def _table(tally: Tally) -> Iterator[Watch]:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:

        def watch(event: Event) -> None:
            tally.note(event)
            live.update(_drawn(tally))

        yield watch


def _drawn(tally: Tally) -> Table:
    from rich.table import Table

    table = Table(box=None, title=tally.summary(), title_justify="left", header_style="bold")
    for name in ("worker", "run", "done", ""):
        table.add_column(name, min_width=len(name), overflow="ellipsis", no_wrap=True)
    for worker, event in sorted(tally.running.items())[:SHOWN]:
        share = f"{100 * event.done / event.total:.0f} %" if event.total else ""
        table.add_row(str(worker + 1), event.job.spec.directory, share, event.note)
    return table
