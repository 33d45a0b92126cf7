"""Search for parameters with Optuna: every trial trains runs, and the file remembers all of them.

The file is Optuna's own database (SQLite). A search that was killed resumes with the trial that it
was at. Suggestions depend on the number of the trial alone, and on the trials before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine.data.opening import load_dataset
from untwine.errors import ParameterError, RunError, UntwineError
from untwine.registry import metrics
from untwine.runs.directory import TrainedRun
from untwine.runs.names import place_run
from untwine.runs.training import run as train
from untwine.scoring.evaluation import evaluate_run, represent_run
from untwine.scoring.representation import N_EXAMPLES
from untwine.scoring.scores import compute
from untwine.scoring.values import ScoreName
from untwine.spec import Run, plan
from untwine.state import History
from untwine.tools.compute import derive_seed
from untwine.tools.progress import progress
from untwine.tuning.database import Tried, database, list_trials, locked_file
from untwine.tuning.space import TUNABLE, Dimension, read_search
from untwine.vae import VAE

if TYPE_CHECKING:
    from optuna import Study, Trial

LOOKS = 4  # parts of a training, after each of which it may be pruned


class Pruned(Exception):
    """Ends the training of a trial that does worse than the others did."""


@dataclass(frozen=True)
class Tuning:
    """A search: what was asked for, and what was tried."""

    spec: Run
    dimensions: Sequence[Dimension]
    by: ScoreName
    file: Path
    out: Path
    seeds: int = 1
    trials: Sequence[Tried] = ()

    @property
    def finished(self) -> list[Tried]:
        """The trials that have a final score, best first."""
        done = [tried for tried in self.trials if tried.state == "finished"]
        sign = -1 if self.by.higher_is_better else 1
        return sorted(done, key=lambda tried: sign * (tried.score or 0.0))

    @property
    def best(self) -> Tried:
        """The best trial; the first of those that are equally good."""
        if not self.finished:
            reasons = [tried.reason for tried in self.trials if tried.reason]
            why = f": {reasons[-1]}" if reasons else ""
            raise RunError(f"no trial of {self.file} has finished{why}")
        return self.finished[0]

    @property
    def best_run(self) -> Path:
        """The directory of the best trial's first run."""
        return self.out / self.best.runs[0]


def tune(
    model: str,
    data: str,
    search: Iterable[str],
    *,
    by: str,
    trials: int = 30,
    file: str | Path = "tune.db",
    seeds: int = 1,
    prune: bool = True,
    n_examples: int = N_EXAMPLES,
    out: str | Path = "runs",
    device: str = "auto",
    threads: int | None = None,
    quiet: bool = False,
    settings: Iterable[str] = (),
    **numbers_and_settings: Any,
) -> Tuning:
    """Search for the parameters with the best score, or resume a search.

    Every trial is a run below `out`, or one for each seed; runs that exist are used as they are.

    Args:
        model, data: as in `plan`.
        search: lines such as `"beta=0.5..20:log"`, `"latent=4..16"` and `"optimiser=adam,sgd"`.
        by: a score such as `"mig"`, `"elbo"` or `"dci.completeness"`; `"udr"` needs no labels and
            compares at least two seeds.
        trials: number of trials in all, with those that the file holds already.
        file: Optuna's database; created if it does not exist.
        seeds: runs of each trial, which counts by their mean score.
        prune: end trials early that do worse than half of the trials before, by the same score.
        n_examples: number of examples to score on.
        out: directory of the runs.
        device, threads, quiet: as in `run`.
        settings: further `NAME=VALUE` lines that all trials share.
        numbers_and_settings: further keywords of `plan` that all trials share.
    """
    settings = list(settings)
    spec = plan(model, data, settings=settings, **numbers_and_settings)
    goal = ScoreName.read(by)
    if goal.compares_runs and seeds < 2:
        raise ParameterError(f"{goal} compares seeds; let each trial have at least two: --seeds 3")
    if trials < 1 or seeds < 1:
        raise ParameterError("a search needs at least 1 trial of at least 1 seed")

    def plan_trial(values: dict[str, str], seed: int) -> Run:
        lines = [f"{name}={value}" for name, value in values.items() if name not in TUNABLE]
        numbers = {name: TUNABLE[name](values[name]) for name in values if name in TUNABLE}
        base = {**numbers_and_settings, **numbers, "seed": seed}
        return plan(model, data, settings=[*settings, *lines], **base)

    search_space = read_search(search, spec)
    tuning = Tuning(spec, search_space, goal, Path(file), Path(out), seeds)
    options = {"device": device, "threads": threads}
    names = {one.name for one in search_space}
    opened = database(
        tuning.file, question_of(tuning, n_examples), names, maximise=goal.higher_is_better
    )
    with locked_file(tuning.file), opened as study:
        objective = Objective(tuning, plan_trial, n_examples, prune, options)
        _run_trials(study, objective, trials, quiet)
        return replace(tuning, trials=list_trials(study))


