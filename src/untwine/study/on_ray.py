"""Many jobs as Ray tasks, on a cluster or on this machine: the only module that imports Ray."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from untwine.errors import DataError, ParameterError, RunError
from untwine.plugins import Sources, pack, unpack
from untwine.study.job import Job, finish_job, record_failure
from untwine.study.local import Event, JobQueue, Message, Outcome, run_safely
from untwine.study.remote import send, synced
from untwine.tools.terminal import format_traceback

if TYPE_CHECKING:
    from untwine.study.local import Watch

POLL_INTERVAL = 1.0  # seconds between two looks at what has ended
MAX_PENDING = 10_000  # tasks known to Ray; more would make every look at them slow


def launch(
    jobs: Sequence[Job],
    *,
    address: str = "ray",
    storage: str = "",
    workers: int = 0,
    gpus: float = 0,
    retries: int = 1,
    watch: Watch = lambda event: None,
) -> Outcome:
    """Run all jobs as Ray tasks.

    A task that dies with its node or its worker is given to another one, which resumes from the
    last checkpoint.

    Args:
        jobs: what to do; each takes as many CPUs as it has threads.
        address: `ray` for an existing cluster, or else one started locally; `ray://HOST:PORT`.
        storage: fsspec URL of the runs; empty where all nodes share the jobs' directory.
        workers: tasks at a time; 0 for as many as the cluster can do.
        gpus: of each job.
        retries: how often a job is retried after its task died or it failed unexpectedly.
        watch: called with every event.
    """
    ray = connect(address)
    _require_room(ray, max((job.threads for job in jobs), default=0), gpus)
    task = ray.remote(max_retries=0, num_gpus=gpus)(_task)  # the queue counts attempts
    plugins = pack()

    def submit(job: Job) -> Any:
        return task.options(num_cpus=job.threads).remote(job.to_json(), storage, plugins)

    def record(job: Job, attempts: int, reason: str) -> None:
        record_failure(job, attempts, reason)
        if storage:
            send(storage, job, "failed.json")

    queue = JobQueue(jobs, retries, watch, record)
    return _run_tasks(ray, queue, submit, workers or MAX_PENDING, watch)


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


def _task(job: dict[str, Any], storage: str, plugins: Sources) -> Message:
    """In a task: one job, and how it ended."""
    unpack(plugins)
    return run_safely(lambda: _finish_job(Job.from_json(job), storage))


def _finish_job(job: Job, storage: str) -> None:
    if not storage:
        finish_job(job)
        return
    with synced(storage, job) as here:
        finish_job(here)


def _run_tasks(
    ray: Any, queue: JobQueue, submit: Callable[[Job], Any], limit: int, watch: Watch
) -> Outcome:
    """Keep so many tasks under way until nothing is left, and note how each of them ended."""
    pending: dict[Any, tuple[Job, int, int]] = {}
    numbers = count()
    try:
        while queue or pending:
            while len(pending) < limit and (assignment := queue.next_job()):
                number = next(numbers)
                pending[submit(assignment[0])] = (*assignment, number)
                watch(Event("start", assignment[0], number))
            for reference in _finished_tasks(ray, list(pending)):
                queue.record_result(*pending.pop(reference), _task_message(ray, reference))
    except KeyboardInterrupt:
        for reference in pending:
            ray.cancel(reference, force=False)
        raise
    return queue.close()


def _finished_tasks(ray: Any, references: list[Any]) -> list[Any]:
    """All tasks that have ended, after waiting a moment for the first."""
    if not references:
        time.sleep(POLL_INTERVAL)
        return []
    ray.wait(references, num_returns=1, timeout=POLL_INTERVAL)
    return ray.wait(references, num_returns=len(references), timeout=0)[0]


def _task_message(ray: Any, reference: Any) -> Message:
    """How a task ended; one that died with its worker or node says no more than that."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return {"kind": "died", "reason": format_traceback(error)}
