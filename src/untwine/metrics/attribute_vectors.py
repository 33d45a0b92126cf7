"""How well a direction in the code, and a threshold on it, predict an attribute."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.estimators.arrays import Codes, split
from untwine.estimators.information import row_slices
from untwine.registry import metric
from untwine.schema import Natural

Column = NDArray[np.int64]  # (N,)


@metric(
    title="Attribute vectors",
    paper="Kumar et al., 2018",
    url="https://arxiv.org/abs/1711.00848",
    higher_is_better=True,
    question="held",
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "shift", "dead"),
    variants={
        "each": {"each": True},
        "unit": {"unit": True},
        "each-unit": {"each": True, "unit": True},
    },
)
def attribute_vectors(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    *,
    each: bool = False,
    unit: bool = False,
    seed: Natural = 0,
) -> dict[str, float]:
    """Accuracy of predicting attributes by a difference of means (Kumar et al., 2018, Table 2).

    w = mean(z | y = 1) − mean(z | y = 0),   b = argmin Σ max(0, 1 − t (w·z + b))

    t = ±1 is the attribute, predicted by the sign of w·z + b. Only the bias is fitted, exactly: the
    hinge loss is piecewise linear in it. Where an interval of biases is best, its middle is taken.
    Codes are (N, D), factors (N, K).

    The paper's attributes have two levels. A factor with more is predicted level by level, each
    against the rest, and counts with the mean over its levels; levels that do not occur in the
    training rows are left out. The result is the mean over factors, and the base rate: the accuracy
    of always giving the more frequent answer in the test rows. The variant `each` adds the accuracy
    of every factor, by its column from 0; the variant `unit` scales each latent to unit variance
    first, so that models whose codes are of different sizes compare.

    Blind spots: the margin of 1 is absolute, so the scale of the codes matters: where w·z differs
    by less, the bias moves to the majority. Imbalance is not corrected, so accuracy near the base
    rate says nothing, and for many levels both are close to 1. A rotation of the code changes
    nothing: it does not see disentanglement. Attributes that depend on a latent both ways have no
    difference of means.

    Args:
        each: also the accuracy of every factor.
        unit: divide each latent by its standard deviation over the training rows.
        seed: chooses the rows held out where no test rows are given.

    >>> codes = np.array([[2.0, 0.0], [-2.0, 0.0]] * 4)
    >>> attribute_vectors(codes, [1, 0] * 4, codes, [1, 0] * 4)
    {'accuracy': 1.0, 'base_rate': 0.5}
    """
    rows = split(codes, factors, test_codes, test_factors, seed)
    scale = _deviations(rows.codes) if unit else 1.0
    z, test_z = rows.codes / scale, rows.test_codes / scale
    columns = zip(rows.factors.T, rows.test_factors.T, strict=True)
    scores = [_factor_scores(z, y, test_z, tested) for y, tested in columns]
    accuracy, base_rate = np.mean(scores, axis=0)
    mean = {"accuracy": float(accuracy), "base_rate": float(base_rate)}
    if not each:
        return mean
    named = zip(rows.columns, scores, strict=True)
    return mean | {f"accuracy of factor {k}": float(accuracy) for k, (accuracy, _) in named}


def _deviations(z: Codes) -> NDArray[np.float64]:
    """(D,) standard deviations; infinite for latents that never change, which then are 0."""
    constant = (z == z[:1]).all(0)
    return np.where(constant, np.inf, z.std(0, dtype=np.float64))


def _factor_scores(z: Codes, y: Column, test_z: Codes, tested: Column) -> NDArray[np.float64]:
    """(2,) accuracy and base rate, averaged over the levels of a factor that has more than two."""
    sizes = np.bincount(y)
    sums = np.stack([np.bincount(y, latent) for latent in z.T], axis=1)  # (L, D)
    levels = [1] if len(sizes) == 2 else np.flatnonzero(sizes)
    scores = []
    for level in levels:
        others = (sums.sum(0) - sums[level]) / (len(y) - sizes[level])
        direction = sums[level] / sizes[level] - others
        bias = hinge_bias(_project(direction, z), y == level)
        predicted = _project(direction, test_z) + bias > 0
        share = (tested == level).mean()
        scores.append(((predicted == (tested == level)).mean(), max(share, 1 - share)))
    return np.mean(scores, axis=0)


def _project(direction: NDArray[np.float64], z: Codes) -> NDArray[np.float64]:
    """(N,) coordinates of codes along a direction, in double precision."""
    return np.concatenate([z[rows] @ direction for rows in row_slices(len(z))])


def hinge_bias(s: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """The bias b that minimises Σ max(0, 1 − t (s + b)), with t = 1 where positive, else −1.

    The slope is minus the number of positive rows at first, and one more after each of the points
    t − s; so it is 0 between the P-th and the next of them, where P rows are positive.

    >>> hinge_bias(np.array([-0.1, -0.1, -0.1, 0.1]), np.array([False, False, False, True]))
    -0.9
    """
    points, last = np.where(positive, 1.0, -1.0) - s, int(positive.sum()) - 1
    low, high = np.partition(points, (last, last + 1))[last : last + 2]
    return float((low + high) / 2)
