"""Runs that differ in their seed alone, trained several at a time where that is faster.

Their directories end as those of single runs do, but for the time it took. What cannot be trained
together, or stops, is left to single runs, which begin it or go on from its last state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from untwine.data import Dataset
from untwine.errors import RunError, UntwineError
from untwine.guards import interruptible, locked
from untwine.progress import progress
from untwine.recording import Unlike
from untwine.runs import begin_run, finish_run, is_finished, save_progress, warn
from untwine.spec import Run, assemble, load
from untwine.stacking import stacked
from untwine.store import Packed, latest_state, states, step_of
from untwine.train import describe, loop
from untwine.vae import VAE

MOST_WEIGHTS = 1_500_000  # of a model; larger ones gain little
FEWEST_STEPS = 2_000  # of a run; to set up a stack takes as long as hundreds
HOW: dict[str, Any] = {"device": "cpu", "threads": 1, "compile": "auto"}


def pays(spec: Run) -> bool:
    """Whether several seeds of a run are faster together, on one thread of a CPU.

    They are where calling an operation takes long beside doing it: fully connected networks of no
    great size. Convolutions are slower together (`benchmarks/many.py`).
    """
    if spec.steps < FEWEST_STEPS:
        return False
    try:
        model = _built(spec, load(spec.data))
    except UntwineError:  # which the run itself will say
        return False
    weights = list(model.parameters())
    flat = all(weight.dim() <= 2 for weight in weights)
    return flat and sum(weight.numel() for weight in weights) <= MOST_WEIGHTS


def _built(spec: Run, data: Dataset) -> VAE:
    return assemble(spec, data, latent=spec.latent, seed=spec.seed, batch=spec.batch)


def run_together(specs: Sequence[Run], out: str | Path, *, checkpoint_every: int = 1000) -> None:
    """Train runs that differ in their seed alone, with one thread, as far as that can be.

    Finished runs, those that another process works on, and those that have no state in common with
    the others are left out.
    """
    with ExitStack() as locks, interruptible() as stop:
        free = {path: spec for spec in specs if (path := _hold(locks, Path(out), spec))}
        kept = common_states(list(free))
        if len(kept) > 1:
            _train({path: free[path] for path in kept}, kept, checkpoint_every, stop)
        if stop():
            raise KeyboardInterrupt


def _hold(locks: ExitStack, out: Path, spec: Run) -> Path | None:
    """The directory of a run, kept from others; None if there is nothing to do here or now."""
    path = out / spec.directory
    path.mkdir(parents=True, exist_ok=True)
    with ExitStack() as lock:
        try:
            lock.enter_context(locked(path))
            if is_finished(path) or begin_run(path, spec, **HOW) != HOW:
                return None
        except UntwineError:  # another's, or damaged, which a single run will say
            return None
        locks.push(lock.pop_all())
    return path


def common_states(paths: Sequence[Path]) -> dict[Path, Packed | None]:
    """The runs that can go on from the same step, as many as there are; None for the beginning."""
    found: dict[int, list[Path]] = {}
    for path in paths:
        for step in {step_of(state) for state in states(path / "states")} or {0}:
            found.setdefault(step, []).append(path)
    if not found:
        return {}
    step, sharing = max(found.items(), key=lambda item: (len(item[1]), item[0]))
    if step == 0:
        return dict.fromkeys(sharing)
    kept = {path: latest_state(path / "states", warn, until=step) for path in sharing}
    return {path: state for path, state in kept.items() if state and state[1]["step"] == step}


def _train(
    runs: dict[Path, Run],
    kept: dict[Path, Packed | None],
    checkpoint_every: int,
    stop: Callable[[], bool],
) -> None:
    spec, count = next(iter(runs.values())), len(runs)
    data = load(spec.data)
    models = [_built(one, data) for one in runs.values()]
    seeds = [one.seed for one in runs.values()]
    resume = [state for state in kept.values() if state]
    try:
        stack = stacked(models, data, seeds, batch=spec.batch, lr=spec.lr, resume=resume)
    except Unlike:
        return
    path_of = dict(zip(stack.states, runs, strict=True))
    began = time.monotonic() - sum(facts["seconds"] for _, facts in resume)

    def share() -> float:
        """Seconds of each run."""
        return (time.monotonic() - began) / count

    with progress(spec.steps * count, "training", quiet=True) as show:
        try:
            loop(
                stack,
                spec.steps,
                show=lambda step, row, rate: show(
                    step * count, f"{count} seeds  {describe(row, rate * spec.batch * count)}"
                ),
                checkpoint=lambda state: save_progress(path_of[state], state, share()),
                checkpoint_every=checkpoint_every,
                stop=stop,
            )
        except RunError:  # one of them diverged, which it will say itself
            return
    for state, path in path_of.items():
        finish_run(path, runs[path], state.model, state.history, share())
