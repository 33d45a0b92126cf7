"""Information estimates that metrics share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def discretise(values: NDArray[np.floating], bins: int) -> NDArray[np.int64]:
    """(N, D) numbers to (N, D) bin numbers from 0: equal bins between the extremes of a column.

    Bins are closed on the left and the maximum falls into the last one. A constant column falls
    into a single bin.

    >>> discretise(np.arange(21.0)[:, None], 20)[:, 0].tolist()[-3:]
    [18, 19, 19]
    """
    return np.stack([_bins(column, bins) for column in values.T], axis=1).astype(np.int64)


def _bins(column: NDArray[np.floating], bins: int) -> NDArray[np.intp]:
    try:
        edges = np.histogram_bin_edges(column, bins)
    except ValueError:  # the extremes are too close, for their size, to have bins between them
        return np.zeros(len(column), dtype=np.intp)
    return np.searchsorted(edges[1:-1], column, side="right")


def mutual_information(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N, D) and (N, K) levels to the (D, K) plug-in mutual information in nats.

    >>> a = np.repeat([0, 0, 1, 1], [40, 10, 10, 40])[:, None]
    >>> b = np.repeat([0, 1, 0, 1], [40, 10, 10, 40])[:, None]
    >>> mutual_information(a, b).round(6).tolist()
    [[0.192745]]
    """
    a, b = _dense(a), _dense(b)
    return np.array([[_information(x, y) for y in b.T] for x in a.T])


def entropy(levels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N, K) levels to the (K,) plug-in entropy in nats."""
    return np.array([_information(column, column) for column in _dense(levels).T])


def _dense(levels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Levels renumbered from 0 without gaps, so that counting them is cheap."""
    return np.stack([np.unique(c, return_inverse=True)[1] for c in levels.T], axis=1)


def _information(x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
    rows, columns = int(x.max()) + 1, int(y.max()) + 1
    counts = np.bincount(x * columns + y, minlength=rows * columns).reshape(rows, columns)
    p = counts / len(x)
    independent = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    there = p > 0
    return max(0.0, float((p[there] * np.log(p[there] / independent[there])).sum()))
