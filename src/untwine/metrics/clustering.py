"""Whether unsupervised clusters match the classes."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError, ParameterError
from untwine.estimators.arrays import check
from untwine.registry import metric
from untwine.schema import Natural

MEANS = {
    "arithmetic": lambda a, b: (a + b) / 2,
    "geometric": lambda a, b: math.sqrt(a * b),
    "min": min,
    "max": max,
}


@metric(
    title="Clustering: normalised mutual information and accuracy",
    short_title="Clustering",
    paper="Taghanaki et al., 2020",
    url="https://arxiv.org/abs/2005.05496",
    higher_is_better=True,
    question="held",
    range=(0.0, 1.0),
    unchanged_by=(),
    variants={
        "geometric": {"normaliser": "geometric"},
        "min": {"normaliser": "min"},
        "max": {"normaliser": "max"},
    },
)
def clustering(
    assignments: ArrayLike,
    factors: ArrayLike,
    *,
    factor: Natural = 0,
    normaliser: Literal["arithmetic", "geometric", "min", "max"] = "arithmetic",
) -> dict[str, float]:
    """How well clusters agree with the levels of a factor, as Taghanaki et al., 2020, report it.

    NMI = I(y; c) / mean(H(y), H(c)),   accuracy = max over matchings π of the share with π(c) = y

    `assignments` (N,) are cluster numbers, `factors` (N, K) levels. Names of clusters and levels do
    not matter. A single cluster has NMI 0. For the accuracy each cluster is matched with one level
    at most, and each level with one cluster, by the Hungarian method; rows of clusters without a
    level count as wrong. Refuses a factor with a single level.

    The paper does not say which mean normalises; scikit-learn takes the arithmetic one today and
    took the geometric one before 2019. `clustering[min]` and `clustering[max]` are the extremes.

    Blind spots: many small pure clusters have a high NMI, with `min` even the highest. Information
    is counted, so few rows per cluster raise it by chance. Accuracy is never below the share of the
    most frequent level that has a cluster, and drops when a class is split in two clean clusters.

    Args:
        factor: position of the factor whose levels are the classes, from 0.
        normaliser: the mean of both entropies that the information is divided by.

    >>> scores = clustering([0, 0, 0, 1], [0, 0, 1, 1])
    >>> round(scores["nmi"], 6), scores["accuracy"]
    (0.343711, 0.75)
    """
    from scipy.optimize import linear_sum_assignment

    counts = _counts(assignments, factors, factor)
    matched = counts[linear_sum_assignment(counts, maximize=True)].sum()
    return {"nmi": _nmi(counts, normaliser), "accuracy": float(matched / counts.sum())}


def one_factor(owner: str, factors: NDArray[np.int64], position: int) -> NDArray[np.int64]:
    """(N,) the levels of the factor at a position, from 0, of factors (N, K)."""
    if position >= factors.shape[1]:
        raise ParameterError(
            f"{owner}.factor is {position}, but the last of the {factors.shape[1]} factors is "
            f"{factors.shape[1] - 1}, as they count from 0"
        )
    return factors[:, position]


def _counts(assignments: ArrayLike, factors: ArrayLike, factor: int) -> NDArray[np.int64]:
    """(clusters, levels) numbers of rows."""
    c = np.asarray(assignments)
    if c.ndim != 1 or c.dtype.kind not in "biuf" or not (c == np.round(c)).all():
        raise DataError(f"assignments must be whole numbers of shape (N,), not {c.dtype} {c.shape}")
    _, clusters = np.unique(c, return_inverse=True)
    f = np.asarray(factors)
    f = f[:, None] if f.ndim == 1 else f
    levels = one_factor("clustering", f, factor) if f.ndim == 2 else f
    _, y = check(clusters[:, None], levels)  # (N, 1), refused where it cannot be a factor
    size = int(y.max()) + 1
    return np.bincount(clusters * size + y[:, 0], minlength=size * (clusters.max() + 1)).reshape(
        -1, size
    )


def _nmi(counts: NDArray[np.int64], normaliser: str) -> float:
    """The normalised mutual information of a table of counts; 0 with a single cluster."""
    p = counts / counts.sum()
    rows, columns = _entropy(p.sum(1)), _entropy(p.sum(0))
    if rows == 0:
        return 0.0
    information = rows + columns - _entropy(p.ravel())
    return float(min(1.0, max(0.0, information / MEANS[normaliser](rows, columns))))


def _entropy(p: NDArray[np.float64]) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())
