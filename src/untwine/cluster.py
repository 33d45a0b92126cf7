"""Many jobs as Ray tasks, on a cluster or on this machine: the only module that imports Ray."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untwine.errors import DataError, ParameterError, RunError
from untwine.jobs import Job, complete, grouped, is_complete, note_failure, told
from untwine.launch import Event, Ledger, Message, Outcome, attempted, stopped_by_signals
from untwine.mirror import is_address, mirrored, pull, send
from untwine.monitor import monitor

if TYPE_CHECKING:
    from untwine.launch import Watch

LISTEN = 1.0  # seconds between two looks at what has ended


def launch_on_ray(
    jobs: Sequence[Job],
    *,
    address: str = "ray",
    runs: str = "",
    workers: int = 0,
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
        workers: tasks at a time; 0 for no limit but the cluster's.
        gpus: of each job.
        retries: how often a job is tried again after its task died or it failed unexpectedly.
        quiet: show nothing.
    """
    ray = connect(address)
    _require_room(ray, max((job.threads for job in jobs), default=0), gpus)
    if is_address(runs):
        pull(runs, jobs)
    else:
        jobs = [replace(job, out=str(Path(runs or job.out).expanduser().resolve())) for job in jobs]
    todo = [job for job in jobs if not is_complete(job)]
    if not is_address(runs):  # the directory of one run alone is mirrored
        todo = grouped(todo, workers or int(ray.cluster_resources().get("CPU", 1)))
    task = ray.remote(max_retries=0, num_gpus=gpus)(_do)  # the ledger counts attempts

    def submit(job: Job) -> Any:
        return task.options(num_cpus=job.threads).remote(job.to_json(), runs)

    def note(job: Job, attempts: int, reason: str) -> None:
        note_failure(job, attempts, reason)
        if is_address(runs):
            send(runs, job, "failed.json")

    with stopped_by_signals(), monitor(len(jobs), len(jobs) - len(todo), quiet=quiet) as watch:
        ledger = Ledger(todo, retries, watch, note)
        outcome = _work(ray, ledger, submit, workers or len(todo), watch)
    if is_address(runs):
        pull(runs, jobs)
    return outcome


def _require_room(ray: Any, threads: int, gpus: float) -> None:
    """Refuse what no node of the cluster has, for it would wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= threads and node.get("GPU", 0) >= gpus for node in nodes):
        return
    most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in ("CPU", "GPU")}
    raise ParameterError(
        f"no node of the Ray cluster has {threads} CPUs and {gpus:g} GPUs for a run: the largest "
        f"have {most['CPU']:g} CPUs and {most['GPU']:g} GPUs; give fewer --threads or --gpus"
    )


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


def _do(job: dict[str, Any], runs: str) -> Message:
    """In a task: one job, and how it ended."""
    return attempted(lambda: _complete(Job.from_json(job), runs))


def _complete(job: Job, runs: str) -> None:
    if not is_address(runs):
        complete(job)
        return
    with mirrored(runs, job) as here:
        complete(here)


def _work(
    ray: Any, ledger: Ledger, submit: Callable[[Job], Any], limit: int, watch: Watch
) -> Outcome:
    """Keep so many tasks under way until nothing is left, and note how each of them ended."""
    pending: dict[Any, tuple[Job, int, int]] = {}
    numbers = count()
    try:
        while ledger or pending:
            while len(pending) < limit and (given := ledger.take()):
                number = next(numbers)
                pending[submit(given[0])] = (*given, number)
                watch(Event("start", given[0], number))
            for reference in _ended(ray, list(pending)):
                ledger.settle(*pending.pop(reference), _message(ray, reference))
    except KeyboardInterrupt:
        for reference in pending:
            ray.cancel(reference, force=False)
        raise
    return ledger.close()


def _ended(ray: Any, references: list[Any]) -> list[Any]:
    """The tasks that have ended, after a moment."""
    if not references:
        time.sleep(LISTEN)
        return []
    return ray.wait(references, num_returns=1, timeout=LISTEN)[0]


def _message(ray: Any, reference: Any) -> Message:
    """How a task ended; one that died with its worker or node says no more than that."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return {"kind": "died", "reason": told(error)}
