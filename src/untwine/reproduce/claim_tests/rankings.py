"""The best of several, agreement of rankings, shares of variance and of pairs of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from untwine.errors import DataError, ParameterError
from untwine.reproduce.claim_tests.findings import (
    Finding,
    Runnable,
    Score,
    by_seed,
    describe,
    find,
    gaps,
    mean_over_data,
    score_label,
)
from untwine.reproduce.evidence import Runs, value_of
from untwine.study.inference import (
    CONFIDENCE,
    Decision,
    Values,
    concordance,
    decide,
    decide_all,
    holm,
    pseudo_values,
    superiority,
)
from untwine.study.statistics import Table, higher_is_better, mean_by_seed, number

MIN_SHARE = 0.05  # of pairs of runs, for one setting to overtake another
MIN_CORRELATION = 0.5  # of a ranking with that of the others, for them to agree
N_RESAMPLES = 500  # of seeds, for the interval of a rank correlation


def highest(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    among: Sequence[Runs],
    data: str = "",
    reduce: str = "mean",
) -> Finding:
    """Test whether some runs score higher than each of several others."""
    groups = {_first(runs): evidence.select(study, runs, data) for runs in (of, *among)}
    return _best(groups, _first(of), score, reduce)


def _first(runs: Runs) -> str:
    return runs if isinstance(runs, str) else runs[0]


def best_at(
    evidence: Runnable, *, study: str, score: Score, of: Runs, value: float, data: str = ""
) -> Finding:
    """Test whether one value of a model's parameter is better than each other value."""
    rows = evidence.select(study, of, data)
    groups = {f"{v:g}": group for v, group in rows.groupby(rows["value"].map(number))}
    if f"{value:g}" not in groups or len(groups) < 2:
        raise DataError(f"{of} has no value {value:g} next to others")
    return _best(groups, f"{value:g}", score)


def _best(groups: Mapping[str, Table], best: str, score: Score, reduce: str = "mean") -> Finding:
    """Compare one group of runs with each other one; all comparisons must hold."""
    sign = 1 if not isinstance(score, str) or higher_is_better(score) else -1
    values = {name: by_seed(rows, score, reduce) for name, rows in groups.items()}
    parts = {
        name: decide(sign * gaps(values[best], value))
        for name, value in values.items()
        if name != best
    }
    decision = decide_all(list(parts.values()))
    rival = min(parts, key=lambda name: abs(parts[name].effect - decision.effect))
    middle = "median " if reduce == "median" else ""
    what = f"lead of {best} in {middle}{score_label(score)} over {rival}, its closest rival"
    return describe(what, decision)


def higher_on(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    than: Runs,
    least: int,
    data: str = "",
) -> Finding:
    """Test whether some runs score higher than others on at least so many datasets, each alone."""
    ours, theirs = (by_seed(evidence.select(study, runs, data), score) for runs in (of, than))
    gap = (ours - theirs).dropna()
    decisions = {str(name): decide(values.to_numpy(float)) for name, values in gap.groupby("data")}
    above = [name for name, one in decisions.items() if one.verdict == "supported"]
    p = holm(np.array([one.p if one.effect < 0 else 1.0 for one in decisions.values()]))
    under = [name for name, one in zip(decisions, p, strict=True) if one < 1 - CONFIDENCE]
    verdict = "supported" if len(above) >= least else "undecided"
    verdict = "contradicted" if len(decisions) - len(under) < least else verdict
    listing = ", ".join(
        f"{name} {one.effect:+.3g} [{one.low:+.2g}, {one.high:+.2g}]"
        for name, one in decisions.items()
    )
    text = f"higher on {len(above)} of {len(decisions)} datasets: {listing}"
    return Finding(verdict, text, float(len(above)), n=max(one.n for one in decisions.values()))


