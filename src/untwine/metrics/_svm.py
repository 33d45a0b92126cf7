"""Linear support vector machines of one latent: exact, and without a pass over rows in each step.

With a single feature the rows inside the margin are those on one side of a threshold. Once the
rows are sorted, sums over them are differences of running sums, so that a Newton step costs three
binary searches however many rows there are.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from untwine.metrics._arrays import Split

Floats = NDArray[np.float64]
Levels = NDArray[np.int64]

STEPS = 100
ENOUGH = 1e-15  # what a further step could gain, as a share of the objective
ROUNDING = 1e-12  # of the objective
ROWS = 2**22  # sorted at a time by all threads together


class Problem(NamedTuple):
    """What one machine learns from: all values u = (z - centre) / scale and those of its level."""

    every: Floats  # sorted
    every_sums: Floats
    own: Floats  # sorted
    own_sums: Floats
    weight: float  # of its own level
    others: float  # weight of the other levels
    cost: float
    shift: float  # centre / scale
    narrow: float  # 1 / scale**2


class Point(NamedTuple):
    """The objective at one slope and height, with its derivatives."""

    value: float
    slope: float
    height: float
    slope_slope: float
    slope_height: float
    height_height: float
    determinant: float


def accuracies(rows: Split, cost: float) -> Floats:
    """(D, K) how often the machines that see latent i alone find the level of factor k."""
    threads = min(os.cpu_count() or 1, max(1, ROWS // len(rows.codes)))
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda i: _of_latent(rows, i, cost), range(rows.codes.shape[1]))
        return np.stack(list(found))


def _of_latent(rows: Split, latent: int, cost: float) -> Floats:
    """(K,) accuracies. The latent is centred and scaled, else its sums would lose their digits."""
    z = rows.codes[:, latent].astype(np.float64)
    centre, scale = float(z.mean()), float(z.std()) or 1.0
    order = np.argsort(z)
    u = (z[order] - centre) / scale
    test = (rows.test_codes[:, latent].astype(np.float64) - centre) / scale
    pairs = zip(rows.factors.T, rows.test_factors.T, strict=True)
    return np.array(
        [
            (predict(machines(u, y[order], centre, scale, cost), test) == test_y).mean()
            for y, test_y in pairs
        ]
    )


@njit(cache=True, nogil=True)
def predict(lines: Floats, u: Floats) -> NDArray[np.int32]:
    """(N,) the level whose line is highest; the smallest of several."""
    top = np.full(len(u), -np.inf)
    best = np.zeros(len(u), np.int32)
    for level in range(len(lines)):
        for n in range(len(u)):  # without branches, so that several rows are done at a time
            value = lines[level, 0] * u[n] + lines[level, 1]
            better = value > top[n]
            top[n] = value if better else top[n]
            best[n] = level if better else best[n]
    return best


@njit(cache=True, nogil=True)
def machines(u: Floats, y: Levels, centre: float, scale: float, cost: float) -> Floats:
    """(levels, 2) slope and height of each level's line over u, which is sorted.

    One machine tells each level from all others. Where there are two levels, one machine tells
    them apart and the line of the first is the axis. A level without rows never wins.
    """
    own, starts = _by_level(u, y)
    there = np.flatnonzero(np.diff(starts))
    lines = np.full((len(starts) - 1, 2), -np.inf)
    lines[:, 0] = 0.0
    sums = _running(u)
    for level in there:
        values = own[starts[level] : starts[level + 1]]
        weight = len(u) / (len(there) * len(values))
        others = len(u) / (2.0 * (len(u) - len(values))) if len(there) == 2 else 1.0
        problem = Problem(
            u, sums, values, _running(values), weight, others, cost, centre / scale, scale**-2.0
        )
        lines[level, 0], lines[level, 1] = _solve(problem)
    if len(there) == 2:
        lines[there[0]] = 0.0
    return lines


@njit(cache=True, nogil=True)
def _by_level(u: Floats, y: Levels) -> tuple[Floats, Levels]:
    """The values of each level one after another, still sorted, and where each level starts."""
    starts = np.zeros(y.max() + 2, np.int64)
    for level in y:
        starts[level + 1] += 1
    starts = np.cumsum(starts)
    place = starts.copy()
    own = np.empty_like(u)
    for n in range(len(u)):
        own[place[y[n]]] = u[n]
        place[y[n]] += 1
    return own, starts


@njit(cache=True, nogil=True)
def _running(u: Floats) -> Floats:
    """(N + 1, 3) number of the first values, their sum, and the sum of their squares."""
    sums = np.zeros((len(u) + 1, 3))
    for n in range(len(u)):
        sums[n + 1, 0] = n + 1
        sums[n + 1, 1] = sums[n, 1] + u[n]
        sums[n + 1, 2] = sums[n, 2] + u[n] * u[n]
    return sums


@njit(cache=True, nogil=True)
def _solve(problem: Problem) -> tuple[float, float]:
    """The best slope v and height a, by Newton's method with a search along each step."""
    v = a = 0.0
    here = _point(problem, v, a)
    for _ in range(STEPS):
        dv = (here.slope_height * here.height - here.height_height * here.slope) / here.determinant
        da = (here.slope_height * here.slope - here.slope_slope * here.height) / here.determinant
        gain = -(here.slope * dv + here.height * da)
        if gain <= ENOUGH * here.value:
            break
        share = 1.0
        there = _point(problem, v + dv, a + da)
        while there.value > here.value * (1 + ROUNDING) - 1e-4 * share * gain and share > 1e-9:
            share /= 2
            there = _point(problem, v + share * dv, a + share * da)
        v, a, here = v + share * dv, a + share * da, there
    return v, a


