"""What a study will take, from a few steps of each of its models."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from untwine.data.opening import load_dataset
from untwine.optimisers import Training
from untwine.spec import Run, build_model
from untwine.study.file import Study
from untwine.tools.compute import limit_threads
from untwine.tools.progress import progress
from untwine.train import fit

WARM_UP, TIMED = 3, 12  # steps
OVERHEAD = 40_000  # bytes of a run's directory besides its weights


@dataclass(frozen=True)
class Estimate:
    """Of all runs together, each in one process with one thread."""

    seconds: float
    bytes: int


def estimate(study: Study, *, quiet: bool = False) -> Estimate:
    """Time a few steps of one run of each model, data, network and batch size."""
    kinds = [(_kind(run).hash, run) for run in study.runs]
    samples = dict(reversed(kinds))
    costs: dict[str, tuple[float, int]] = {}
    with progress(len(samples), "timing", quiet=quiet) as show, limit_threads(1):
        for done, (kind, run) in enumerate(samples.items(), 1):
            costs[kind] = _measure(run)
            show(done, run.model_name)
    return Estimate(
        seconds=sum(run.steps * costs[kind][0] for kind, run in kinds),
        bytes=sum(costs[kind][1] for kind, _ in kinds),
    )


def _kind(run: Run) -> Run:
    """What a run's speed depends on: all but its seed, its length and its model's numbers."""
    from untwine.registry import models

    plain = tuple(models.choose(part.name) for part in run.model)
    return replace(run, model=plain, seed=0, steps=1, lr=1e-4, training=Training())


def _measure(run: Run) -> tuple[float, int]:
    """Seconds per step, and the bytes of its weights."""
    data = load_dataset(run.data)
    model = build_model(run, data, latent=run.latent, seed=0, batch=run.batch)
    numbers = {"batch": run.batch, "lr": run.lr, "device": "cpu", "quiet": True}
    fit(model, data, steps=WARM_UP, **numbers)
    began = time.perf_counter()
    fit(model, data, steps=TIMED, **numbers)
    size = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    return (time.perf_counter() - began) / TIMED, size + OVERHEAD
