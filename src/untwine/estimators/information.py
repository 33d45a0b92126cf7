"""Entropies and mutual information of binned codes and factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import largest_code

Codes = NDArray[np.floating]
Levels = NDArray[np.integer]
LevelsAt = Callable[[slice, slice], Levels]  # rows and columns to their levels
BLOCK_ROWS = 2**16  # binned or counted at a time, so that memory does not grow with N
MAX_CELLS = 2**23  # of the contingency tables filled at a time
MAX_GAPS = 2**12  # levels that may be missing between the smallest and the largest
MIN_BIN_WIDTH = 1e-300  # range of a column that can still be divided into bins


def discretise(values: Codes, bins: int) -> NDArray[np.int32]:
    """(N, D) numbers to (N, D) bin numbers from 0: equal bins between the extremes of a column.

    Bins are closed on the left and the maximum falls into the last one; edges have the type of the
    numbers. A constant column falls into a single bin.

    >>> discretise(np.arange(21.0)[:, None], 20)[:, 0].tolist()[-3:]
    [18, 19, 19]
    """
    bins_at = _bin_finder(values, bins)
    numbers = np.empty(values.shape, np.int32)
    for rows in row_slices(len(values)):
        numbers[rows] = bins_at(rows, slice(None))
    return numbers


def binned_information(codes: Codes, factors: Levels, bins: int) -> NDArray[np.float64]:
    """(N, D) codes and (N, K) levels to the (D, K) mutual information of bins and levels in nats.

    The same as `mutual_information(discretise(codes, bins), factors)`, without storing the bins.
    """
    return _information(_bin_finder(codes, bins), (codes.shape[1], bins), factors)


def mutual_information(a: Levels, b: Levels) -> NDArray[np.float64]:
    """(N, D) and (N, K) levels to the (D, K) plug-in mutual information in nats.

    I(a; b) = Σ_uv p_uv ln(p_uv / (p_u p_v))

    >>> a = np.repeat([0, 0, 1, 1], [40, 10, 10, 40])[:, None]
    >>> b = np.repeat([0, 1, 0, 1], [40, 10, 10, 40])[:, None]
    >>> mutual_information(a, b).round(6).tolist()
    [[0.192745]]
    """
    dense = _from_zero(a)
    shape = (a.shape[1], int(dense.max()) + 1)
    return _information(lambda rows, columns: dense[rows, columns], shape, b)


def entropy(levels: Levels) -> NDArray[np.float64]:
    """(N, K) levels to the (K,) plug-in entropy in nats: the information of a column on itself."""
    counts = [np.bincount(column) for column in _from_zero(levels).T]
    return np.array([_nats(n, n * n, len(levels)).sum() for n in counts])


def row_slices(n: int) -> Iterator[slice]:
    """Slices of `BLOCK_ROWS` rows that cover 0 to n."""
    return (slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS))


def _bin_finder(values: Codes, bins: int) -> LevelsAt:
    """Return a function from rows and columns to the bins of their values."""
    from untwine.estimators.counting import bin_codes  # loads the compiler, which lists do not need

    largest_code(values)
    kind = np.float32 if values.dtype.itemsize <= 4 else np.float64
    low, scale = np.zeros((2, values.shape[1]))
    edges = np.full((values.shape[1], bins), np.inf, kind)
    for i, column in enumerate(values.T):
        own = _edges(column, bins)
        if own is not None:
            low[i], scale[i], edges[i, :-1] = own[0], bins / _width(own), own[1:-1]

    def bins_at(rows: slice, columns: slice) -> Levels:
        block = np.ascontiguousarray(values[rows, columns], kind)
        return bin_codes(block, low[columns], scale[columns], edges[columns])

    return bins_at


def _edges(column: Codes, bins: int) -> Codes | None:
    """(bins + 1,) edges of equal bins, or None where the extremes are too close to have any."""
    try:
        edges = np.histogram_bin_edges(column, bins)
    except ValueError:
        return None
    return edges if _width(edges) > MIN_BIN_WIDTH else None


def _width(edges: Codes) -> float:
    return float(edges[-1]) - float(edges[0])


def _from_zero(levels: Levels) -> Levels:
    """Shift (N, K) levels to start at 0, and close long gaps, so that they can be counted."""
    if levels.dtype.kind not in "biu":
        raise DataError("levels must be whole numbers")
    wide = levels if levels.dtype.kind == "u" else levels.astype(np.int64, copy=False)
    low = wide.min(0)
    if any(int(a) - int(b) > len(wide) + MAX_GAPS for a, b in zip(wide.max(0), low, strict=True)):
        return np.stack([np.unique(column, return_inverse=True)[1] for column in wide.T], axis=1)
    return wide - low if low.any() else wide


def _information(levels_at: LevelsAt, shape: tuple[int, int], b: Levels) -> NDArray[np.float64]:
    """(D, K) information of D columns of levels and of b (N, K); shape is D and the most levels."""
    dense = _from_zero(b)
    sizes = np.array([int(levels.max()) + 1 for levels in dense.T])
    columns, levels = shape
    step = max(1, MAX_CELLS // (levels * int(sizes.sum())))
    blocks = [slice(i, min(i + step, columns)) for i in range(0, columns, step)]
    return np.concatenate(
        [_block_information(levels_at, block, levels, dense, sizes) for block in blocks]
    )


def _block_information(
    levels_at: LevelsAt, block: slice, levels: int, b: Levels, sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(D', K) information of a block of columns and of b (N, K), with (K,) numbers of levels."""
    from untwine.estimators.counting import count_pairs

    starts = np.cumsum(sizes) - sizes
    tables = np.zeros((block.stop - block.start, levels, sizes.sum()), np.int64)
    for rows in row_slices(len(b)):
        side = (b[rows] + starts).astype(np.uint32)
        count_pairs(levels_at(rows, block).astype(np.uint32, order="C", copy=False), side, tables)
    margins = tables[:, :, : sizes[0]].sum(2, keepdims=True) * tables[0].sum(0)
    nats = _nats(tables, margins, len(b)).sum(1)
    return np.add.reduceat(nats, starts, axis=1).clip(0)


def _nats(counts: NDArray[np.int64], margins: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """p ln(p / (p_u p_v)) in each cell of counts, exactly 0 where p = 0 or p = p_u p_v."""
    ratio = np.divide(counts * float(n), margins, out=np.ones(counts.shape), where=counts > 0)
    return counts / n * np.log(ratio)
