"""Information estimates that metrics share: everything is counted in one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.floating]
Levels = NDArray[np.integer]
Part = Callable[[slice, slice], Levels]  # some rows of some columns

ROWS = 2**16  # placed or counted at a time, so that memory does not grow with their number
CELLS = 2**23  # of the tables that are filled at a time
MOST_GAPS = 2**12  # levels that may be missing between the smallest and the largest
NARROWEST = 1e-300  # range of a column that can still be divided into bins


def discretise(values: Codes, bins: int) -> NDArray[np.int32]:
    """(N, D) numbers to (N, D) bin numbers from 0: equal bins between the extremes of a column.

    Bins are closed on the left and the maximum falls into the last one; edges have the type of the
    numbers. A constant column falls into a single bin.

    >>> discretise(np.arange(21.0)[:, None], 20)[:, 0].tolist()[-3:]
    [18, 19, 19]
    """
    place = _placing(values, bins)
    found = np.empty(values.shape, np.int32)
    for rows in chunks(len(values)):
        found[rows] = place(rows, slice(None))
    return found


def binned_information(codes: Codes, factors: Levels, bins: int) -> NDArray[np.float64]:
    """(N, D) codes and (N, K) levels to the (D, K) mutual information of bins and levels in nats.

    The same as `mutual_information(discretise(codes, bins), factors)`, but no bins are kept.
    """
    return _information(_placing(codes, bins), (codes.shape[1], bins), factors)


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
    return _information(lambda rows, some: dense[rows, some], shape, b)


def entropy(levels: Levels) -> NDArray[np.float64]:
    """(N, K) levels to the (K,) plug-in entropy in nats: the information of a column on itself."""
    counts = [np.bincount(column) for column in _from_zero(levels).T]
    return np.array([_nats(n, n * n, len(levels)).sum() for n in counts])


def chunks(n: int) -> Iterator[slice]:
    """The rows from 0 to n, in slices that fit in memory many times."""
    return (slice(start, start + ROWS) for start in range(0, n, ROWS))


def _placing(values: Codes, bins: int) -> Part:
    """What finds the bins of some rows and columns."""
    from untwine.metrics._counting import place

    kind = np.float32 if values.dtype.itemsize <= 4 else np.float64
    low, scale = np.zeros((2, values.shape[1]))
    edges = np.full((values.shape[1], bins), np.inf, kind)
    for i, column in enumerate(values.T):
        found = _edges(column, bins)
        if found is not None:
            low[i], scale[i], edges[i, :-1] = found[0], bins / _width(found), found[1:-1]

    def placed(rows: slice, some: slice) -> Levels:
        part = np.ascontiguousarray(values[rows, some], kind)
        return place(part, low[some], scale[some], edges[some])

    return placed


def _edges(column: Codes, bins: int) -> Codes | None:
    """(bins + 1,) edges of equal bins, or None where the extremes are too close to have any."""
    try:
        edges = np.histogram_bin_edges(column, bins)
    except ValueError:
        return None
    return edges if _width(edges) > NARROWEST else None


def _width(edges: Codes) -> float:
    return float(edges[-1]) - float(edges[0])


def _from_zero(levels: Levels) -> Levels:
    """(N, K) levels as they can be counted: from 0, and without long gaps."""
    low = np.array([int(column.min()) for column in levels.T])
    high = np.array([int(column.max()) for column in levels.T])
    if (high - low > len(levels) + MOST_GAPS).any():
        return np.stack([np.unique(column, return_inverse=True)[1] for column in levels.T], axis=1)
    return levels - low if low.any() else levels


def _information(part: Part, shape: tuple[int, int], b: Levels) -> NDArray[np.float64]:
    """(D, K) information of D columns with so many levels at most, which come in parts."""
    dense = _from_zero(b)
    sizes = np.array([int(levels.max()) + 1 for levels in dense.T])
    columns, levels = shape
    step = max(1, CELLS // (levels * int(sizes.sum())))
    blocks = [slice(i, min(i + step, columns)) for i in range(0, columns, step)]
    return np.concatenate([_of_block(part, block, levels, dense, sizes) for block in blocks])


def _of_block(
    part: Part, block: slice, levels: int, b: Levels, sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(D', K) information of some columns and levels (N, K) from 0, of which there are (K,)."""
    from untwine.metrics._counting import count

    starts = np.cumsum(sizes) - sizes
    tables = np.zeros((block.stop - block.start, levels, sizes.sum()), np.int64)
    for rows in chunks(len(b)):
        side = (b[rows] + starts).astype(np.uint32)
        count(part(rows, block).astype(np.uint32, order="C", copy=False), side, tables)
    margins = tables[:, :, : sizes[0]].sum(2, keepdims=True) * tables[0].sum(0)
    nats = _nats(tables, margins, len(b)).sum(1)
    return np.add.reduceat(nats, starts, axis=1).clip(0)


def _nats(counts: NDArray[np.int64], margins: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """p ln(p / (p_u p_v)) in each cell of counts, exactly 0 where p = 0 or p = p_u p_v."""
    ratio = np.divide(counts * float(n), margins, out=np.ones(counts.shape), where=counts > 0)
    return counts / n * np.log(ratio)