def most(
    evidence: Runnable,
    *,
    study: str,
    scores: Sequence[str],
    of: Runs,
    than: Runs,
    share: float = 0.5,
) -> Finding:
    """Test whether some runs are better than others in more than a share of several scores."""
    ours, theirs = (evidence.select(study, runs) for runs in (of, than))
    names = [name for name in scores if name.rpartition(" * ")[2] in ours]
    if not names:
        raise DataError(f"none of the {len(scores)} scores is there")
    wins = [
        (by_seed(ours, name) > by_seed(theirs, name)).astype(float).mul(1 / len(names))
        for name in names
    ]
    margins = mean_by_seed(sum(wins[1:], start=wins[0])) - share
    what = f"share of {len(names)} scores in which it is higher, less {share:g}"
    return find(what, margins)


def overtakes(
    evidence: Runnable,
    *,
    study: str,
    score: str,
    of: Runs,
    than: Runs,
    share: float = MIN_SHARE,
    data: str = "",
) -> Finding:
    """Test whether a run of a setting beats one of a better setting in enough pairs of runs."""
    ours, theirs = (
        value_of(evidence.select(study, runs, data), score).dropna().to_numpy(float)
        for runs in (of, than)
    )
    decision = superiority(ours, theirs, share)
    what = (
        f"share of the {len(ours) * len(theirs):,} pairs of runs that it wins, more than {share:g}"
    )
    return describe(what, decision)


def correlates(
    evidence: Runnable, *, study: str, score: Score, against: str, of: Runs, data: str = ""
) -> Finding:
    """Test whether two scores rise together: Spearman's correlation over the runs of each seed."""
    rows = evidence.select(study, of, data)
    rows = rows.assign(first=value_of(rows, score), second=value_of(rows, against))
    margins: dict[tuple[Any, Any], float] = {}
    for key, group in rows.dropna(subset=["first", "second"]).groupby(["data", "seed"]):
        if group["first"].nunique() > 2 and group["second"].nunique() > 2:
            margins[key] = float(group["first"].corr(group["second"], method="spearman"))
    what = f"rank correlation of {score_label(score)} with {against} over the runs of a seed"
    return find(what, mean_over_data(margins))


def explains(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    by: str,
    above: float | None = None,
    below: float | None = None,
    data: str = "",
) -> Finding:
    """Test how much of a score's variance the data, the model or its value explains."""
    rows = evidence.select(study, of, data)
    rows = rows.assign(tested=value_of(rows, score))
    cells = rows.pivot_table("tested", "seed", ["data", "model", "setting"]).dropna()
    keys = [cells.columns.get_level_values(level) for level in ("data", "model")]
    groups = {"data": [keys[0]], "model": [keys[1]], "value": keys}[by]
    codes = np.unique([" ".join(key) for key in zip(*groups, strict=True)], return_inverse=True)[1]

    def share(units: Sequence[Values]) -> float:
        values = np.stack(units)
        means = values.mean(0)
        grouped = np.array([means[codes == code].mean() for code in codes])
        part = (means - grouped).var() if by == "value" else grouped.var()
        return float(part / values.var())

    if len(cells) < 2:
        raise DataError("a share of variance needs several seeds")
    shares = pseudo_values(list(cells.to_numpy(float)), share)
    what = f"share of the variance of {score_label(score)} that the {by} explains"
    if above is not None:
        return find(f"{what}, less {above:g}", shares - above)
    if below is None:
        raise ParameterError("explains needs a line, above or below")
    return find(f"{below:g} less the {what}", below - shares)


