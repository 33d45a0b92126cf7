"""How far a run is: progress.json while it is trained, failed.json where it was given up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from untwine.errors import RunError, UntwineError
from untwine.state import History, Row
from untwine.tools.sealed import read_json, write_json

PROGRESS = {"step": int, "steps": int, "seconds": float, "history": [{str: float}]}
FAILED = {"attempts": int, "reason": str}
WRITE_INTERVAL = 2.0  # seconds between two writings of progress.json


@dataclass(frozen=True)
class Progress:
    """The history of a run that is not finished, and the time it has taken."""

    step: int
    steps: int
    seconds: float  # of training, without interruptions
    history: History

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last step, if steps take as long as they did; None at the start."""
        if not self.step:
            return None
        return self.seconds / self.step * max(0, self.steps - self.step)


def read_progress(path: Path) -> Progress | None:
    """The progress of a run; None if it has none, or none that can be read."""
    try:
        content = read_json(path / "progress.json", PROGRESS)
    except RunError:
        return None
    return Progress(**{**content, "history": History(content["history"])})


class ProgressFile:
    """Keeps progress.json of a run in training. A row is added with every call."""

    def __init__(self, path: Path, steps: int, began: float, history: Iterable[Row] = ()) -> None:
        self.path, self.steps, self.began = path, steps, began
        self.history = list(history)
        self._written = 0.0

    def __call__(self, row: Row) -> None:
        self.history.append(row)
        if time.monotonic() - self._written >= WRITE_INTERVAL:
            self.write(int(row["step"]))

    def write(self, step: int) -> None:
        """Write the file; that it cannot be written does not stop a training."""
        self._written = time.monotonic()
        seconds = round(self._written - self.began, 3)
        content = {"step": step, "steps": self.steps, "seconds": seconds, "history": self.history}
        with suppress(OSError, RunError, ValueError):
            write_json(self.path / "progress.json", content, durable=False)


def read_failure(path: Path) -> str:
    """Why a run failed: the last line of its reason; empty if it did not."""
    try:
        reason = read_json(path / "failed.json", FAILED, remedy="run the study again")
    except RunError as error:
        missing = not (path / "failed.json").exists()
        return "" if missing else str(error)
    return reason["reason"].strip().rpartition("\n")[2]


@contextmanager
def noting_failure(path: Path) -> Iterator[None]:
    """Leave the reason of an error in the run's directory; an earlier one is forgotten.

    What a user's own function raises to end a training is not a failure.
    """
    file = path / "failed.json"
    file.unlink(missing_ok=True)
    try:
        yield
    except (UntwineError, RuntimeError, MemoryError) as error:
        with suppress(OSError):
            write_json(file, {"attempts": 1, "reason": str(error) or type(error).__name__})
        raise
