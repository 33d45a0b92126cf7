"""Compiled loops over rows; imported only where they run, for a compiler takes time to load."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def place(
    values: NDArray[np.floating],
    low: NDArray[np.float64],
    scale: NDArray[np.float64],
    edges: NDArray[np.floating],
) -> NDArray[np.uint32]:
    """(N, D) numbers to (N, D) bins: how many of the (D, B) right edges are not above them.

    Bins are almost equally wide, so a guess half a bin too low needs one comparison to be right.
    """
    bins = np.empty(values.shape, np.uint32)
    for n in range(values.shape[0]):
        for i in range(values.shape[1]):
            guess = np.uint32((values[n, i] - low[i]) * scale[i] - 0.5)
            bins[n, i] = guess + (values[n, i] >= edges[i, guess])
    return bins


@njit(cache=True, nogil=True)
def count(a: NDArray[np.uint32], b: NDArray[np.uint32], tables: NDArray[np.int64]) -> None:
    """Add the pairs in rows of (N, D) and (N, K) levels to their cells in (D, levels, levels)."""
    for i in range(a.shape[1]):
        for n in range(a.shape[0]):
            for k in range(b.shape[1]):
                tables[i, a[n, i], b[n, k]] += 1
