"""Runs compared with other runs, with numbers, and along a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from untwine.errors import DataError
from untwine.reproduce.claim_tests.findings import (
    Finding,
    Runnable,
    Score,
    by_seed,
    find,
    gaps,
    mean_over_data,
    score_label,
)
from untwine.reproduce.evidence import Runs, value_of
from untwine.study.inference import Values
from untwine.study.statistics import Table, higher_is_better, mean_by_seed, number


def higher(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    than: Runs,
    at: str = "",
    data: str = "",
    by: float = 0.0,
    reduce: str = "mean",
    sign: int = 1,
) -> Finding:
    """Test whether some runs score higher than others, by at least `by`.

    With `at`, the other runs form a curve, interpolated between their settings: scores are compared
    where the score `at` is the same. A run that is better in `at` than the whole curve is compared
    with its nearest end; one that is worse is left out.
    """
    ours, theirs = (evidence.select(study, runs, data) for runs in (of, than))
    what = f"{'difference' if sign > 0 else 'decrease'} in {score_label(score, ours)}"
    what += f" at the same {at}" if at else ""
    what += f", less {by:g}" if by else ""
    if at:
        return find(what, sign * _gaps_to_curve(ours, theirs, score, at) - by)
    margins = sign * gaps(by_seed(ours, score, reduce), by_seed(theirs, score, reduce))
    return find(what, margins - by)


def lower(evidence: Runnable, **params: Any) -> Finding:
    """Test whether some runs score lower than others."""
    return higher(evidence, sign=-1, **params)


def _gaps_to_curve(ours: Table, theirs: Table, score: Score, at: str) -> Values:
    """Return for each seed the mean height of our settings above their curve."""
    heights: dict[tuple[Any, Any], float] = {}
    for key, group in ours.groupby(["data", "seed"]):
        curve = theirs[(theirs["data"] == key[0]) & (theirs["seed"] == key[1])].sort_values(at)
        if len(curve) < 2:
            continue
        comparable = (
            group[at] >= curve[at].min() if higher_is_better(at) else group[at] <= curve[at].max()
        )
        group = group[comparable]
        between = np.interp(group[at], curve[at], value_of(curve, score))
        heights[key] = float(np.mean(value_of(group, score) - between)) if len(group) else np.nan
    return mean_over_data(heights)


def rises(
    evidence: Runnable, *, study: str, score: Score, of: Runs, data: str = "", sign: int = 1
) -> Finding:
    """Test whether a score rises with the parameter that varies: its slope over the ranks.

    A run without a parameter, such as a VAE next to β-VAEs, has the value 1.
    """
    rows = evidence.select(study, of, data)
    rows = rows.assign(tested=value_of(rows, score), number=rows["value"].map(number))
    if rows["number"].notna().any():
        rows["number"] = rows["number"].fillna(1.0)
    if rows["number"].nunique() < 2:
        raise DataError(f"{of} has no parameter that varies, so {score} cannot rise with it")
    rows["rank"] = rows["number"].rank(method="dense")
    slopes = {
        key: sign * float(np.polyfit(group["rank"], group["tested"], 1)[0])
        for key, group in rows.groupby(["data", "seed"])
        if group["rank"].nunique() > 1
    }
    change = "rise" if sign > 0 else "fall"
    return find(
        f"{change} of {score_label(score)} from one value to the next", mean_over_data(slopes)
    )


def falls(evidence: Runnable, **params: Any) -> Finding:
    """Test whether a score falls as the parameter grows."""
    return rises(evidence, sign=-1, **params)


def follows(
    evidence: Runnable, *, study: str, score: Score, against: str, of: Runs, data: str = ""
) -> Finding:
    """Test whether a score rises with another one over the datasets of a seed: its slope."""
    rows = evidence.select(study, of, data)
    rows = rows.assign(tested=value_of(rows, score), along=value_of(rows, against))
    slopes = [
        float(np.polyfit(group["along"], group["tested"], 1)[0])
        for _, group in rows.dropna(subset=["tested", "along"]).groupby("seed")
        if group["along"].nunique() > 1
    ]
    return find(f"slope of {score_label(score)} over {against}", np.array(slopes))


def no_worse(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    than: Runs,
    share: float,
    data: str = "",
) -> Finding:
    """Test whether a score is worse than that of other runs by at most a share; better is fine."""
    ours, theirs = (by_seed(evidence.select(study, runs, data), score) for runs in (of, than))
    change = mean_by_seed(ours / theirs - 1)
    better = isinstance(score, str) and higher_is_better(score)
    change = -change if better else change
    return find(
        f"{share:g} less the relative {'fall' if better else 'rise'} in {score_label(score)}",
        share - change,
    )


def close(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    to: Runs,
    share: float,
    data: str = "",
) -> Finding:
    """Test whether a score differs from that of other runs by at most a share of theirs."""
    ours, theirs = (by_seed(evidence.select(study, runs, data), score) for runs in (of, to))
    gap = mean_by_seed((ours / theirs - 1).abs())
    return find(f"{share:g} less the relative difference in {score_label(score)}", share - gap)


def near(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    value: float,
    within: float,
    data: str = "",
) -> Finding:
    """Test whether a score is within a distance of a number."""
    gap = mean_by_seed((by_seed(evidence.select(study, of, data), score) - value).abs())
    what = f"{within:g} less the distance of {score_label(score)} from {value:g}"
    return find(what, within - gap)


def exceeds(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    value: float | str,
    by: float = 0.0,
    data: str = "",
    sign: int = 1,
) -> Finding:
    """Test whether a score is above a number or another score, such as a base rate."""
    rows = evidence.select(study, of, data)
    bound = value_of(rows, value) if isinstance(value, str) else value
    gap = rows.assign(gap=value_of(rows, score) - bound).groupby(["data", "seed"])["gap"].mean()
    what = f"{'excess' if sign > 0 else 'shortfall'} of {score_label(score)} over {value}"
    return find(f"{what}, less {by:g}" if by else what, sign * mean_by_seed(gap) - by)


def below(evidence: Runnable, **params: Any) -> Finding:
    """Test whether a score is below a number or another score of the same runs."""
    return exceeds(evidence, sign=-1, **params)