@njit(cache=True, nogil=True, error_model="numpy")  # thresholds may be infinite
def _point(p: Problem, v: float, a: float) -> Point:
    """The objective (w² + b²) / 2 + cost Σ weight max(0, 1 ∓ (v u + a))², w z + b = v u + a."""
    rises = v >= 0
    n0, n1, n2 = _side(p.own_sums, np.searchsorted(p.own, (1 - a) / v), rises)
    edge = (-1 - a) / v
    m0, m1, m2 = _side(p.every_sums, np.searchsorted(p.every, edge), not rises)
    o0, o1, o2 = _side(p.own_sums, np.searchsorted(p.own, edge), not rises)
    n0, n1, n2 = p.weight * n0, p.weight * n1, p.weight * n2
    m0, m1, m2 = p.others * (m0 - o0), p.others * (m1 - o1), p.others * (m2 - o2)
    s0, s1, s2, t0, t1 = n0 + m0, n1 + m1, n2 + m2, n0 - m0, n1 - m1
    bias, twice = a - p.shift * v, 2 * p.cost
    loss = s0 - 2 * (v * t1 + a * t0) + v * v * s2 + 2 * v * a * s1 + a * a * s0
    spread = max(0.0, s0 * s2 - s1 * s1)
    return Point(
        (p.narrow * v * v + bias * bias) / 2 + p.cost * loss,
        p.narrow * v - p.shift * bias - twice * (t1 - v * s2 - a * s1),
        bias - twice * (t0 - v * s1 - a * s0),
        p.narrow + p.shift**2 + twice * s2,
        twice * s1 - p.shift,
        1 + twice * s0,
        p.narrow
        + twice * (s2 + 2 * p.shift * s1 + (p.narrow + p.shift**2) * s0)
        + twice**2 * spread,
    )


@njit(cache=True, nogil=True)
def _side(sums: Floats, cut: np.intp, below: bool) -> tuple[float, float, float]:
    """Number, sum and sum of squares of the values below a cut, or above it."""
    n, first, second = sums[cut, 0], sums[cut, 1], sums[cut, 2]
    if below:
        return n, first, second
    return sums[-1, 0] - n, sums[-1, 1] - first, sums[-1, 2] - second
