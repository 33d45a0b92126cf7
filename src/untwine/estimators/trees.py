"""Gradient boosting with exact splits, for all factors at once: the engine of DCI.

The model is scikit-learn's `GradientBoostingClassifier()` at its defaults: 100 stages of trees of
depth 3 at rate 0.1, one tree per level and stage (one alone for two levels), grown on the residuals
of the log-loss, with a Newton step in every leaf. It is the same algorithm, not an approximation
with bins; what makes it fast is that hardly any split has to be looked at.

- Every code is sorted once. Rows are put into bins of neighbours, and the sums of a node's
  residuals over bins give the gain of a split at every bin's edge, and a bound on the gain of the
  splits inside a bin. Only bins whose bound beats the best gain so far are walked row by row.
- Of two sibling nodes only the smaller one is summed; the other is its parent less its sibling.
- The trees of a stage do not depend on each other, whatever their factor. Threads share them out,
  eight at a time, because the sums at the root take eight residuals in one instruction.

Splits of equal gain (to 1e-10) are broken by chance where they lie on different codes, and in
favour of the lowest threshold where they lie on one. Chance is a hash of the seed and of the code's
ranks, so neither the order of codes nor the number of threads plays a part.
"""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic
from numpy.typing import NDArray

from untwine.errors import ParameterError
from untwine.estimators.arrays import largest_code
from untwine.tools.compiling import compile_once

LANES = 8  # trees that share the sums at the root
INNER, SPLITS, LEAVES = 3, 7, 8  # of a tree of depth 3; node k has the children 2k + 1 and 2k + 2
BLOCK = 256
LARGEST = np.finfo(np.float32).max
GAP = np.float32(1e-7)  # values no further apart than this are one value
TIE = 1e-10  # gains that differ relatively by less are equal
EPSILON = float(np.finfo(np.float64).eps)  # a node whose residuals vary less is a leaf
NO_CURVATURE = 1e-150  # a leaf whose mean second derivative is below keeps its scores
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
TO_INTEGER = 1.5 * 2.0**52  # a double this large has no room for fractions
# Finite numbers throughout; sums may be reordered only where no equal gains depend on them.
FINITE = {"contract", "nsz", "nnan", "ninf"}
# What Python never calls goes without wrappers, which take half the time to compile.
entry: Any = functools.partial(compile_once, error_model="numpy")
inner: Any = functools.partial(entry, no_cpython_wrapper=True, no_cfunc_wrapper=True)
compiled = inner()
vectorised = inner(fastmath=FINITE)
reordered = inner(fastmath=FINITE | {"reassoc"})
Array = NDArray[Any]


class Fit(NamedTuple):
    """The result of boosting."""

    importances: NDArray[np.float64]  # (D, K) columns sum to 1, or to 0 where nothing was split
    fitted: NDArray[np.int64]  # (N, K) levels predicted for the rows it learned from
    predicted: NDArray[np.int64]  # (M, K) levels predicted for the other rows


class Table(NamedTuple):
    """The sorted codes; bin b of code d holds the rows order[d, edges[d, b] : edges[d, b + 1]]."""

    x: NDArray[np.float32]  # (D, N)
    order: NDArray[np.uint32]  # (D, N)
    values: NDArray[np.float32]  # (D, N) in order
    bins: NDArray[np.uint8]  # (D, N)
    edges: NDArray[np.int64]  # (D, B + 1)
    mixed: NDArray[np.bool_]  # (D, B) whether a bin holds more than one value
    keys: NDArray[np.uint64]  # (D,) for chance


class Ensemble(NamedTuple):
    """One column per tree of a stage; those of factor k are offsets[k] : offsets[k + 1]."""

    offsets: NDArray[np.int64]  # (K + 1,)
    owners: NDArray[np.int64]  # (C,) factors
    members: NDArray[np.uint32]  # rows of the level of column c: ends[c] : ends[c + 1]
    ends: NDArray[np.int64]  # (C + 1,)
    rates: NDArray[np.float64]  # (C,)
    raw: NDArray[np.float64]  # (C, N) scores
    test_x: NDArray[np.float32]  # (D, M)
    test_raw: NDArray[np.float64]  # (C, M)
    p: NDArray[np.float64]  # (C, N) probabilities times a number per row and factor,
    inverse: NDArray[np.float64]  # (K, N) and that number's inverse
    gains: NDArray[np.float64]  # (C, D)


