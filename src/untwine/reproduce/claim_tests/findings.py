"""What a test finds: margins per seed, the verdict on them, and the numbers in words."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from untwine.reproduce.evidence import Runs, value_of
from untwine.study.inference import Decision, Values, decide
from untwine.study.statistics import Table, mean_by_seed

Score = str | Sequence[str]  # of several, their mean


class Runnable(Protocol):
    """What a test needs of the evidence."""

    def table(self, study: str) -> Table: ...

    def select(self, study: str, description: Runs, data: str = "") -> Table: ...


@dataclass(frozen=True)
class Finding:
    """A verdict, and the numbers behind it."""

    verdict: str
    text: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    needed: int | None = None  # seeds that would decide it


def find(what: str, margins: Values) -> Finding:
    """Return the finding of margins, which are above zero where the claim holds."""
    margins = margins[np.isfinite(margins)]
    if not len(margins):
        return Finding("undecided", f"{what}: nothing to compare")
    return describe(what, decide(margins))


def describe(what: str, decision: Decision) -> Finding:
    """Return a decision in words."""
    effect, low, high = decision.effect, decision.low, decision.high
    text = f"{what}: {effect:+.3g}"
    if decision.n < 2:
        return Finding("undecided", f"{text}, one seed", effect, n=decision.n)
    text += f" [{low:+.3g}, {high:+.3g}], n = {decision.n}"
    if decision.verdict == "undecided":
        text += f"; {seeds_text(decision.needed)}"
    return Finding(
        decision.verdict, text, effect, low, high, decision.p, decision.n, decision.needed
    )


def seeds_text(needed: int | None) -> str:
    """Return how many seeds would decide a claim, in words."""
    return (
        f"{needed:,} seeds would decide" if needed else "more seeds than one can train would decide"
    )


def score_label(score: Score, rows: Container[str] = ()) -> str:
    """Return the name of a score for use in a sentence; of several, those that the rows have.

    >>> score_label("mig"), score_label(["mig"]), score_label(["mig", "sap"])
    ('mig', 'mig', 'the mean of these scores')
    >>> score_label(["mig", "sap"], {"sap": 0.1})
    'sap'
    """
    names = [score] if isinstance(score, str) else score
    names = [name for name in names if name.rpartition(" * ")[2] in rows] or names
    return names[0] if len(names) == 1 else "the mean of these scores"


def by_seed(rows: Table, score: Score, reduce: str = "mean") -> Any:
    """Return a score for each seed: its mean for each dataset, or the median of all its runs."""
    tested = rows.assign(tested=value_of(rows, score))
    if reduce == "median":
        return tested.groupby("seed")["tested"].median()
    return tested.groupby(["data", "seed"])["tested"].mean()


def gaps(ours: Any, theirs: Any) -> Values:
    """Return the difference of scores seed by seed; datasets are averaged within a seed."""
    return mean_by_seed(ours - theirs)


def mean_over_data(margins: Mapping[tuple[Any, Any], float]) -> Values:
    """Return one margin for each seed from margins by (dataset, seed)."""
    seeds: dict[Any, list[float]] = {}
    for (_, seed), margin in margins.items():
        if np.isfinite(margin):
            seeds.setdefault(seed, []).append(margin)
    return np.array([float(np.mean(values)) for values in seeds.values()])
