"""Many jobs as Ray tasks, on a cluster or on this machine: the only module that imports Ray."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untwine.errors import DataError, RunError, UntwineError
from untwine.jobs import Job, complete, is_complete, note_failure, told
from untwine.launch import Event, Outcome, stopped_by_signals
from untwine.mirror import is_address, mirrored, pull
from untwine.monitor import monitor

if TYPE_CHECKING:
    from untwine.launch import Watch

LISTEN = 1.0  # seconds between two looks at what has ended


def launch_on_ray(
    jobs: Sequence[Job],
    *,
    address: str = "ray",
    runs: str = "",
    gpus: float = 0,
    retries: int = 1,
    quiet: bool = False,
) -> Outcome:
    """Do all jobs as Ray tasks; what is finished is not done again.

    A task that dies with its node or its worker is given to another one, which goes on from the
    last saved state.

    Args:
        jobs: what to do; each takes as many CPUs as it has threads.
        address: `ray` for a cluster that is there, or else one on this machine; `ray://HOST:PORT`.
        runs: where runs go, if not where the jobs say: a directory that all nodes share, or an
            fsspec URL.
        gpus: of each job.
        retries: how often a job is tried again.
        quiet: show nothing.
    """
    ray = connect(address)
    if is_address(runs):
        pull(runs, jobs)
    elif runs:
        shared = Path(runs).expanduser().resolve()
        jobs = [replace(job, out=str(shared)) for job in jobs]
    else:
        jobs = [replace(job, out=str(Path(job.out).resolve())) for job in jobs]
    todo = [job for job in jobs if not is_complete(job)]
    task = ray.remote(max_retries=retries, num_gpus=gpus)(_do)
    with stopped_by_signals(), monitor(len(jobs), len(jobs) - len(todo), quiet=quiet) as watch:
        pending = {
            task.options(num_cpus=job.threads).remote(job.to_json(), runs): (number, job)
            for number, job in enumerate(todo)
        }
        try:
            outcome = _collect(ray, pending, retries, watch)
        except KeyboardInterrupt:
            for reference in pending:
                ray.cancel(reference, force=False)
            raise
    if is_address(runs):
        pull(runs, jobs)
    return outcome


def connect(address: str) -> Any:
    """Ray, connected to a cluster; one is started on this machine where there is none."""
    try:
        import ray
    except ImportError:
        raise DataError("Ray is not installed; pip install 'untwine[ray]'") from None
    if ray.is_initialized():
        return ray
    quietly = {"log_to_driver": False, "logging_level": "warning"}
    try:
        if address != "ray":
            ray.init(address, **quietly)
            return ray
        with contextlib.suppress(ConnectionError):
            ray.init("auto", **quietly)
            return ray
        ray.init(include_dashboard=False, **quietly)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise RunError(f"no Ray cluster answers at {address}: {error}") from error
    return ray


def _do(job: dict[str, Any], runs: str) -> str:
    """In a task: one job; a refusal comes back as its reason, since trying again is no use."""
    wanted = Job.from_json(job)
    try:
        if is_address(runs):
            with mirrored(runs, wanted) as here:
                complete(here)
        else:
            complete(wanted)
    except UntwineError as error:
        return told(error)
    return ""


def _collect(ray: Any, pending: dict[Any, tuple[int, Job]], retries: int, watch: Watch) -> Outcome:
    """Wait for all tasks, and note how each of them ended."""
    outcome = Outcome()
    while pending:
        ended, _ = ray.wait(list(pending), num_returns=1, timeout=LISTEN)
        for reference in ended:
            number, job = pending.pop(reference)
            reason = _reason(ray, reference)
            if not reason:
                outcome.done.append(job)
                watch(Event("done", job, number))
                continue
            note_failure(job, retries + 1, reason)
            outcome.failed[str(job.path)] = reason
            watch(Event("failed", job, number, note=reason))
    return outcome


def _reason(ray: Any, reference: Any) -> str:
    """Why a task failed; nothing if it did not."""
    try:
        return str(ray.get(reference))
    except ray.exceptions.RayError as error:
        return str(error)