class Scratch(NamedTuple):
    """Memory that one thread works in.

    A profile describes a node's residuals r by code and bin: the sums of r and of 1
    over the bins before, and the sums of max(r, 0) and of r² within the bin.
    """

    r: NDArray[np.float64]  # (LANES, N)
    rows: NDArray[np.float64]  # (N, LANES) the same
    lanes: NDArray[np.float64]  # (B, 2, LANES) sums of r and r² within bins
    roots: NDArray[np.float64]  # (LANES, D, 4, B + 1) profiles
    profiles: NDArray[np.float64]  # (4, D, 4, B + 1)
    quads: NDArray[np.float64]  # (N, 4) of a node's rows: r, 1, max(r, 0), r²
    four: NDArray[np.float64]  # (B, 4) their sums within bins
    scores: NDArray[np.float64]  # (B,)
    bounds: NDArray[np.float64]  # (B,)
    grouped: NDArray[np.uint32]  # (N,) rows, those of a node together
    spare: NDArray[np.uint32]  # (N,)
    nodes: NDArray[np.uint8]  # (N,) the node of every row
    starts: NDArray[np.int64]  # (SPLITS + LEAVES,) where a node's rows start among them
    stops: NDArray[np.int64]  # (SPLITS + LEAVES,)
    totals: NDArray[np.float64]  # (SPLITS + LEAVES, 2) sums of r and r²
    profile_of: NDArray[np.int64]  # (SPLITS + LEAVES,) -1 for missing nodes
    features: NDArray[np.int64]  # (SPLITS,) the tree: rows with x[feature] <= cut go left
    cuts: NDArray[np.float32]  # (SPLITS,)
    steps: NDArray[np.float64]  # (LEAVES,)


class Node(NamedTuple):
    """A node whose rows are walked, and what lies before the bin where the walk starts."""

    k: int
    n: float
    mean: float
    before: float  # sums of r and of 1
    rows_before: float


def fit_boosted_trees(
    codes: NDArray[np.floating],
    levels: NDArray[np.int64],
    test_codes: NDArray[np.floating],
    *,
    stages: int = 100,
    rate: float = 0.1,
    seed: int = 0,
) -> Fit:
    """Fit boosted trees that predict the levels (N, K) from the codes (N, D), factor by factor.

    Trees are shared out among as many threads as numba is allowed; their number does not change the
    result. A factor with one level is predicted without trees.

    >>> codes = np.arange(12.0)[:, None]
    >>> fit = fit_boosted_trees(codes, np.arange(12)[:, None] // 4, codes + 0.25, stages=10)
    >>> fit.importances.tolist(), fit.predicted[:, 0].tolist()
    ([[1.0]], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    """
    if not 0 <= rate <= 1:
        raise ParameterError(f"the rate must be from 0 to 1, not {rate}")
    table = _table(codes)
    classes = [np.unique(column) for column in levels.T]
    ensemble = _ensemble(levels, classes, _single(test_codes), rate)
    _boost(table, ensemble, stages, seed)
    return Fit(
        _importances(ensemble),
        _predictions(ensemble.raw, ensemble.offsets, classes),
        _predictions(ensemble.test_raw, ensemble.offsets, classes),
    )


def _single(codes: NDArray[np.floating]) -> NDArray[np.float32]:
    """(N, D) codes to (D, N) in single precision, which is what the reference's trees see."""
    largest_code(codes)
    return np.ascontiguousarray(codes.T, dtype=np.float32)


def _table(codes: NDArray[np.floating]) -> Table:
    x = _single(codes)
    d, n = x.shape
    most = min(256, max(8, round(1.3 * math.sqrt(n))))
    order = np.argsort(x, axis=1, kind="stable")
    values = np.take_along_axis(x, order, 1)
    edges = np.full((d, most + 1), n)
    bins = np.zeros((d, n), np.uint8)
    mixed = np.zeros((d, most), np.bool_)
    for k in range(d):
        starts = _starts(values[k], most)
        ends = np.append(starts[1:], n)
        edges[k, : len(starts)] = starts
        bins[k, order[k]] = np.repeat(np.arange(len(starts)), ends - starts)
        mixed[k, : len(starts)] = values[k, ends - 1] > values[k, starts] + GAP
    return Table(x, order.astype(np.uint32), values, bins, edges, mixed, _keys(order, values))


