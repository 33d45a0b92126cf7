"""How sure one can be: the interval, the pairing and the correction for many tests.

Chosen once, for studies and for the claims of papers. `docs/explanation/claims.md` has the
reasons; `tests/study/test_inference.py` checks by simulation how often the rules are wrong.

- Pairing: runs with the same seed have the same first weights and the same order of the data, so
  a difference is taken seed by seed. Datasets are fixed: a seed counts once, with its mean over
  them.
- Interval: Student's, of 95 %. Unlike the percentile bootstrap it keeps its promise for few seeds.
- Many tests: Holm's method, for tests of which any single one would do. Their intervals have the
  levels of its steps, so that an interval excludes zero exactly where the test rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
POWER = 0.9  # chance to decide a claim, for which numbers of seeds are given
MAX_SEEDS = 100_000  # searched for the number that would decide
N_PERMUTATIONS = 10_000  # of ranks, for the test of agreement
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Decision:
    """What the margins of seeds say of a claim that holds where they are above zero."""

    verdict: str  # supported, contradicted or undecided
    effect: float  # mean margin
    low: float
    high: float
    p: float  # that the mean margin is zero, two-sided
    n: int  # seeds
    needed: int | None = None  # seeds that would decide an effect of this size and spread


def decide(margins: Values) -> Decision:
    """Decide by the interval of the mean margin: above zero, below, or neither.

    >>> decide(np.array([1.0, 2.0, 3.0])).verdict, decide(np.array([1.0, 1.1, 1.2])).verdict
    ('undecided', 'supported')
    """
    margins = margins[np.isfinite(margins)]
    n = len(margins)
    effect = float(margins.mean()) if n else float("nan")
    low, high = interval(margins)
    verdict = "supported" if low > 0 else "contradicted" if high < 0 else "undecided"
    p = p_value(margins)
    needed = seeds_needed(margins) if verdict == "undecided" else None
    return Decision(verdict, effect, low, high, p, n, needed)


def interval(values: Values, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Student's interval of a mean. Fewer than two values tell nothing: NaN.

    >>> [round(x, 3) for x in interval(np.array([1.0, 2.0, 3.0]))]
    [-0.484, 4.484]
    """
    from scipy.stats import t

    if len(values) < 2:
        return float("nan"), float("nan")
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    reach = float(t.ppf((1 + confidence) / 2, len(values) - 1)) * error
    return mean - reach, mean + reach


def p_value(values: Values) -> float:
    """Student's two-sided p value of a mean of zero; NaN for fewer than two values."""
    from scipy.stats import t

    if len(values) < 2:
        return float("nan")
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    if not error:
        return 0.0 if mean else 1.0
    return float(2 * t.sf(abs(mean) / error, len(values) - 1))


def power(effect: float, n: int, level: float = 1 - CONFIDENCE) -> float:
    """The chance that n seeds decide an effect, given in standard deviations of a margin.

    >>> round(power(1.0, 13), 2)
    0.91
    """
    from scipy.stats import nct, t

    limit = float(t.ppf(1 - level / 2, n - 1))
    shift = abs(effect) * np.sqrt(n)
    # SciPy has NaN for the far tail, which is next to nothing.
    return float(nct.sf(limit, n - 1, shift) + np.nan_to_num(nct.cdf(-limit, n - 1, shift)))


def visible_effect(n: int, level: float = 1 - CONFIDENCE) -> float:
    """The smallest effect that n seeds decide with the chance `POWER`, in standard deviations.

    >>> round(visible_effect(13), 1), round(visible_effect(5), 1), visible_effect(1)
    (1.0, 2.0, inf)
    """
    from scipy.optimize import brentq

    if n < 2:
        return float("inf")
    high = 1.0
    while power(high, n, level) < POWER:
        high *= 2
    root: Any = brentq(lambda effect: power(effect, n, level) - POWER, 0, high)
    return float(root)


def seeds_needed(values: Values, level: float = 1 - CONFIDENCE) -> int | None:
    """The number of seeds that would decide, if mean and spread stay; none if nothing would."""
    if len(values) < 2 or not values.std() or not values.mean():
        return None
    return _seeds_for(float(abs(values.mean()) / values.std(ddof=1)), level)


def _seeds_for(effect: float, level: float) -> int | None:
    """The number of seeds that would decide an effect, given in standard deviations of a margin."""
    # Found from the normal approximation, then one by one.
    n = max(2, int((1.96 + 1.28) ** 2 / effect**2) - 2)
    if n > MAX_SEEDS:
        return None
    while power(effect, n, level) < POWER:
        n += 1
    return n


