"""One run of a study from beginning to end: trained, scored, and its codes kept if asked for.

A job is names and numbers, so it crosses to other processes and machines as JSON.
"""

from __future__ import annotations

import functools
import math
import os
import traceback
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from untwine.errors import RunError
from untwine.guards import computing_threads
from untwine.registry import Choice, metrics
from untwine.runs import is_finished, open_run, read_scores, run, warn
from untwine.scoring import evaluate_run, kept_params
from untwine.spec import Run
from untwine.store import write_atomically, write_json
from untwine.together import pays, run_together

MOST_SEEDS = 8  # trained at a time; sixteen are hardly faster (benchmarks/many.py)
KEPT = 1_000  # examples whose codes are kept for comparisons between models


@dataclass(frozen=True)
class Job:
    """What is to be done with one run."""

    spec: Run
    out: str  # the directory that holds the runs
    metrics: tuple[str, ...] = ()
    examples: int = 10_000
    threads: int = 1
    device: str = "cpu"
    checkpoint_every: int = 1_000
    beside: tuple[int, ...] = ()  # seeds of other jobs that are trained along with this one

    @property
    def path(self) -> Path:
        return Path(self.out) / self.spec.directory

    @property
    def compares(self) -> bool:
        """Whether models are to be compared with each other, which needs their codes."""
        return "udr" in self.metrics

    @property
    def scored(self) -> tuple[str, ...]:
        """The metrics of the model alone."""
        return tuple(name for name in self.metrics if _chosen(name).name != "udr")

    @property
    def others(self) -> list[Job]:
        """The jobs that are trained along."""
        specs = (replace(self.spec, seed=seed) for seed in self.beside)
        return [replace(self, spec=spec, beside=()) for spec in specs]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "spec": self.spec.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        lists = {name: tuple(data[name]) for name in ("metrics", "beside")}
        return cls(**{**data, **lists, "spec": Run.from_json(data["spec"])})


def grouped(jobs: Sequence[Job], workers: int) -> list[Job]:
    """The same jobs, with seeds that are faster together given to one of them, which comes first.

    The others find their run trained and have it scored. There are at least as many groups as
    workers.
    """
    alike: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        if not is_finished(job.path):
            alike.setdefault((job.out, replace(job.spec, seed=0).hash), []).append(job)
    groups = [group for group in alike.values() if len(group) > 1 and _is_faster_beside(group[0])]
    size = next((n for n in range(MOST_SEEDS, 1, -1) if _parts(groups, n) >= workers), 0)
    if not size:
        return [*jobs]
    leaders: list[Job] = []
    for group in groups:
        parts = _parts([group], size)
        for k in range(parts):
            first, *rest = group[k::parts]
            leaders.append(replace(first, beside=tuple(job.spec.seed for job in rest)))
    leading = {leader.path for leader in leaders}
    return [*leaders, *(job for job in jobs if job.path not in leading)]


def _parts(groups: Sequence[Sequence[Job]], size: int) -> int:
    """Into how many parts of no more than this size groups are cut."""
    return sum(math.ceil(len(group) / size) for group in groups)


def _is_faster_beside(job: Job) -> bool:
    return job.device == "cpu" and job.threads == 1 and pays(job.spec)


def complete(job: Job) -> Path:
    """Do what is left to do of a job; what is there already is not done again."""
    os.environ["NUMBA_NUM_THREADS"] = str(job.threads)  # read when it is first imported
    with threadpool_limits(job.threads), computing_threads(job.threads):
        if job.beside:
            _train_along(job)
        path = run(
            job.spec,
            job.out,
            device=job.device,
            threads=job.threads,
            checkpoint_every=job.checkpoint_every,
            quiet=True,
        )
        if job.scored:
            evaluate_run(path, job.scored, n=job.examples, device=job.device)
        if job.compares and not has_codes(path):
            keep_codes(path)
    (path / "failed.json").unlink(missing_ok=True)
    return path


def _train_along(job: Job) -> None:
    """Train a job's run with those of others, which is faster and nothing more."""
    specs = [job.spec, *(other.spec for other in job.others)]
    try:
        run_together(specs, job.out, checkpoint_every=job.checkpoint_every)
    except Exception as error:  # of any of them; this one goes on alone
        warn(f"{job.spec.directory} is trained alone: {error}")


def is_complete(job: Job) -> bool:
    """Whether nothing is left to do of a job; what is damaged is left to do."""
    if not is_finished(job.path) or (job.compares and not has_codes(job.path)):
        return False
    if not job.scored:
        return True
    try:
        kept = read_scores(job.path)
    except RunError:
        return False
    for choice in map(_chosen, job.scored):
        found = kept.get(metrics.label(choice))
        if found is None or found["examples"] != job.examples:
            return False
        if found["params"] != kept_params(choice):
            return False
    return True


@functools.cache
def _chosen(name: str) -> Choice:
    """A metric with all its numbers; thousands of jobs ask for the same few."""
    return metrics.read(name)


def has_codes(path: Path) -> bool:
    """Whether a run's codes are kept, and whole: the end of such a file says what is in it."""
    return zipfile.is_zipfile(path / "codes.npz")


def keep_codes(path: Path) -> None:
    """Write the codes of the same examples for every run on the same data, for comparisons."""
    from untwine.representation import Representation

    finished = open_run(path)
    seen = Representation(finished.model, finished.data, n=KEPT, chunk=finished.spec.batch)
    arrays = {"codes": seen.codes.astype(np.float32), "kl": seen.kl.astype(np.float32)}
    write_atomically(
        path / "codes.npz", lambda stream: np.savez(stream, allow_pickle=False, **arrays)
    )


def note_failure(job: Job, attempts: int, reason: str) -> None:
    """Leave the reason of a failure in the run's directory."""
    job.path.mkdir(parents=True, exist_ok=True)
    write_json(job.path / "failed.json", {"attempts": attempts, "reason": reason})


def told(error: BaseException) -> str:
    """An error as a traceback."""
    return "".join(traceback.format_exception(error))