def _starts(values: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """Where bins start: at gaps between sorted values, all of them or about equally far apart."""
    gaps = np.flatnonzero(np.append(True, values[1:] > values[:-1] + GAP))
    if len(gaps) <= most:
        return gaps
    wanted = np.arange(most) * (len(values) / most)
    return np.unique(gaps[np.searchsorted(gaps, wanted[wanted <= gaps[-1]])])


def _keys(order: NDArray[np.int64], values: NDArray[np.float32]) -> NDArray[np.uint64]:
    """(D,) a number per code that depends on its ranks alone, from whichever end they count."""
    seen: dict[int, int] = {}
    keys = np.empty(len(order), np.uint64)
    for k, (rows, column) in enumerate(zip(order, values, strict=True)):
        ranks = np.empty(len(rows), np.int64)
        ranks[rows] = np.cumsum(np.append(False, column[1:] != column[:-1]))
        key = min(zlib.crc32(ranks.tobytes()), zlib.crc32((ranks.max() - ranks).tobytes()))
        seen[key] = seen.get(key, 0) + 1
        keys[k] = key + (seen[key] << 32)
    return keys


def _ensemble(
    levels: NDArray[np.int64],
    classes: list[NDArray[np.int64]],
    test_x: NDArray[np.float32],
    rate: float,
) -> Ensemble:
    """Columns for all levels of all factors, at the log-odds of how often they occur."""
    n = len(levels)
    columns = [v if len(v) > 2 else v[1:] for v in classes]  # the second of two levels tells both
    sizes = np.array([len(v) for v in columns])
    offsets = np.append(0, np.cumsum(sizes))
    owners = np.repeat(np.arange(len(columns)), sizes)
    places = zip(owners, np.concatenate(columns), strict=True)
    members = [np.flatnonzero(levels[:, k] == level) for k, level in places]
    ends = np.append(0, np.cumsum([len(rows) for rows in members])).astype(np.int64)
    several = sizes[owners] > 1
    share = np.diff(ends) / n
    start = np.log(share) - np.where(several, 0.0, np.log1p(-share))
    rates = np.where(several, rate * (1 - 1 / sizes[owners]), rate)
    c, d = len(owners), len(test_x)
    return Ensemble(
        offsets,
        owners,
        np.concatenate([np.empty(0, np.uint32), *members]).astype(np.uint32),
        ends,
        rates,
        np.repeat(start[:, None], n, axis=1),
        test_x,
        np.repeat(start[:, None], test_x.shape[1], axis=1),
        np.empty((c, n)),
        np.empty((len(columns), n)),
        np.zeros((c, d)),
    )


def _scratch(table: Table) -> Scratch:
    (d, n), b = table.x.shape, table.mixed.shape[1]
    roots = np.zeros((LANES, d, 4, b + 1))
    roots[:, :, 1] = table.edges
    return Scratch(
        np.zeros((LANES, n)),
        np.zeros((n, LANES)),
        np.zeros((b, 2, LANES)),
        roots,
        np.zeros((4, d, 4, b + 1)),
        np.ones((n, 4)),
        np.zeros((b, 4)),
        np.zeros(b),
        np.zeros(b),
        np.zeros(n, np.uint32),
        np.zeros(n, np.uint32),
        np.zeros(n, np.uint8),
        np.zeros(SPLITS + LEAVES, np.int64),
        np.zeros(SPLITS + LEAVES, np.int64),
        np.zeros((SPLITS + LEAVES, 2)),
        np.zeros(SPLITS + LEAVES, np.int64),
        np.zeros(SPLITS, np.int64),
        np.zeros(SPLITS, np.float32),
        np.zeros(LEAVES),
    )


def _boost(table: Table, ensemble: Ensemble, stages: int, seed: int) -> None:
    """Add trees to the scores, stage by stage: probabilities of all rows, then all trees."""
    n, c = table.x.shape[1], len(ensemble.owners)
    # numba.get_num_threads() would start its pool, which changes the threads of torch.
    allowed: int = getattr(config, "NUMBA_NUM_THREADS")  # noqa: B009 (it has no types)
    threads = allowed if n * c > 20_000 else 1
    free = [_scratch(table) for _ in range(threads)]
    chunk = BLOCK * math.ceil(n / threads / BLOCK)
    salts = np.random.default_rng(seed).integers(2**63, size=stages).astype(np.uint64)

    def trees(first: int, salt: np.uint64) -> None:
        scratch = free.pop()
        _grow_columns(table, scratch, ensemble, first, min(first + LANES, c), salt)
        free.append(scratch)

    def probabilities(first: int) -> None:
        _softmax(ensemble, first, min(first + chunk, n))

    with ThreadPoolExecutor(threads) as pool:
        each: Any = pool.map if threads > 1 else map
        for salt in salts:
            _all(each(probabilities, range(0, n, chunk)))
            _all(each(trees, range(0, c, LANES), itertools.repeat(salt)))


def _all(results: Iterable[None]) -> None:
    for _ in results:
        pass


def _importances(ensemble: Ensemble) -> NDArray[np.float64]:
    pairs = zip(ensemble.offsets[:-1], ensemble.offsets[1:], strict=True)
    gains = np.stack([ensemble.gains[a:b].sum(0) for a, b in pairs], axis=1)  # (D, K)
    total = gains.sum(0)
    return gains / np.where(total > 0, total, 1.0)


def _predictions(
    raw: NDArray[np.float64], offsets: NDArray[np.int64], classes: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """(C, N) scores to the (N, K) levels that score highest."""
    columns = []
    for a, b, levels in zip(offsets[:-1], offsets[1:], classes, strict=True):
        scores = raw[a:b] if b - a > 1 else np.vstack([np.zeros((1, raw.shape[1])), raw[a:b]])
        columns.append(levels[scores.argmax(0)])
    return np.stack(columns, axis=1)


def _row_adder(width: int, squares: bool) -> Callable[..., Any]:
    """A compiled `add(target, i, source, j)`: target[i] += source[j], as one vector of numbers.

    Written out because numba leaves LLVM's search for such vectors switched off. With squares, a
    row of the target has a second part, to which the square of the source is added.
    """

    @intrinsic
    def add(context: Any, target: Any, i: Any, source: Any, j: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            vector = ir.VectorType(ir.DoubleType(), width)

            def place(array: int, parts: int) -> Any:
                kind = context.make_array(signature.args[array])
                data = kind(context, builder, values[array]).data
                row = context.cast(
                    builder, values[array + 1], signature.args[array + 1], types.intp
                )
                start = builder.mul(row, ir.Constant(row.type, parts))
                return builder.gep(builder.bitcast(data, vector.as_pointer()), [start])

            def increase(at: Any, by: Any) -> None:
                builder.store(builder.fadd(builder.load(at, align=8), by), at, align=8)

            row = builder.load(place(2, 1), align=8)
            at = place(0, 2 if squares else 1)
            increase(at, row)
            if squares:
                increase(builder.gep(at, [ir.Constant(ir.IntType(64), 1)]), builder.fmul(row, row))
            return context.get_dummy_value()

        return types.void(target, i, source, j), build

    return add


_add_lanes = _row_adder(LANES, squares=True)
_add_quad = _row_adder(4, squares=False)


@entry()
def _softmax(e: Ensemble, first: int, last: int) -> None:
    """Probabilities of the rows from first to last; those of two levels by the logistic."""
    for k in range(len(e.offsets) - 1):
        a, b = e.offsets[k], e.offsets[k + 1]
        for start in range(first, last, BLOCK):
            stop = min(start + BLOCK, last)
            if b - a > 1:
                _normalise(e.raw, e.p, a, b, start, stop, e.inverse[k, start:stop])
            elif b - a == 1:
                _logistic(e.raw[a, start:stop], e.p[a, start:stop], e.inverse[k, start:stop])


@compiled
def _normalise(raw: Array, p: Array, a: int, b: int, start: int, stop: int, total: Array) -> None:
    top = np.empty(BLOCK)
    bits = np.empty(BLOCK, np.int64)
    _copy(raw[a, start:stop], top)
    for c in range(a + 1, b):
        _raise_to(top, raw[c, start:stop])
    total[:] = 0.0
    for c in range(a, b):
        _exponential(raw[c, start:stop], top, p[c, start:stop], bits, bits.view(np.float64))
        _add_to(total, p[c, start:stop])
    for j in range(len(total)):
        total[j] = 1.0 / total[j]


@compiled
def _logistic(x: Array, p: Array, inverse: Array) -> None:
    for j in range(len(x)):
        small = math.exp(-abs(x[j]))
        p[j] = 1.0 if x[j] >= 0 else small
        inverse[j] = 1.0 / (1.0 + small)


@vectorised
def _raise_to(top: Array, x: Array) -> None:
    for j in range(len(x)):
        top[j] = max(top[j], x[j])


@vectorised
def _add_to(total: Array, x: Array) -> None:
    for j in range(len(x)):
        total[j] += x[j]


@vectorised
def _exponential(x: Array, shift: Array, out: Array, bits: Array, powers: Array) -> None:
    """exp(x - shift) of what is never positive, to the last digit: 2^k exp(t) with small t."""
    for j in range(len(x)):
        v = max(x[j] - shift[j], -708.0)
        k = (v * LOG2_E + TO_INTEGER) - TO_INTEGER
        t = (v - k * LN2_HIGH) - k * LN2_LOW
        p = 1.0
        for i in range(12, 0, -1):
            p = 1.0 + p * t * (1.0 / i)
        out[j] = p
        bits[j] = (np.int64(k) + 1023) << 52
    for j in range(len(x)):
        out[j] *= powers[j]


@entry()
def _grow_columns(
    t: Table, w: Scratch, e: Ensemble, first: int, last: int, salt: np.uint64
) -> None:
    """One tree for every column from first to last, added to the scores."""
    width = last - first
    for lane in range(width):
        c = first + lane
        _residuals(e.p[c], e.inverse[e.owners[c]], e.members[e.ends[c] : e.ends[c + 1]], w.r[lane])
    _transpose(w.r, w.rows)
    for d in range(len(t.x)):
        _sum_lanes(t.bins[d], w.rows, w.lanes)
        _unpack_lanes(w.lanes, w.roots, d)
    for lane in range(width):
        c = first + lane
        members = e.members[e.ends[c] : e.ends[c + 1]]
        for d in range(len(t.x)):
            _sum_rises(t.bins[d], members, w.r[lane], w.roots[lane, d, 2])
            for q in range(4):
                _copy(w.roots[lane, d, q], w.profiles[0, d, q])
        _grow(t, w, w.r[lane], _hash(salt ^ np.uint64(c)), e.gains[c])
        for j in range(LEAVES):
            w.steps[j] *= e.rates[c]
        _add_tree(t.x, w, e.raw[c])
        _add_tree(e.test_x, w, e.test_raw[c])


@compiled
def _copy(a: Array, b: Array) -> None:
    for j in range(len(a)):
        b[j] = a[j]


@compiled
def _residuals(p: Array, inverse: Array, members: Array, r: Array) -> None:
    _negative_product(p, inverse, r)
    for j in range(len(members)):
        r[members[j]] += 1.0


@vectorised
def _negative_product(a: Array, b: Array, out: Array) -> None:
    for i in range(len(out)):
        out[i] = -a[i] * b[i]


@compiled
def _transpose(r: Array, rows: Array) -> None:
    for start in range(0, len(rows), 64):
        for lane in range(LANES):
            for i in range(start, min(start + 64, len(rows))):
                rows[i, lane] = r[lane, i]


@compiled
def _sum_lanes(bins: Array, rows: Array, lanes: Array) -> None:
    lanes[:] = 0.0
    for i in range(len(bins)):
        _add_lanes(lanes, bins[i], rows, i)


@compiled
def _unpack_lanes(lanes: Array, roots: Array, d: int) -> None:
    for lane in range(LANES):
        profile = roots[lane, d]
        total = 0.0
        for b in range(len(lanes)):
            total += lanes[b, 0, lane]
            profile[0, b + 1] = total
            profile[3, b] = lanes[b, 1, lane]


@compiled
def _sum_rises(bins: Array, members: Array, r: Array, rises: Array) -> None:
    rises[:] = 0.0
    for j in range(len(members)):
        i = members[j]
        rises[bins[i]] += r[i]


@compiled
def _grow(t: Table, w: Scratch, r: Array, salt: np.uint64, gains: Array) -> None:
    """Grow one tree on residuals r, and add the gain of every split to its code's."""
    _plant(w, r)
    for k in range(SPLITS):
        _pass_on(w, k)
        if w.profile_of[k] < 0 or _is_pure(w, r, k):
            continue
        gain, d, place = _search(t, w, r, k, _hash(salt ^ np.uint64(k)))
        if d < 0:
            continue
        gains[d] += gain
        w.features[k] = d
        w.cuts[k] = _threshold(t.order[d], t.values[d], w.nodes, k, place)
        if k < INNER:
            _divide(t, w, r, k)
    for k in range(INNER, SPLITS):
        rows = w.grouped[w.starts[k] : w.stops[k]]
        j = 2 * (k - INNER)
        w.steps[j], w.steps[j + 1] = _newton(t.x[w.features[k]], w.cuts[k], r, rows)


@compiled
def _plant(w: Scratch, r: Array) -> None:
    """A tree of nothing but its root."""
    for i in range(len(w.grouped)):
        w.grouped[i] = i
    w.nodes[:] = 0
    w.profile_of[:] = -1
    w.profile_of[0] = 0
    w.starts[0], w.stops[0] = 0, len(r)
    w.totals[0, 0], w.totals[0, 1] = _moments(r)


@reordered
def _moments(r: Array) -> tuple[float, float]:
    total = 0.0
    square = 0.0
    for i in range(len(r)):
        total += r[i]
        square += r[i] * r[i]
    return total, square


@compiled
def _pass_on(w: Scratch, k: int) -> None:
    """A node without a split leaves all its rows to its left child."""
    w.features[k], w.cuts[k] = 0, LARGEST
    left, right = 2 * k + 1, 2 * k + 2
    w.starts[left], w.stops[left] = w.starts[k], w.stops[k]
    w.starts[right], w.stops[right] = w.stops[k], w.stops[k]


@compiled
def _is_pure(w: Scratch, r: Array, k: int) -> bool:
    """Whether a node's residuals vary so little that it stays a leaf."""
    n = w.stops[k] - w.starts[k]
    if n < 2:
        return True
    if w.totals[k, 1] / n - (w.totals[k, 0] / n) ** 2 > 2 * EPSILON:
        return False
    total, square = _pick(r, w.grouped[w.starts[k] : w.stops[k]], w.quads)
    return square / n - (total / n) ** 2 <= EPSILON


@compiled
def _hash(x: np.uint64) -> np.uint64:
    """A well mixed 64-bit number for every 64-bit number (the finaliser of splitmix64)."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _search(t: Table, w: Scratch, r: Array, k: int, salt: np.uint64) -> tuple[float, int, int]:
    """The best split of node k: gain, code (-1 for none), and a place between the two halves."""
    profile = w.profiles[w.profile_of[k]]
    n = float(w.stops[k] - w.starts[k])
    mean = w.totals[k, 0] / n
    best, code, place, chance = -0.5, -1, 0, np.uint64(0)
    for d in range(len(t.x)):
        top = _rate_edges(profile[d], n, mean, w.scores)
        if top < max(best * (1 - TIE), 0.0):
            continue
        key = _hash(salt ^ t.keys[d])
        if top > best * (1 + TIE) or key < chance:
            best, code, chance = top, d, key
            place = t.edges[d, _first(w.scores, top)]
    for d in range(len(t.x)):
        if _rate_bins(profile[d], n, mean, w.bounds) < best:
            continue
        key = _hash(salt ^ t.keys[d])
        for b in range(len(w.bounds)):
            if w.bounds[b] < best or not t.mixed[d, b]:
                continue
            start, stop = t.edges[d, b], t.edges[d, b + 1]
            node = Node(k, n, mean, profile[d, 0, b], profile[d, 1, b])
            order, values = t.order[d, start:stop], t.values[d, start:stop]
            score, at = _walk(order, values, w.nodes, r, node, max(best, 0.0) * (1 - TIE))
            if at < 0:
                continue
            earlier = key < chance or (code == d and start + at < place)
            if score > best * (1 + TIE) or earlier:
                best, code, place, chance = score, d, start + at, key
    return best * n, code, place


@reordered
def _rate_edges(profile: Array, n: float, mean: float, scores: Array) -> float:
    """The gain, over n, of a split before every bin, and the best of them; -1 where none is."""
    sums, counts = profile[0], profile[1]
    for b in range(len(scores)):
        c = counts[b]
        deviation = sums[b] - mean * c
        inside = c * (n - c)
        ratio = deviation * deviation / max(inside, 0.5)
        scores[b] = ratio if inside > 0.5 else -1.0
    top = -1.0
    for b in range(len(scores)):
        top = max(top, scores[b])
    return top


@reordered
def _rate_bins(profile: Array, n: float, mean: float, bounds: Array) -> float:
    """A bound on the gain, over n, of splits inside every bin, and the greatest of them.

    Along a bin the sum of r − mean moves up and down. All its ups together are at most those of
    positive residuals (and of the mean, where that is negative), and at most what Cauchy and
    Schwarz allow for this sum of squares, which is sharper for residuals that are nearly equal.
    """
    sums, counts, rises, squares = profile[0], profile[1], profile[2], profile[3]
    for b in range(len(bounds)):
        c = counts[b]
        end = counts[b + 1]
        here = end - c
        deviation = sums[b] - mean * c
        change = sums[b + 1] - sums[b]
        drift = mean * here
        spread = squares[b] - mean * (2.0 * change - drift) + 1e-14 * mean * drift
        most = 0.5 * (change - drift + math.sqrt(here * max(spread, 0.0)))
        ups = min(rises[b] + max(-drift, 0.0), most)
        furthest = max(deviation + ups, ups - (change - drift) - deviation)
        low, high = max(c, 1.0), min(end, n - 1.0)
        inside = min(low * (n - low), high * (n - high))
        ratio = (1.0 + 2 * TIE) * furthest * furthest / max(inside, 0.5)
        bounds[b] = ratio if here > 1.5 else -1.0
    top = -1.0
    for b in range(len(bounds)):
        top = max(top, bounds[b])
    return top


@compiled
def _first(scores: Array, top: float) -> int:
    """The first bin with this score."""
    b = 0
    while scores[b] != top:
        b += 1
    return b


@vectorised
def _walk(
    order: Array, values: Array, nodes: Array, r: Array, node: Node, least: float
) -> tuple[float, int]:
    """The best split inside a bin: its gain over n, and where it is (-1: none above the least)."""
    best, at = least, -1
    k, n, mean, count = node.k, node.n, node.mean, node.rows_before
    deviation: Any = node.before - mean * count
    last = LARGEST
    for j in range(len(order)):
        i = order[j]
        here = nodes[i] == k
        square = deviation * deviation
        inside = count * (n - count)
        if here & (square >= best * inside) and values[j] > last + GAP and square / inside > best:
            best, at = square / inside, j
        one = 1.0 if here else 0.0
        deviation += one * (r[i] - mean)
        count += one
        last = values[j] if here else last
    return best, at


@compiled
def _threshold(order: Array, values: Array, nodes: Array, k: int, place: int) -> np.float32:
    """The middle between node k's last value before a place and its first one from there on."""
    after = place
    while nodes[order[after]] != k:
        after += 1
    before = place - 1
    while nodes[order[before]] != k:
        before -= 1
    middle = np.float64(values[before]) / 2 + np.float64(values[after]) / 2
    cut = np.float32(middle)
    return cut if cut <= middle else np.nextafter(cut, np.float32(-np.inf))


@compiled
def _divide(t: Table, w: Scratch, r: Array, k: int) -> None:
    """Give a node's rows to its children, and both a profile."""
    left, right = 2 * k + 1, 2 * k + 2
    start, stop = w.starts[k], w.stops[k]
    x = t.x[w.features[k]]
    middle = start + _partition(x, w.cuts[k], w.grouped[start:stop], w.spare, w.nodes, left)
    w.stops[left] = w.starts[right] = middle
    small, large = (left, right) if middle - start <= stop - middle else (right, left)
    own, new = w.profile_of[k], k + 1
    total, square = _profile(t, w, r, w.grouped[w.starts[small] : w.stops[small]], w.profiles[new])
    for d in range(len(t.x)):
        for q in range(4):
            _subtract(w.profiles[own, d, q], w.profiles[new, d, q])
    w.profile_of[small], w.profile_of[large] = new, own
    w.totals[small, 0], w.totals[small, 1] = total, square
    w.totals[large, 0], w.totals[large, 1] = w.totals[k, 0] - total, w.totals[k, 1] - square


@compiled
def _partition(
    x: Array, cut: np.float32, index: Array, spare: Array, nodes: Array, left: int
) -> int:
    """Rows that go left, then rows that go right; how many go left."""
    a: Any = 0
    z: Any = 0
    for j in range(len(index)):
        i = index[j]
        right = np.uint8(x[i] > cut)
        nodes[i] = np.uint8(left + right)
        index[a] = i
        spare[z] = i
        a += 1 - right
        z += right
    for j in range(z):
        index[a + j] = spare[j]
    return a


@compiled
def _profile(t: Table, w: Scratch, r: Array, rows: Array, profile: Array) -> tuple[float, float]:
    total, square = _pick(r, rows, w.quads)
    for d in range(len(t.x)):
        _sum_quads(t.bins[d], rows, w.quads, w.four)
        _unpack_quads(w.four, profile[d])
    return total, square


@compiled
def _pick(r: Array, rows: Array, quads: Array) -> tuple[Any, Any]:
    total, square = 0.0, 0.0
    for j in range(len(rows)):
        v = r[rows[j]]
        quads[j, 0] = v
        quads[j, 2] = max(v, 0.0)
        quads[j, 3] = v * v
        total += v
        square += v * v
    return total, square


@compiled
def _sum_quads(bins: Array, rows: Array, quads: Array, four: Array) -> None:
    four[:] = 0.0
    for j in range(len(rows)):
        _add_quad(four, bins[rows[j]], quads, j)


@compiled
def _unpack_quads(four: Array, profile: Array) -> None:
    total, count = 0.0, 0.0
    for b in range(len(four)):
        total += four[b, 0]
        count += four[b, 1]
        profile[0, b + 1] = total
        profile[1, b + 1] = count
        profile[2, b] = four[b, 2]
        profile[3, b] = four[b, 3]


@vectorised
def _subtract(a: Array, b: Array) -> None:
    for j in range(len(a)):
        a[j] -= b[j]


@reordered
def _newton(x: Array, cut: np.float32, r: Array, rows: Array) -> tuple[float, float]:
    """The Newton steps of the two leaves below a split."""
    total, curvature, total_right, curvature_right, count = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(rows)):
        i = rows[j]
        v = r[i]
        second = abs(v) * (1.0 - abs(v))
        right = 1.0 if x[i] > cut else 0.0
        total += v
        curvature += second
        total_right += v * right
        curvature_right += second * right
        count += right
    left = _step(total - total_right, curvature - curvature_right, len(rows) - count)
    return left, _step(total_right, curvature_right, count)


@compiled
def _step(total: float, curvature: float, count: float) -> float:
    if curvature <= NO_CURVATURE * count:
        return 0.0
    return total / curvature


@compiled
def _add_tree(x: Array, w: Scratch, raw: Array) -> None:
    """Add the step of every row's leaf to its score."""
    leaf = np.empty(BLOCK, np.uint32)
    for start in range(0, len(raw), BLOCK):
        stop = min(start + BLOCK, len(raw))
        _leaves(x, start, stop, w.features, w.cuts, leaf)
        _take(w.steps, leaf, raw[start:stop])


@compiled
def _leaves(x: Array, a: int, b: int, f: Array, cuts: Array, leaf: Array) -> None:
    """The leaf of every row from a to b, without a branch that a processor could mispredict."""
    c0, c1, c2, c3, c4, c5, c6 = cuts[0], cuts[1], cuts[2], cuts[3], cuts[4], cuts[5], cuts[6]
    x0, x1, x2, x3 = x[f[0], a:b], x[f[1], a:b], x[f[2], a:b], x[f[3], a:b]
    x4, x5, x6 = x[f[4], a:b], x[f[5], a:b], x[f[6], a:b]
    two, four, six = np.int32(2), np.int32(4), np.int32(6)
    for i in range(len(x0)):
        low = np.int32(x3[i] > c3) if x1[i] <= c1 else two + np.int32(x4[i] > c4)
        high = four + np.int32(x5[i] > c5) if x2[i] <= c2 else six + np.int32(x6[i] > c6)
        leaf[i] = low if x0[i] <= c0 else high


@compiled
def _take(steps: Array, leaf: Array, raw: Array) -> None:
    for i in range(len(raw)):
        raw[i] += steps[leaf[i]]