@dataclass
class Objective:
    """Trains and scores the runs of a trial."""

    tuning: Tuning
    plan_trial: Callable[[dict[str, str], int], Run]
    n_examples: int
    prune: bool
    options: dict[str, Any]
    seen: dict[int, float] = field(default_factory=dict[int, float])  # scores by step of a trial

    @cached_property
    def metric(self) -> str:
        return metrics.expression(self.tuning.by.choice)

    def __call__(self, trial: Trial) -> float:
        """The score of a trial."""
        values = {one.name: one.suggest(trial) for one in self.tuning.dimensions}
        self.seen = dict(trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values)
        first, paths = self.tuning.spec.seed, list[Path]()
        for seed in range(first, first + self.tuning.seeds):
            spec = self.plan_trial(values, seed)
            path = place_run(spec, self.tuning.out)
            trial.set_user_attr("runs", [*(done.name for done in paths), path.name])
            look = partial_look(self, trial, spec) if self.tuning.seeds == 1 else None
            paths.append(self.train(spec, look))
            trial.set_user_attr("runs", [done.name for done in paths])
            if len(paths) < self.tuning.seeds and len(paths) > self.tuning.by.compares_runs:
                self.report(trial, len(paths), self.score(paths))
        return self.score(paths)

    def train(self, spec: Run, look: Callable[[VAE, int], None] | None) -> Path:
        on_checkpoint = look if self.prune else None
        return train(
            spec,
            self.tuning.out,
            quiet=True,
            checkpoint_every=steps_between_looks(spec),
            on_checkpoint=on_checkpoint,
            **self.options,
        )

    def score(self, paths: Sequence[Path]) -> float:
        """The score of finished runs that differ by their seed alone."""
        goal = self.tuning.by
        if goal.compares_runs:
            return self.compare(paths)
        each: list[float] = []
        for path in paths:
            scores = evaluate_run(
                path, [self.metric], n_examples=self.n_examples, device=self.options["device"]
            )
            each.append(goal.pick(next(iter(scores.values())).values))
        return float(np.mean(each))

    def compare(self, paths: Sequence[Path]) -> float:
        """The score of a metric that compares runs, from their codes of the same examples."""
        from untwine.study.job import store_codes  # only this needs studies
        from untwine.study.stored_codes import has_codes, read_codes

        for path in paths:
            if not has_codes(path):
                store_codes(path)
        stored = [codes for codes in map(read_codes, paths) if codes is not None]
        choice = self.tuning.by.choice
        function: Any = metrics[choice.name].function
        values = function(
            [codes["codes"] for codes in stored],
            [codes["kl"] for codes in stored],
            **choice.params,
        )
        return self.tuning.by.pick(values)

    def report(self, trial: Trial, step: int, score: float) -> None:
        """Tell Optuna how a trial does so far; end it if others did better at this step."""
        if step not in self.seen:
            self.seen[step] = score
            trial.report(score, step)
        if self.prune and trial.should_prune():
            raise Pruned


def partial_look(objective: Objective, trial: Trial, spec: Run) -> Callable[[VAE, int], None]:
    """A function that scores a model during its training, as it will be scored at the end."""
    data = load_dataset(spec.data)

    def look(model: VAE, step: int) -> None:
        part, rest = divmod(step, steps_between_looks(spec))
        if rest:  # a checkpoint because the user interrupts
            return
        unfinished = TrainedRun(Path(), spec, model, lambda: data, History(), {})
        device = str(next(model.parameters()).device)
        subject = represent_run(unfinished, n_examples=objective.n_examples, device=device)
        goal = objective.tuning.by
        objective.report(trial, part, goal.pick(compute(subject, goal.choice)))

    return look


def steps_between_looks(spec: Run) -> int:
    return max(1, -(-spec.steps // LOOKS))


def _run_trials(study: Study, objective: Objective, trials: int, quiet: bool) -> None:
    """Finish trials, first those that were interrupted, until there are this many."""
    from optuna.trial import TrialState

    with progress(trials, "tuning", quiet=quiet) as show:
        while (done := count_done(study)) < trials:
            show(done, describe_best(study, objective.tuning))
            trial = next_trial(study, objective.tuning.spec.seed)
            try:
                score = objective(trial)
                if not math.isfinite(score):
                    raise RunError(f"the score is {score}")
            except Pruned:
                study.tell(trial, state=TrialState.PRUNED)
            except UntwineError as error:
                trial.set_user_attr("reason", str(error))
                study.tell(trial, state=TrialState.FAIL)
            else:
                study.tell(trial, score)
        show(trials, describe_best(study, objective.tuning))


def count_done(study: Study) -> int:
    """The trials that have ended, in whatever way."""
    return sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))


def next_trial(study: Study, seed: int) -> Trial:
    """The trial that was interrupted, or a new one.

    The sampler is made anew with a seed for each trial, so that a search which was interrupted
    makes the same suggestions as one which was not.
    """
    from optuna import Trial
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    known = study.get_trials(deepcopy=False)
    waiting = [trial for trial in known if trial.state == TrialState.RUNNING]
    number = waiting[0].number if waiting else len(known)
    study.sampler = TPESampler(seed=derive_seed(seed, number) % 2**32)
    return Trial(study, waiting[0]._trial_id) if waiting else study.ask()


def describe_best(study: Study, tuning: Tuning) -> str:
    """The best trial so far, in a few words."""
    tuning = replace(tuning, trials=list_trials(study))
    if not tuning.finished:
        return ""
    best = tuning.best
    values = ", ".join(f"{name}={short(value)}" for name, value in best.values.items())
    return f"best {tuning.by} {best.score:.4g} at {values}"


def short(value: str) -> str:
    """A number with four digits; other text as it is."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return value


def question_of(tuning: Tuning, n_examples: int) -> dict[str, Any]:
    """What is asked for, as the file notes it."""
    return {
        "run": tuning.spec.hash,
        "search": sorted(map(str, tuning.dimensions)),
        "by": metrics.expression(tuning.by.choice) + tuning.by.key,
        "seeds": tuning.seeds,
        "examples": n_examples,
    }
