"""Compiled loops that bin codes and count pairs of levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from untwine.tools.compiling import compile_once


@compile_once()
def bin_codes(
    values: NDArray[np.floating],
    low: NDArray[np.float64],
    scale: NDArray[np.float64],
    edges: NDArray[np.floating],
) -> NDArray[np.uint32]:
    """(N, D) numbers to (N, D) bins: how many of the (D, B) right edges are not above them.

    Bins are almost equally wide, so a guess half a bin too low needs one comparison to be right.
    """
    bins = np.empty(values.shape, np.uint32)
    last = edges.shape[1] - 1.0
    for n in range(values.shape[0]):
        for i in range(values.shape[1]):
            place = (values[n, i] - low[i]) * scale[i] - 0.5
            place = place if place > 0.0 else 0.0  # NaN too stays inside
            guess = np.uint32(place if place < last else last)
            bins[n, i] = guess + (values[n, i] >= edges[i, guess])
    return bins


@compile_once()
def count_pairs(a: NDArray[np.uint32], b: NDArray[np.uint32], tables: NDArray[np.int64]) -> None:
    """Add the pairs in rows of (N, D) and (N, K) levels to their cells in (D, levels, levels)."""
    for i in range(a.shape[1]):
        for n in range(a.shape[0]):
            for k in range(b.shape[1]):
                tables[i, a[n, i], b[n, k]] += 1
