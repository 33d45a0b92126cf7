"""What a paper claims, put to the test on our runs.

A claim is reduced to a number for each seed that is above zero where the claim holds: a difference
of scores, or a slope. It is supported when the 95 % interval of the mean of these numbers
lies above zero, contradicted when it lies below, and undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError, UnknownNameError
from untwine.evidence import Evidence, Published, Runs, value_of
from untwine.schema import unknown
from untwine.statistics import SURE, Table, number

Margins = NDArray[np.float64]  # one for each seed and dataset
Score = str | Sequence[str]  # several stand for their mean
Told = tuple[str, str]  # the verdict, and the numbers behind it in words


@dataclass(frozen=True)
class Verdict:
    """A claim and what our runs say of it."""

    says: str
    verdict: str  # supported, contradicted or undecided
    evidence: str
    published: str = ""  # what the published runs say, where they are here


def judge(evidence: Evidence, claim: Mapping[str, Any]) -> Verdict:
    """Put one claim of an item to the test, on our runs and on published ones."""
    verdict, told = _tested(evidence, claim)
    theirs = evidence.published
    if theirs is None:
        return Verdict(str(claim["says"]), verdict, told)
    published = ": ".join(_tested(Published(evidence, theirs), claim))
    return Verdict(str(claim["says"]), verdict, told, published)


def _tested(evidence: Any, claim: Mapping[str, Any]) -> Told:
    kinds = [key for key in claim if key != "says"]
    if len(kinds) != 1 or kinds[0] not in TESTS:
        wrong = ", ".join(kinds) or "nothing"
        raise UnknownNameError(unknown("test of a claim", wrong, TESTS))
    try:
        return TESTS[kinds[0]](evidence, **claim[kinds[0]])
    except DataError as error:  # such as runs that a smaller scale does not have, or that failed
        return "undecided", str(error)


def told(what: str, margins: Margins) -> Told:
    """The verdict on margins."""
    margins = margins[np.isfinite(margins)]
    if not len(margins):
        return "undecided", f"{what}: nothing to compare"
    mean = f"{what}: {margins.mean():+.3g}"
    if len(margins) < 2:
        return "undecided", f"{mean}, one seed"
    low, high = mean_interval(margins)
    verdict = "supported" if low > 0 else "contradicted" if high < 0 else "undecided"
    return verdict, f"{mean}, 95 % interval {low:+.3g} to {high:+.3g}, n = {len(margins)}"


def named(score: Score) -> str:
    """How a score is called in a sentence."""
    return score if isinstance(score, str) else "the mean of these scores"


def mean_interval(values: Margins) -> tuple[float, float]:
    """Student's interval of a mean, which unlike the bootstrap's holds for a few values.

    >>> [round(x, 3) for x in mean_interval(np.array([1.0, 2.0, 3.0]))]
    [-0.484, 4.484]
    """
    from scipy.stats import t

    error = values.std(ddof=1) / np.sqrt(len(values))
    reach = float(t.ppf((1 + SURE) / 2, len(values) - 1)) * error
    return float(values.mean() - reach), float(values.mean() + reach)


def _by_seed(rows: Table, score: Score) -> Any:
    """The mean of a score for each dataset and seed."""
    return rows.assign(tested=value_of(rows, score)).groupby(["data", "seed"])["tested"].mean()


def higher(
    evidence: Evidence,
    *,
    study: str,
    score: Score,
    of: Runs,
    than: Runs,
    at: str = "",
    data: str = "",
    sign: int = 1,
) -> Told:
    """The score of some runs above that of others, seed by seed; or at the same other score.

    With `at`, the others are a curve: their score where that other score is the same, between
    their settings.
    """
    ours, theirs = (evidence.select(study, runs, data) for runs in (of, than))
    goes = "difference" if sign > 0 else "decrease"
    if at:
        return told(
            f"{goes} in {named(score)} at the same {at}", sign * _gaps(ours, theirs, score, at)
        )
    gap = (_by_seed(ours, score) - _by_seed(theirs, score)).dropna()
    return told(f"{goes} in {named(score)}", sign * gap.to_numpy(float))


def lower(evidence: Evidence, **how: Any) -> Told:
    """The score of some runs below that of others."""
    return higher(evidence, sign=-1, **how)


def _gaps(ours: Table, theirs: Table, score: Score, at: str) -> Margins:
    """For each seed the mean height of our settings above the curve of theirs, where it reaches."""
    gaps: list[float] = []
    for key, group in ours.groupby(["data", "seed"]):
        curve = theirs[(theirs["data"] == key[0]) & (theirs["seed"] == key[1])].sort_values(at)
        if len(curve) < 2:
            continue
        within = group[group[at].between(curve[at].iloc[0], curve[at].iloc[-1])]
        between = np.interp(within[at], curve[at], value_of(curve, score))
        gaps.append(float(np.mean(value_of(within, score) - between)) if len(within) else np.nan)
    return np.array(gaps)


def rises(
    evidence: Evidence, *, study: str, score: Score, of: Runs, data: str = "", sign: int = 1
) -> Told:
    """A score that grows with the number that a model's runs vary: its slope over their order."""
    rows = evidence.select(study, of, data)
    rows = rows.assign(tested=value_of(rows, score), number=rows["value"].map(number))
    if rows["number"].isna().any() or rows["number"].nunique() < 2:
        raise DataError(f"{of} has no number that varies, with which {score} could rise")
    rows["place"] = rows["number"].rank(method="dense")
    slopes = [
        float(np.polyfit(group["place"], group["tested"], 1)[0])
        for _, group in rows.groupby(["data", "seed"])
        if group["place"].nunique() > 1
    ]
    goes = "rise" if sign > 0 else "fall"
    return told(f"{goes} of {named(score)} from one value to the next", sign * np.array(slopes))