def agree(
    evidence: Runnable,
    *,
    study: str,
    score: Score,
    of: Runs,
    on: int = 0,
    over: str = "data",
    data: str = "",
) -> Finding:
    """Test whether models rank alike on datasets, or by several scores.

    Kendall's W must be significant by permutation, and at least `on` of the rankings (all by
    default) must agree with the others: a rank correlation of 0.5 with their mean. The exceptions
    are named; one is certain if the interval of its correlation, over seeds, lies below 0.5.
    """
    names, cube = _rankings(evidence.select(study, of, data), score, over)
    means = cube.mean(0)
    w, p = concordance(means)
    point = _correlation_with_others(means)
    rng = np.random.default_rng(0)
    picks = rng.integers(len(cube), size=(N_RESAMPLES, len(cube)))
    resampled = np.stack([_correlation_with_others(cube[pick].mean(0)) for pick in picks])
    high = np.quantile(resampled, (1 + CONFIDENCE) / 2, axis=0)
    certain = int((high < MIN_CORRELATION).sum())
    exceptions = [
        f"{n} ({c:+.2f})" for n, c in zip(names, point, strict=True) if c < MIN_CORRELATION
    ]
    wanted = on or len(names)
    agreeing = len(names) - len(exceptions)
    verdict = "supported" if p < 1 - CONFIDENCE and agreeing >= wanted else "undecided"
    verdict = "contradicted" if len(names) - certain < wanted else verdict
    text = f"Kendall's W {w:.2f}, p = {p:.2g}; {agreeing} of {len(names)} agree with the others"
    text += f"; exceptions: {', '.join(exceptions)}" if exceptions else ""
    return Finding(verdict, text, w, p=p, n=len(cube))


def disagree(evidence: Runnable, **params: Any) -> Finding:
    """Test whether rankings contradict each other: the reverse of `agree`."""
    agreement = agree(evidence, **params)
    reverse = {"supported": "contradicted", "contradicted": "supported"}
    return replace(agreement, verdict=reverse.get(agreement.verdict, agreement.verdict))


def _rankings(table: Table, score: Score, over: str) -> tuple[list[str], Values]:
    """Return the names of the rankings and (seeds, rankings, models) the means behind them."""
    if over == "score":
        names = [score] if isinstance(score, str) else list(score)
        table = table.melt(["model", "seed"], names, "ranking", "tested")
    else:
        table = table.assign(tested=value_of(table, score), ranking=table["data"])
    wide = table.pivot_table("tested", "seed", ["ranking", "model"]).dropna()
    names = list(dict.fromkeys(wide.columns.get_level_values("ranking")))
    models = wide.columns.get_level_values("model").nunique()
    if len(names) < 2 or models < 3 or not len(wide):
        raise DataError("a comparison of rankings needs two of them, of three models or more")
    return names, wide.to_numpy(float).reshape(len(wide), len(names), models)


def _correlation_with_others(means: Values) -> Values:
    """Return the rank correlation of each row with the mean of the other rows."""
    from scipy.stats import rankdata

    ranks = rankdata(means, axis=1)
    others = [rankdata(np.delete(means, row, 0).mean(0)) for row in range(len(means))]
    return np.array([np.corrcoef(r, o)[0, 1] for r, o in zip(ranks, others, strict=True)])


def best_differs(
    evidence: Runnable, *, study: str, score: Score, of: Runs, data: str = ""
) -> Finding:
    """Test whether the best value of a parameter is not the same on all datasets.

    The best value of each dataset is chosen on every second seed. On the others, the best value of
    one dataset must beat that of another on its own data, and the reverse; corrected by Holm.
    """
    rows = evidence.select(study, of, data)
    rows = rows.assign(tested=value_of(rows, score), number=rows["value"].map(number))
    order = rows["seed"].rank(method="dense")
    chosen = rows[order % 2 == 0].groupby(["data", "number"])["tested"].mean().unstack("number")
    best = chosen.idxmax(axis=1)
    fresh = rows[order % 2 == 1].set_index(["data", "number", "seed"])["tested"]

    def lead(where: str, value: float, rival: float) -> Decision:
        gap = fresh[where, value] - fresh[where, rival]
        return decide(gap.dropna().to_numpy(float))

    pairs = [(a, b) for a in best.index for b in best.index if a < b and best[a] != best[b]]
    p = [
        max(
            d.p if d.effect > 0 else 1.0
            for d in (lead(a, best[a], best[b]), lead(b, best[b], best[a]))
        )
        for a, b in pairs
    ]
    listing = ", ".join(f"{value:g} on {name}" for name, value in best.items())
    least = float(holm(np.array(p)).min()) if p else 1.0
    verdict = "supported" if least < 1 - CONFIDENCE else "undecided"
    n = int(rows["seed"].nunique())
    return Finding(verdict, f"best: {listing}; p = {least:.2g}", p=least, n=n)
