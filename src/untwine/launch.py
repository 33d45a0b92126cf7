"""Many jobs in worker processes on this machine; what dies is tried again."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from untwine.errors import UntwineError
from untwine.guards import Busy
from untwine.jobs import Job, complete, note_failure, told
from untwine.progress import heard_by

RECYCLED_AFTER = 200  # jobs, so that what a library leaks does not add up
TOLD_EVERY = 0.5  # seconds between two reports of a worker
HELD = 5.0  # seconds until a run that another process works on is tried again
Message = dict[str, Any]  # of a worker


@dataclass(frozen=True)
class Event:
    """Something that happened to a job."""

    kind: str  # "start", "step", "done", "retry", "busy" or "failed"
    job: Job
    worker: int
    done: int = 0
    total: int = 0
    note: str = ""


class Watch(Protocol):
    """Who is told what happens."""

    def __call__(self, event: Event) -> None: ...


@dataclass
class Outcome:
    """How a launch ended."""

    done: list[Job] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # run directory: reason
    busy: list[Job] = field(default_factory=list)  # worked on by other processes


class Ledger:
    """What is left to do, and how what was done ended.

    A run that another process works on waits until another job has ended here, and is then tried
    again; when all that is left waits so, there is nothing to do here. Jobs that are trained along
    with another one wait for it. What is tried again after a failure is tried alone.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        retries: int,
        watch: Watch,
        note: Callable[[Job, int, str], None] = note_failure,
    ) -> None:
        self.outcome = Outcome()
        self._left = deque((job, 0, 0.0) for job in jobs)  # with attempts, and not before when
        self._held: list[tuple[Job, int, float]] = []
        self._along: set[Path] = set()  # runs that are trained by another job just now
        self._retries, self._watch, self._note = retries, watch, note

    def __len__(self) -> int:
        """Jobs that are worth a try."""
        return len(self._left)

    def take(self) -> tuple[Job, int] | None:
        """The next job and how often it was tried before, if there is one by now."""
        for position, (job, attempt, when) in enumerate(self._left):
            if when <= time.monotonic() and job.path not in self._along:
                del self._left[position]
                self._along.update(other.path for other in job.others)
                return job, attempt
        return None

    def settle(self, job: Job, attempt: int, worker: int, message: Message) -> None:
        """Note how an attempt ended: done, busy, refused, failed or died."""
        kind, reason = message["kind"], message.get("reason", "")
        self._along.difference_update(other.path for other in job.others)
        if kind == "busy":
            # After a failed attempt it may be our own process, dying on a node that was lost.
            aside = self._left if attempt else self._held
            aside.append((job, attempt, time.monotonic() + HELD))
            self._watch(Event("busy", job, worker))
            return
        self._left.extend(self._held)
        self._held.clear()
        if kind == "done":
            self.outcome.done.append(job)
        elif attempt < self._retries and kind != "refused":
            kind = "retry"
            self._left.append((replace(job, beside=()), attempt + 1, 0.0))
        else:
            kind = "failed"
            self._note(job, attempt + 1, reason)
            self.outcome.failed[str(job.path)] = reason
        self._watch(Event(kind, job, worker, note=reason))

    def close(self) -> Outcome:
        """The outcome, with what is worked on elsewhere."""
        self.outcome.busy = [job for job, _, _ in self._held]
        return self.outcome


def launch(
    jobs: Iterable[Job], *, workers: int = 1, retries: int = 1, watch: Watch = lambda event: None
) -> Outcome:
    """Do all jobs in so many processes.

    An interrupt stops the workers after they have saved their state, and is raised again.

    Args:
        jobs: what to do, in this order.
        workers: processes at a time.
        retries: how often a job is tried again after its worker died or it failed unexpectedly.
        watch: told what happens.
    """
    ledger = Ledger(jobs, retries, watch)
    crew = [Worker(number) for number in range(min(workers, max(1, len(ledger))))]
    try:
        while ledger or any(worker.job for worker in crew):
            for worker in crew:
                if worker.job is None and (given := ledger.take()):
                    worker.give(*given)
                    watch(Event("start", worker.current, worker.number))
            for worker in _heard(crew):
                _listen(worker, ledger, watch)
    except KeyboardInterrupt:
        for worker in crew:
            worker.interrupt()
        raise
    finally:
        for worker in crew:
            worker.close()
    return ledger.close()


def _heard(crew: list[Worker]) -> list[Worker]:
    """The workers that have something to say, or have died."""
    busy = [worker for worker in crew if worker.job]
    ready = set(wait([w.pipe for w in busy] + [w.process.sentinel for w in busy], timeout=1.0))
    return [w for w in busy if w.pipe in ready or w.process.sentinel in ready]