def falls(evidence: Evidence, **how: Any) -> Told:
    """A score that falls as the number of a model grows."""
    return rises(evidence, sign=-1, **how)


def close(
    evidence: Evidence, *, study: str, score: Score, of: Runs, to: Runs, share: float
) -> Told:
    """A score that differs from that of other runs by no more than a share of theirs."""
    ours, theirs = (_by_seed(evidence.select(study, runs), score) for runs in (of, to))
    gap = (ours / theirs - 1).abs().dropna().to_numpy(float)
    return told(f"{share:g} less the relative difference in {named(score)}", share - gap)


def near(
    evidence: Evidence, *, study: str, score: Score, of: Runs, value: float, within: float
) -> Told:
    """A score no further from a number than `within`."""
    gap = (_by_seed(evidence.select(study, of), score) - value).abs().dropna().to_numpy(float)
    return told(f"{within:g} less the distance of {named(score)} from {value:g}", within - gap)


def exceeds(
    evidence: Evidence, *, study: str, score: Score, of: Runs, value: float | str, sign: int = 1
) -> Told:
    """A score above a number, or above another score of the same runs, such as a base rate."""
    rows = evidence.select(study, of)
    bound = value_of(rows, value) if isinstance(value, str) else value
    gap = rows.assign(gap=value_of(rows, score) - bound).groupby(["data", "seed"])["gap"].mean()
    goes = "excess" if sign > 0 else "shortfall"
    return told(f"{goes} of {named(score)} over {value}", sign * gap.dropna().to_numpy(float))


def below(evidence: Evidence, **how: Any) -> Told:
    """A score below a number, or below another score of the same runs."""
    return exceeds(evidence, sign=-1, **how)


def alike(evidence: Evidence, *, study: str, score: Score) -> Told:
    """Models that rank alike on all datasets: each dataset's order against that of the others."""
    table = evidence.table(study)
    means = table.assign(tested=value_of(table, score)).pivot_table("tested", "model", "data")
    ranks = [
        means[name].corr(means.drop(columns=name).mean(axis=1), method="spearman")
        for name in means.columns
        if means.shape[1] > 1
    ]
    return told("rank correlation of a dataset's order with that of the others", np.array(ranks))


def overtakes(evidence: Evidence, *, study: str, score: Score, of: Runs, than: Runs) -> Told:
    """Some run of a setting above some run of a better setting, so that one seed may mislead."""
    ours, theirs = (value_of(evidence.select(study, runs), score).dropna() for runs in (of, than))
    if len(ours) < 2 or len(theirs) < 2:
        return "undecided", "one seed"
    wins = float(np.mean(ours.to_numpy()[:, None] > theirs.to_numpy()))
    pairs = f"{100 * wins:.0f} % of the {len(ours) * len(theirs)} pairs of runs"
    return ("supported" if wins > 0 else "contradicted"), f"it wins in {pairs}"


TESTS: dict[str, Callable[..., Told]] = {
    test.__name__: test
    for test in (
        higher,
        lower,
        rises,
        falls,
        close,
        near,
        exceeds,
        below,
        alike,
        overtakes,
    )
}
