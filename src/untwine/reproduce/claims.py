"""Tests of a paper's claims on our runs.

A test reduces a claim to one margin per seed, which is above zero where the claim holds: a
difference of scores, or a slope. The claim is supported if the 95 % interval of the mean margin
lies above zero, contradicted if it lies below, and undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError, UnknownNameError
from untwine.reproduce.evidence import Evidence, PublishedEvidence, Runs, value_of
from untwine.schema import unknown_name
from untwine.study.statistics import CONFIDENCE, Table, number

Margins = NDArray[np.float64]  # one for each seed and dataset
Score = str | Sequence[str]  # of several, their mean
Finding = tuple[str, str]  # the verdict, and the numbers behind it in words


@dataclass(frozen=True)
class Verdict:
    """The result of testing a claim."""

    says: str
    verdict: str  # supported, contradicted or undecided
    evidence: str
    published: str = ""  # the result on published runs, if available


def assess_claim(evidence: Evidence, claim: Mapping[str, Any]) -> Verdict:
    """Test one claim of an item, on our runs and on published ones."""
    verdict, numbers = _apply_test(evidence, claim)
    theirs = evidence.published
    if theirs is None:
        return Verdict(str(claim["says"]), verdict, numbers)
    published = ": ".join(_apply_test(PublishedEvidence(evidence, theirs), claim))
    return Verdict(str(claim["says"]), verdict, numbers, published)


def _apply_test(evidence: Any, claim: Mapping[str, Any]) -> Finding:
    kinds = [key for key in claim if key != "says"]
    if len(kinds) != 1 or kinds[0] not in TESTS:
        names = ", ".join(kinds) or "nothing"
        raise UnknownNameError(unknown_name("test of a claim", names, TESTS))
    try:
        return TESTS[kinds[0]](evidence, **claim[kinds[0]])
    except DataError as error:  # for example runs that failed, or that a smaller scale lacks
        return "undecided", str(error)


def decide(what: str, margins: Margins) -> Finding:
    """Return the verdict that the margins support."""
    margins = margins[np.isfinite(margins)]
    if not len(margins):
        return "undecided", f"{what}: nothing to compare"
    mean = f"{what}: {margins.mean():+.3g}"
    if len(margins) < 2:
        return "undecided", f"{mean}, one seed"
    low, high = mean_interval(margins)
    verdict = "supported" if low > 0 else "contradicted" if high < 0 else "undecided"
    return verdict, f"{mean}, 95 % interval {low:+.3g} to {high:+.3g}, n = {len(margins)}"


def score_label(score: Score) -> str:
    """Return the name of a score for use in a sentence."""
    return score if isinstance(score, str) else "the mean of these scores"


def mean_interval(values: Margins) -> tuple[float, float]:
    """Student's interval of a mean; unlike the bootstrap's, valid for a few values.

    >>> [round(x, 3) for x in mean_interval(np.array([1.0, 2.0, 3.0]))]
    [-0.484, 4.484]
    """
    from scipy.stats import t

    error = values.std(ddof=1) / np.sqrt(len(values))
    reach = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error
    return float(values.mean() - reach), float(values.mean() + reach)


def _by_seed(rows: Table, score: Score) -> Any:
    """Return the mean of a score for each dataset and seed."""
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
) -> Finding:
    """Test whether some runs score higher than others, seed by seed.

    With `at`, the other runs form a curve, interpolated between their settings: scores are compared
    where the score `at` is the same.
    """
    ours, theirs = (evidence.select(study, runs, data) for runs in (of, than))
    change = "difference" if sign > 0 else "decrease"
    if at:
        what = f"{change} in {score_label(score)} at the same {at}"
        return decide(what, sign * _gaps_to_curve(ours, theirs, score, at))
    gap = (_by_seed(ours, score) - _by_seed(theirs, score)).dropna()
    return decide(f"{change} in {score_label(score)}", sign * gap.to_numpy(float))


def lower(evidence: Evidence, **params: Any) -> Finding:
    """Test whether some runs score lower than others."""
    return higher(evidence, sign=-1, **params)


def _gaps_to_curve(ours: Table, theirs: Table, score: Score, at: str) -> Margins:
    """Return for each seed the mean height of our settings above their curve, within its range."""
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
) -> Finding:
    """Test whether a score rises with the parameter that varies: its slope over the ranks."""
    rows = evidence.select(study, of, data)
    rows = rows.assign(tested=value_of(rows, score), number=rows["value"].map(number))
    if rows["number"].isna().any() or rows["number"].nunique() < 2:
        raise DataError(f"{of} has no parameter that varies, so {score} cannot rise with it")
    rows["rank"] = rows["number"].rank(method="dense")
    slopes = [
        float(np.polyfit(group["rank"], group["tested"], 1)[0])
        for _, group in rows.groupby(["data", "seed"])
        if group["rank"].nunique() > 1
    ]
    change = "rise" if sign > 0 else "fall"
    return decide(
        f"{change} of {score_label(score)} from one value to the next", sign * np.array(slopes)
    )


def falls(evidence: Evidence, **params: Any) -> Finding:
    """Test whether a score falls as the parameter grows."""
    return rises(evidence, sign=-1, **params)


def close(
    evidence: Evidence, *, study: str, score: Score, of: Runs, to: Runs, share: float
) -> Finding:
    """Test whether a score differs from that of other runs by at most a share of theirs."""
    ours, theirs = (_by_seed(evidence.select(study, runs), score) for runs in (of, to))
    gap = (ours / theirs - 1).abs().dropna().to_numpy(float)
    return decide(f"{share:g} less the relative difference in {score_label(score)}", share - gap)


def near(
    evidence: Evidence, *, study: str, score: Score, of: Runs, value: float, within: float
) -> Finding:
    """Test whether a score is within a distance of a number."""
    gap = (_by_seed(evidence.select(study, of), score) - value).abs().dropna().to_numpy(float)
    return decide(
        f"{within:g} less the distance of {score_label(score)} from {value:g}", within - gap
    )


def exceeds(
    evidence: Evidence, *, study: str, score: Score, of: Runs, value: float | str, sign: int = 1
) -> Finding:
    """Test whether a score is above a number or another score, such as a base rate."""
    rows = evidence.select(study, of)
    bound = value_of(rows, value) if isinstance(value, str) else value
    gap = rows.assign(gap=value_of(rows, score) - bound).groupby(["data", "seed"])["gap"].mean()
    change = "excess" if sign > 0 else "shortfall"
    return decide(
        f"{change} of {score_label(score)} over {value}", sign * gap.dropna().to_numpy(float)
    )


def below(evidence: Evidence, **params: Any) -> Finding:
    """Test whether a score is below a number or another score of the same runs."""
    return exceeds(evidence, sign=-1, **params)


def alike(evidence: Evidence, *, study: str, score: Score) -> Finding:
    """Test whether models rank alike: the order on each dataset against that on the others."""
    table = evidence.table(study)
    means = table.assign(tested=value_of(table, score)).pivot_table("tested", "model", "data")
    ranks = [
        means[name].corr(means.drop(columns=name).mean(axis=1), method="spearman")
        for name in means.columns
        if means.shape[1] > 1
    ]
    return decide("rank correlation of a dataset's order with that of the others", np.array(ranks))


def overtakes(evidence: Evidence, *, study: str, score: Score, of: Runs, than: Runs) -> Finding:
    """Test whether a run of a setting can beat one of a better setting, so that a seed misleads."""
    ours, theirs = (value_of(evidence.select(study, runs), score).dropna() for runs in (of, than))
    if len(ours) < 2 or len(theirs) < 2:
        return "undecided", "one seed"
    wins = float(np.mean(ours.to_numpy()[:, None] > theirs.to_numpy()))
    pairs = f"{100 * wins:.0f} % of the {len(ours) * len(theirs)} pairs of runs"
    return ("supported" if wins > 0 else "contradicted"), f"it wins in {pairs}"


TESTS: dict[str, Callable[..., Finding]] = {
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