def _listen(worker: Worker, ledger: Ledger, watch: Watch) -> None:
    """Take a worker's message, and note how its job ended if it did."""
    job, attempt = worker.current, worker.attempt
    message = worker.hear()
    if message["kind"] == "ready":
        worker.ready = True
    elif message["kind"] == "step":
        watch(Event("step", job, worker.number, *message["step"]))
    else:
        worker.finish()
        ledger.settle(job, attempt, worker.number, message)


class Worker:
    """A process that does one job after another."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.job: Job | None = None
        self.attempt = 0
        self.ready = False  # to act on an interrupt
        self._started: tuple[BaseProcess, Connection] | None = None
        self._jobs = 0

    @property
    def process(self) -> BaseProcess:
        return self._running[0]

    @property
    def pipe(self) -> Connection:
        return self._running[1]

    @property
    def current(self) -> Job:
        assert self.job is not None
        return self.job

    @property
    def _running(self) -> tuple[BaseProcess, Connection]:
        if self._started is None:
            context = multiprocessing.get_context("spawn")
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there,), daemon=False)
            with _ignoring_interrupts():  # the child inherits it, until it can act on one
                process.start()
            there.close()
            self._started, self._jobs, self.ready = (process, here), 0, False
        return self._started

    def give(self, job: Job, attempt: int) -> None:
        self.job, self.attempt = job, attempt
        with contextlib.suppress(BrokenPipeError):  # it died; `hear` tells
            self.pipe.send_bytes(json.dumps(job.to_json()).encode())

    def hear(self) -> Message:
        """The next message; a dead worker's last word is how it died."""
        with contextlib.suppress(EOFError, OSError):
            if self.pipe.poll():
                return json.loads(self.pipe.recv_bytes())
        self.process.join()
        code = self.process.exitcode or 0
        died = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        self._drop()
        return {"kind": "died", "reason": f"the worker process {died}"}

    def finish(self) -> None:
        self.job = None
        self._jobs += 1
        if self._jobs >= RECYCLED_AFTER:
            self.close()

    def interrupt(self) -> None:
        """Ask the job to save its state and end; one that has not begun just ends."""
        if self._started is None or not self.process.is_alive() or not self.process.pid:
            return
        if self.job and self.ready:
            os.kill(self.process.pid, signal.SIGINT)
        else:
            self.process.terminate()

    def close(self) -> None:
        if self._started is None:
            return
        self.pipe.close()  # an idle worker ends when its pipe does, a busy one after its state
        self.process.join()
        self._drop()

    def _drop(self) -> None:
        self._started = None


def serve(pipe: Connection) -> None:
    """In a worker: do the jobs that come through the pipe, until it is closed."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C on the terminal is for the parent, which tells us once
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _end_with_parent()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        pipe.send_bytes(json.dumps({"kind": "ready"}).encode())
        while True:
            job = Job.from_json(json.loads(pipe.recv_bytes()))
            pipe.send_bytes(json.dumps(_attempt(job, pipe)).encode())


def _attempt(job: Job, pipe: Connection) -> Message:
    with heard_by(_Teller(pipe).tell):
        return attempted(lambda: complete(job))


def attempted(work: Callable[[], object]) -> Message:
    """Work, and how it ended, as a message to the driver."""
    try:
        work()
    except Busy as error:
        return {"kind": "busy", "reason": told(error)}
    except UntwineError as error:  # the same again would end the same
        return {"kind": "refused", "reason": told(error)}
    except Exception as error:
        return {"kind": "failed", "reason": told(error)}
    return {"kind": "done"}


class _Teller:
    """Tells the parent how far a job is, not too often."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.last = 0.0

    def tell(self, label: str, done: int, total: int, note: str) -> None:
        if time.monotonic() - self.last >= TOLD_EVERY:
            self.last = time.monotonic()
            message = {"kind": "step", "step": [done, total, f"{label} {note}".strip()]}
            with contextlib.suppress(OSError):  # the parent is gone; a signal will ask to save
                self.pipe.send_bytes(json.dumps(message).encode())


def _end_with_parent() -> None:
    """Ask this process to save its state and end when its parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def handling(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals in another way inside a `with` block; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def stopped_by_signals() -> contextlib.AbstractContextManager[None]:
    """Let Ctrl-C and SIGTERM alike end a launch with KeyboardInterrupt."""
    return handling(signal.default_int_handler, signal.SIGINT, signal.SIGTERM)


def _ignoring_interrupts() -> contextlib.AbstractContextManager[None]:
    return handling(signal.SIG_IGN, signal.SIGINT)