def holm(p: Values) -> Values:
    """p values corrected for their number by Holm's method.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    stepped = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return corrected


def holm_levels(p: Values) -> Values:
    """The level of each test's interval, so that it excludes zero where Holm's method rejects.

    A rejected test has the level of its step, the others that of the step at which it stopped.

    >>> holm_levels(np.array([0.01, 0.04, 0.03])).round(4).tolist()
    [0.0167, 0.025, 0.025]
    """
    order, levels = np.argsort(p), (1 - CONFIDENCE) / np.arange(len(p), 0, -1)
    failed = np.flatnonzero(~(p[order] < levels))
    if len(failed):
        levels[failed[0] :] = levels[failed[0]]
    by_test = np.empty_like(levels)
    by_test[order] = levels
    return by_test


def decide_all(parts: Sequence[Decision]) -> Decision:
    """Decide a claim that holds if all its parts do: the weakest part speaks for them.

    It is supported if every part is: no part then needs a correction. It is contradicted if the
    worst part is, after Holm's correction, because any one of them would contradict it. Where the
    weakest part would contradict alone, its interval has the level of the correction.
    """
    weakest = min(parts, key=lambda part: (part.effect > 0, _size(part)))
    if all(part.verdict == "supported" for part in parts):
        return max(parts, key=lambda part: part.p)
    against = np.array([part.p if part.effect < 0 else 1.0 for part in parts])
    p = holm(against)
    if (p < 1 - CONFIDENCE).any():
        worst = parts[int(np.argmin(p))]
        return Decision("contradicted", *_numbers(worst), p=float(p.min()), n=worst.n)
    if weakest.verdict == "contradicted" and weakest.effect < 0:
        weakest = _at_level(weakest, float(holm_levels(against)[parts.index(weakest)]))
    return Decision(
        "undecided", *_numbers(weakest), p=weakest.p, n=weakest.n, needed=weakest.needed
    )


def _at_level(part: Decision, level: float) -> Decision:
    """Return a part with the wider interval of a smaller level, and the seeds that it needs."""
    from scipy.stats import t

    own, corrected = (float(t.ppf(1 - a / 2, part.n - 1)) for a in (1 - CONFIDENCE, level))
    reach = (part.high - part.low) / 2 * corrected / own
    size = abs(part.effect) / (reach / corrected * np.sqrt(part.n))
    return replace(
        part,
        low=part.effect - reach,
        high=part.effect + reach,
        needed=_seeds_for(float(size), level),
    )


def _size(part: Decision) -> float:
    """The effect in units of its interval, so that parts can be compared."""
    return part.effect / max(part.high - part.low, 1e-300)


def _numbers(part: Decision) -> tuple[float, float, float]:
    return part.effect, part.low, part.high


def superiority(ours: Values, theirs: Values, share: float) -> Decision:
    """Decide whether a value of ours beats one of theirs in more than a share of all pairs.

    The interval is Brunner and Munzel's. The effect and its interval are of the share itself.
    """
    from scipy.stats import rankdata, t

    n, m = len(ours), len(theirs)
    wins = float(np.mean(ours[:, None] > theirs) + 0.5 * np.mean(ours[:, None] == theirs))
    if min(n, m) < 2:
        return Decision("undecided", wins, float("nan"), float("nan"), float("nan"), min(n, m))
    ranks = rankdata(np.concatenate([ours, theirs]))
    first = (ranks[:n] - rankdata(ours)).var(ddof=1) / (m**2 * n)
    second = (ranks[n:] - rankdata(theirs)).var(ddof=1) / (n**2 * m)
    variance = first + second
    if not variance:  # one side wins throughout; the rule of three for the pairs of single seeds
        reach = 3 / min(n, m)
        low, high = max(0.0, wins - reach), min(1.0, wins + reach)
        p = float("nan")
    else:
        freedom = variance**2 / (first**2 / (n - 1) + second**2 / (m - 1))
        error = float(np.sqrt(variance))
        reach = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
        low, high = max(0.0, wins - reach), min(1.0, wins + reach)
        p = float(2 * t.sf(abs(wins - share) / error, freedom))
    verdict = "supported" if low > share else "contradicted" if high < share else "undecided"
    # The interval shrinks with the root of the number of seeds.
    gap, scale = abs(wins - share), (high - low) / 2
    needed = int(np.ceil(min(n, m) * (1.65 * scale / gap) ** 2)) if gap and scale else None
    return Decision(verdict, wins, low, high, p, min(n, m), needed)


def concordance(scores: Values) -> tuple[float, float]:
    """Kendall's W of the orders in the rows of (judges, items), and its permutation p value.

    >>> concordance(np.array([[1.0, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4, 5]]))[0]
    1.0
    """
    from scipy.stats import rankdata

    ranks = rankdata(scores, axis=1)
    observed = _spread_of_sums(ranks)
    judges, items = ranks.shape
    rng = np.random.default_rng(0)
    shuffled = rng.permuted(np.broadcast_to(ranks, (N_PERMUTATIONS, judges, items)), axis=2)
    reached = np.sum(_spread_of_sums(shuffled) >= observed - 1e-9)
    w = 12 * observed / (judges**2 * (items**3 - items))
    return float(w), float((reached + 1) / (N_PERMUTATIONS + 1))


def _spread_of_sums(ranks: Values) -> Any:
    sums = ranks.sum(-2)
    return ((sums - sums.mean(-1, keepdims=True)) ** 2).sum(-1)


def pseudo_values(units: Sequence[Any], statistic: Callable[[Sequence[Any]], float]) -> Values:
    """The jackknife's value of each unit, for a statistic that has no value for one unit alone.

    Their mean is the statistic without most of its bias, and their interval is valid for it.
    """
    n, whole = len(units), statistic(units)
    without = [statistic([u for j, u in enumerate(units) if j != i]) for i in range(n)]
    return n * whole - (n - 1) * np.array(without)
