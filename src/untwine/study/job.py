"""One run of a study: train it, score it, and store its codes for comparisons.

A job is names and numbers, so it crosses to other processes and machines as JSON.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from untwine.data.dataset import Dataset
from untwine.data.opening import load_dataset
from untwine.errors import RunError
from untwine.registry import Choice, metrics
from untwine.runs.directory import is_finished, open_run, read_record, read_scores
from untwine.runs.training import run
from untwine.scoring.evaluation import evaluate_run, represent_run
from untwine.scoring.scores import json_params
from untwine.spec import Run
from untwine.study.stored_codes import has_codes, write_codes
from untwine.tools.compute import limit_threads
from untwine.tools.sealed import write_json

N_STORED_CODES = 1_000  # examples whose codes are stored for comparisons between models


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
    track: str = ""

    @property
    def path(self) -> Path:
        return Path(self.out) / self.spec.directory

    @property
    def compares(self) -> bool:
        """Whether runs are to be compared with each other, which needs their codes."""
        return any(compares_runs(name) for name in self.metrics)

    @property
    def scored(self) -> tuple[str, ...]:
        """The metrics of the run alone."""
        return tuple(name for name in self.metrics if not compares_runs(name))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "spec": self.spec.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        metrics, spec = tuple(data["metrics"]), Run.from_json(data["spec"])
        return cls(**{**data, "metrics": metrics, "spec": spec})


def finish_job(job: Job) -> Path:
    """Finish a job: train, score and store codes, skipping what is already done."""
    os.environ["NUMBA_NUM_THREADS"] = str(job.threads)  # read when it is first imported
    job.path.mkdir(parents=True, exist_ok=True)  # `run` takes the directory that is there
    with threadpool_limits(job.threads), limit_threads(job.threads):
        path = run(
            job.spec,
            job.out,
            device=job.device,
            threads=job.threads,
            checkpoint_every=job.checkpoint_every,
            track=job.track,
            quiet=True,
        )
        # The job says where the data is: `run` has checked that run.json asks for the same.
        data = load_dataset(job.spec.data)
        if job.scored:
            evaluate_run(
                path,
                job.scored,
                n_examples=job.examples,
                device=job.device,
                data=data,
            )
        if job.compares and not has_codes(path):
            store_codes(path, data)
    (path / "failed.json").unlink(missing_ok=True)
    return path


def is_complete(job: Job) -> bool:
    """Whether nothing is left to do of a job; what is damaged is left to do."""
    if not is_finished(job.path) or (job.compares and not has_codes(job.path)):
        return False
    try:
        read_record(job.path)
        stored = read_scores(job.path)
    except RunError:
        return False
    for choice in map(read_metric, job.scored):
        score = stored.get(metrics.label(choice))
        if score is None or score["examples"] != job.examples:
            return False
        if score["params"] != json_params(choice):
            return False
    return True


@functools.cache
def read_metric(name: str) -> Choice:
    """A metric with all its numbers; thousands of jobs ask for the same few."""
    return metrics.read(name)


def compares_runs(metric: str) -> bool:
    """Whether a metric compares runs with each other, so that one run alone has no score."""
    return metrics[read_metric(metric).name].metadata.get("compares") == "runs"


def store_codes(path: Path, data: Dataset | None = None) -> None:
    """Write the codes of the same examples for every run on the same data, for comparisons.

    They stay the examples of version 0.1, so that runs of a study that is extended compare.
    """
    trained = open_run(path, data=data)
    sample = represent_run(trained, n_examples=N_STORED_CODES, split="all", repeat=True)
    arrays = {"codes": sample.codes, "kl": sample.kl}
    write_codes(path, {name: values.astype(np.float32) for name, values in arrays.items()})


def record_failure(job: Job, attempts: int, reason: str) -> None:
    """Leave the reason of a failure in the run's directory."""
    job.path.mkdir(parents=True, exist_ok=True)
    write_json(job.path / "failed.json", {"attempts": attempts, "reason": reason})
