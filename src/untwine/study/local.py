"""Run jobs in worker processes on this machine; jobs whose worker dies are retried."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from untwine.errors import RunLocked, UntwineError
from untwine.study.job import Job, finish_job, record_failure
from untwine.tools.process import end_with_parent, ignore_interrupts
from untwine.tools.progress import redirect_progress
from untwine.tools.terminal import format_traceback

MAX_JOBS_PER_PROCESS = 200  # jobs, so that what a library leaks does not add up
REPORT_INTERVAL = 0.5  # seconds between two reports of a worker
BUSY_RETRY_DELAY = 5.0  # seconds until a run that another process works on is tried again
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
    """Receives events."""

    def __call__(self, event: Event) -> None: ...


@dataclass
class Outcome:
    """How a launch ended."""

    done: list[Job] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # run directory: reason
    busy: list[Job] = field(default_factory=list)  # worked on by other processes


class JobQueue:
    """The queue of pending jobs and the outcome of finished ones.

    A run that another process works on waits until another job has ended here, and is then tried
    again; when all that is left waits so, there is nothing to do here.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        retries: int,
        watch: Watch,
        note: Callable[[Job, int, str], None] = record_failure,
    ) -> None:
        self.outcome = Outcome()
        self._left = deque((job, 0, 0.0) for job in jobs)  # with attempts, and not before when
        self._held: list[tuple[Job, int, float]] = []
        self._retries, self._watch, self._note = retries, watch, note

    def __len__(self) -> int:
        """Jobs that are worth a try."""
        return len(self._left)

    def next_job(self) -> tuple[Job, int] | None:
        """The next job that is due, and how often it was tried before."""
        for position, (job, attempt, when) in enumerate(self._left):
            if when <= time.monotonic():
                del self._left[position]
                return job, attempt
        return None

    def record_result(self, job: Job, attempt: int, worker: int, message: Message) -> None:
        """Note how an attempt ended: done, busy, refused, failed or died."""
        kind, reason = message["kind"], message.get("reason", "")
        if kind == "busy":
            # After a failed attempt it may be our own process, dying on a node that was lost.
            aside = self._left if attempt else self._held
            aside.append((job, attempt, time.monotonic() + BUSY_RETRY_DELAY))
            self._watch(Event("busy", job, worker))
            return
        self._left.extend(self._held)
        self._held.clear()
        if kind == "done":
            self.outcome.done.append(job)
        elif attempt < self._retries and kind != "refused":
            kind = "retry"
            self._left.append((job, attempt + 1, 0.0))
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
        watch: called with every event.
    """
    queue = JobQueue(jobs, retries, watch)
    crew = [Worker(number) for number in range(min(workers, max(1, len(queue))))]
    try:
        while queue or any(worker.job for worker in crew):
            for worker in crew:
                if worker.job is None and (assignment := queue.next_job()):
                    worker.assign(*assignment)
                    watch(Event("start", worker.current, worker.number))
            for worker in _ready_workers(crew):
                _handle_message(worker, queue, watch)
    except KeyboardInterrupt:
        for worker in crew:
            worker.interrupt()
        raise
    finally:
        for worker in crew:
            worker.close()
    return queue.close()


def _ready_workers(crew: list[Worker]) -> list[Worker]:
    """The workers that have something to say, or have died."""
    busy = [worker for worker in crew if worker.job]
    ready = set(wait([w.pipe for w in busy] + [w.process.sentinel for w in busy], timeout=1.0))
    return [w for w in busy if w.pipe in ready or w.process.sentinel in ready]


def _handle_message(worker: Worker, queue: JobQueue, watch: Watch) -> None:
    """Take a worker's message, and note how its job ended if it did."""
    job, attempt = worker.current, worker.attempt
    message = worker.receive()
    if message["kind"] == "ready":
        worker.ready = True
    elif message["kind"] == "step":
        watch(Event("step", job, worker.number, *message["step"]))
    else:
        worker.finish()
        queue.record_result(job, attempt, worker.number, message)


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
            parent_end, child_end = context.Pipe()
            process = context.Process(target=serve, args=(child_end,), daemon=False)
            with ignore_interrupts():  # the child inherits it, until it can act on one
                process.start()
            child_end.close()
            self._started, self._jobs, self.ready = (process, parent_end), 0, False
        return self._started

    def assign(self, job: Job, attempt: int) -> None:
        self.job, self.attempt = job, attempt
        with contextlib.suppress(BrokenPipeError):  # it died; `hear` tells
            self.pipe.send_bytes(json.dumps(job.to_json()).encode())

    def receive(self) -> Message:
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
        if self._jobs >= MAX_JOBS_PER_PROCESS:
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
    end_with_parent()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        pipe.send_bytes(json.dumps({"kind": "ready"}).encode())
        while True:
            job = Job.from_json(json.loads(pipe.recv_bytes()))
            pipe.send_bytes(json.dumps(_run_job(job, pipe)).encode())


def _run_job(job: Job, pipe: Connection) -> Message:
    with redirect_progress(_ProgressReporter(pipe).tell):
        return run_safely(lambda: finish_job(job))


def run_safely(work: Callable[[], object]) -> Message:
    """Work, and how it ended, as a message to the driver."""
    try:
        work()
    except RunLocked as error:
        return {"kind": "busy", "reason": format_traceback(error)}
    except UntwineError as error:  # the same again would end the same
        return {"kind": "refused", "reason": format_traceback(error)}
    except Exception as error:
        return {"kind": "failed", "reason": format_traceback(error)}
    return {"kind": "done"}


class _ProgressReporter:
    """Tells the parent how far a job is, not too often."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.last = 0.0

    def tell(self, label: str, done: int, total: int, note: str) -> None:
        if time.monotonic() - self.last >= REPORT_INTERVAL:
            self.last = time.monotonic()
            message = {"kind": "step", "step": [done, total, f"{label} {note}".strip()]}
            with contextlib.suppress(OSError):  # the parent is gone; a signal will ask to save
                self.pipe.send_bytes(json.dumps(message).encode())
