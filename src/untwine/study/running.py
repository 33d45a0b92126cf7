"""Run a study: skip finished runs, start the workers, show progress."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from untwine.errors import ParameterError, RunError
from untwine.runs.tracking import check_tracker
from untwine.runs.training import adopt
from untwine.schema import MAX_REPEATS, MAX_THREADS, MAX_WORKERS, require_count
from untwine.study import local
from untwine.study.file import Study
from untwine.study.folder import StudyFolder, make_folder
from untwine.study.job import Job, is_complete
from untwine.study.local import Outcome
from untwine.study.monitor import monitor
from untwine.tools.files import expand_user, resolve
from untwine.tools.process import raise_on_signals


def run(
    study: Study | StudyFolder,
    out: str | Path = "studies",
    *,
    workers: int = 0,
    backend: str = "local",
    storage: str = "",
    threads: int = 1,
    gpus: float = 0,
    retries: int = 1,
    device: str = "cpu",
    checkpoint_every: int = 1000,
    track: str = "",
    quiet: bool = False,
) -> Outcome:
    """Run or resume a study; finished runs are skipped.

    Ctrl-C and SIGTERM save a checkpoint of every running run and raise `KeyboardInterrupt`.

    Args:
        study: a study, or the folder of one that was started before.
        out: the directory that holds the studies.
        workers: runs at a time; 0 for one per core, on Ray for no limit but the cluster's.
        backend: `local`, `ray` (an existing cluster, or one started locally), or `ray://HOST:PORT`.
        storage: where Ray keeps the runs: a directory that all nodes share, or an fsspec URL.
        threads: CPU threads of each run.
        gpus: GPUs of each run, on Ray.
        retries: how often a run is retried after its worker died or it failed unexpectedly.
        device: `cpu`, `cuda`, `mps` or `auto`.
        checkpoint_every: steps between two checkpoints.
        track: a tracker for all runs: tensorboard, wandb or mlflow.
        quiet: hide progress output.
    """
    check_backend(backend, storage)
    require_count("workers", workers, 0, MAX_WORKERS)
    require_count("threads", threads, 1, MAX_THREADS)
    require_count("retries", retries, 0, MAX_REPEATS)
    if track:
        check_tracker(track)
    folder = study if isinstance(study, StudyFolder) else make_folder(study, out, storage=storage)
    if not folder.trusted and (folder.storage or folder.runs.is_symlink()):
        raise RunError(
            f"{folder.path} is not marked as yours; write `untwine trust {folder.path}` if it is"
        )
    if folder.remote and backend == "local":
        raise ParameterError(
            f"the runs of {folder.path} are stored at {folder.storage}; resume with --backend ray, "
            "or start again with another --out"
        )
    folder.refresh()
    how = {"threads": threads, "device": device, "checkpoint_every": checkpoint_every}
    jobs = folder.jobs(**how, track=track)
    todo = [job for job in jobs if not is_complete(job)]
    with raise_on_signals(), monitor(len(jobs), len(jobs) - len(todo), quiet=quiet) as watch:
        if backend == "local":
            count = workers or os.cpu_count() or 1
            return local.launch(todo, workers=count, retries=retries, watch=watch)
        from untwine.study import on_ray

        outcome = on_ray.launch(
            [_absolute(job) for job in todo],
            address=backend,
            storage=folder.storage if folder.remote else "",
            workers=workers,
            gpus=gpus,
            retries=retries,
            watch=watch,
        )
    folder.refresh()
    _adopt(todo)
    return outcome


def _adopt(jobs: Iterable[Job]) -> None:
    """Mark runs as one's own that nodes with other keys have made for this driver."""
    for job in jobs:
        with suppress(RunError):  # not started, or damaged
            adopt(job.path, job.spec)


def check_backend(backend: str, storage: str = "") -> None:
    """Refuse a backend that does not exist, and storage for one that has none."""
    if backend not in ("local", "ray") and not backend.startswith("ray://"):
        raise ParameterError(f"--backend is local, ray or ray://HOST:PORT, not {backend!r}")
    if storage and backend == "local":
        raise ParameterError("--storage is for Ray; a local study keeps its runs in its directory")


def _absolute(job: Job) -> Job:
    """The job with a path that means the same on every node."""
    return replace(job, out=str(resolve(expand_user(job.out))))
