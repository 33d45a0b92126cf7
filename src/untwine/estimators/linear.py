"""Linear classifiers: logistic regression on all latents, support vector machines on one each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import Codes, Levels, Split, largest_code
from untwine.tools.compiling import compile_once

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Item = TypeVar("Item")
Result = TypeVar("Result")
Solver = Literal["multinomial", "2019"]
Loss = Callable[[Floats], tuple[float, Floats]]  # (C, N) scores to sum and derivatives

LOGISTIC_BLOCK = 2**11  # rows whose scores fit into the processor's cache
LOGISTIC_TOLERANCE = 1e-4  # largest derivative of the mean loss that counts as a minimum
LOGISTIC_MAX_STEPS = 1000
LOGISTIC_MAX_INPUT = 1e15  # standard deviations; test rows further away count as there
SVM_MAX_ROWS = 2**22  # sorted at a time by all threads together
SVM_MAX_STEPS = 100
SVM_TOLERANCE = 1e-15  # what a further step could gain, as a share of the objective
SVM_ROUNDING = 1e-12  # of the objective


class LogisticModel(NamedTuple):
    """Weights (D + 1, C) of the levels (C,) that occur; the last row holds the biases."""

    weights: Doubles
    levels: Levels
    solver: Solver

    def log_probabilities(self, x: Floats) -> Floats:
        """(N, D + 1) inputs to (N, C); with the 2019 solver each level has its own odds first."""
        scores = x @ self.weights.astype(x.dtype)
        if self.solver == "2019" and len(self.levels) > 2:
            scores = np.minimum(scores, 0) - np.log1p(np.exp(-np.abs(scores)))
        scores -= scores.max(1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(1, keepdims=True))

    def predict(self, x: Floats) -> Levels:
        """(N,) most likely levels; the smallest in a tie."""
        return self.levels[self.log_probabilities(x).argmax(1)]


class SvmProblem(NamedTuple):
    """The data of one machine: all values u = (z - centre) / scale, and those of its level."""

    every: Doubles  # sorted
    every_sums: Doubles
    own: Doubles  # sorted
    own_sums: Doubles
    weight: float  # of its own level
    others: float  # weight of the other levels
    cost: float
    shift: float  # centre / scale
    narrow: float  # 1 / scale**2


class SvmPoint(NamedTuple):
    """The objective at one slope and height, with its derivatives."""

    value: float
    slope: float
    height: float
    slope_slope: float
    slope_height: float
    height_height: float
    determinant: float


def _in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None
) -> list[Result]:
    """The function of each item, in order."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def _check_rows(rows: Split) -> None:
    """Refuse codes and levels that compiled loops must not see."""
    largest_code(rows.codes)
    largest_code(rows.test_codes)
    for levels in (rows.factors, rows.test_factors):
        n = len(rows.factors) + len(rows.test_factors)
        if levels.dtype.kind not in "iu" or levels.min() < 0 or levels.max() >= n:
            raise DataError("levels of factors must be numbered from 0 without gaps")


# Logistic regression


def logistic_inputs(rows: Split) -> tuple[Floats, Floats]:
    """(N, D + 1) training and test inputs: standardised codes, and ones for the bias.

    Mean and standard deviation are those of the training rows; a latent constant there becomes 0.
    """
    _check_rows(rows)
    mean = rows.codes.mean(0, dtype=np.float64)
    changing = (rows.codes != rows.codes[:1]).any(0)
    spread = rows.codes.std(0, dtype=np.float64)
    spread = np.where(changing & (spread > 0), spread, np.inf)
    return _standardise(rows.codes, mean, spread), _standardise(rows.test_codes, mean, spread)


def _standardise(codes: Codes, mean: Floats, spread: Floats) -> NDArray[np.float32]:
    x = np.ones((len(codes), codes.shape[1] + 1), np.float32)
    with np.errstate(over="ignore"):
        x[:, :-1] = np.clip((codes - mean) / spread, -LOGISTIC_MAX_INPUT, LOGISTIC_MAX_INPUT)
    return x


def fit_each_logistic(x: Floats, factors: Levels, solver: Solver) -> list[LogisticModel]:
    """Fit one model to each factor (N, K)."""
    return _in_threads(lambda y: fit_logistic(x, y, solver), factors.T, os.cpu_count())


def fit_logistic(x: Floats, y: Levels, solver: Solver) -> LogisticModel:
    """Minimise Σ loss + |w|² / 2 over the levels that occur in y (N,).

    The multinomial model has unpenalised biases. That of 2019 is one-versus-rest and penalises
    biases too. With two levels both are a single line.
    """
    levels, y = np.unique(y, return_inverse=True)
    penalty = np.ones(x.shape[1])
    penalty[-1] = solver == "2019"
    if len(levels) == 2:
        weights = _minimise_logistic(_sigmoid_loss, x, y - 1, 1, penalty)
        return LogisticModel(np.hstack([0 * weights, weights]), levels, solver)
    loss = _sigmoid_loss if solver == "2019" else _softmax_loss
    return LogisticModel(_minimise_logistic(loss, x, y, len(levels), penalty), levels, solver)


def _minimise_logistic(loss: Loss, x: Floats, y: Levels, columns: int, penalty: Floats) -> Doubles:
    """(D + 1, C) weights by L-BFGS, in the precision of the inputs; y (N,) is the true column.

    A row with y = -1 has none.
    """
    from scipy.optimize import minimize

    shape = (x.shape[1], columns)
    blocks = [
        _block(x[start : start + LOGISTIC_BLOCK], y[start : start + LOGISTIC_BLOCK])
        for start in range(0, len(x), LOGISTIC_BLOCK)
    ]

    def objective(flat: Doubles) -> tuple[float, Doubles]:
        w = flat.reshape(shape)
        slope = penalty[:, None] * w
        value = float((slope * w).sum()) / 2
        for block, hits in blocks:
            scores = w.T.astype(x.dtype) @ block
            value -= _sum(scores[hits])
            sums, errors = loss(scores)
            errors[hits] -= 1
            value, slope = value + sums, slope + block @ errors.T
        return value / len(x), slope.ravel() / len(x)

    options = {"gtol": LOGISTIC_TOLERANCE, "maxiter": LOGISTIC_MAX_STEPS}
    start = np.zeros(shape[0] * shape[1])
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return solution.x.reshape(shape)


def _block(x: Floats, y: Levels) -> tuple[Floats, tuple[Levels, NDArray[np.intp]]]:
    """Inputs (D + 1, N), because sums over the first axis are fast, and indices of true scores."""
    rows = np.flatnonzero(y >= 0)
    return np.ascontiguousarray(x.T), (y[rows], rows)


def _softmax_loss(scores: Floats) -> tuple[float, Floats]:
    """Σ ln Σ_c exp s_c and its derivatives."""
    top = scores.max(0)
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(0)
    scores /= total
    return _sum(np.log(total)) + _sum(top), scores


def _sigmoid_loss(scores: Floats) -> tuple[float, Floats]:
    """Σ ln(1 + exp s) and its derivatives."""
    small = np.exp(-np.abs(scores))
    value = _sum(np.maximum(scores, 0)) + _sum(np.log1p(small))
    return value, np.exp(np.minimum(scores, 0)) / (1 + small)


def _sum(values: Floats) -> float:
    """A sum in double precision, because small differences of large sums decide when to stop."""
    return float(values.sum(dtype=np.float64))


def auc_ranking(log_probabilities: Floats, y: Levels, levels: Levels) -> float:
    """Mean area under the ROC curve of each level (C,) against the rest, from (N, C) and y (N,).

    U = Σ_n (rows below + rows as high / 2) over the level's rows, not counting those among
    themselves. Levels without rows, or with all rows, have no curve; without any curve it is NaN.
    """
    areas = []
    for column, level in zip(log_probabilities.T, levels, strict=True):
        own = y == level
        count = int(own.sum())
        if 0 < count < len(y):
            ordered, values = np.sort(column), column[own]
            ranks = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, "right")
            areas.append((ranks.sum() - count**2) / (2 * count * (len(y) - count)))
    return float(np.mean(areas)) if areas else float("nan")


# Support vector machines


def svm_accuracies(rows: Split, cost: float) -> Doubles:
    """(D, K) accuracies of machines that predict the level of factor k from latent i alone."""
    _check_rows(rows)
    threads = min(os.cpu_count() or 1, max(1, SVM_MAX_ROWS // len(rows.codes)))
    latents = range(rows.codes.shape[1])
    return np.stack(_in_threads(lambda i: _latent_accuracies(rows, i, cost), latents, threads))


def _latent_accuracies(rows: Split, latent: int, cost: float) -> Doubles:
    """(K,) accuracies. The latent is standardised first, so that sums of it keep their digits."""
    z = rows.codes[:, latent].astype(np.float64)
    centre, scale = float(z.mean()), float(z.std()) or 1.0
    order = np.argsort(z)
    u = (z[order] - centre) / scale
    test = (rows.test_codes[:, latent].astype(np.float64) - centre) / scale
    pairs = zip(rows.factors.T, rows.test_factors.T, strict=True)
    return np.array(
        [
            (predict_svm(train_svms(u, y[order], centre, scale, cost), test) == test_y).mean()
            for y, test_y in pairs
        ]
    )


@compile_once()
def predict_svm(lines: Doubles, u: Doubles) -> NDArray[np.int32]:
    """(N,) levels whose line is highest; the smallest in a tie."""
    top = np.full(len(u), -np.inf)
    best = np.zeros(len(u), np.int32)
    for level in range(len(lines)):
        for n in range(len(u)):  # without branches, so that several rows are done at a time
            value = lines[level, 0] * u[n] + lines[level, 1]
            better = value > top[n]
            top[n] = value if better else top[n]
            best[n] = level if better else best[n]
    return best


@compile_once()
def train_svms(u: Doubles, y: Levels, centre: float, scale: float, cost: float) -> Doubles:
    """(levels, 2) slope and height of each level's line over u, which is sorted.

    One machine separates each level from all others. With two levels, a single machine separates
    them and the line of the first is the axis. A level without rows never wins.
    """
    own, starts = _by_level(u, y)
    present = np.flatnonzero(np.diff(starts))
    lines = np.full((len(starts) - 1, 2), -np.inf)
    lines[:, 0] = 0.0
    sums = _running_sums(u)
    for level in present:
        values = own[starts[level] : starts[level + 1]]
        weight = len(u) / (len(present) * len(values))
        others = len(u) / (2.0 * (len(u) - len(values))) if len(present) == 2 else 1.0
        problem = SvmProblem(
            u,
            sums,
            values,
            _running_sums(values),
            weight,
            others,
            cost,
            centre / scale,
            scale**-2.0,
        )
        lines[level, 0], lines[level, 1] = _minimise_svm(problem)
    if len(present) == 2:
        lines[present[0]] = 0.0
    return lines


@compile_once()
def _by_level(u: Doubles, y: Levels) -> tuple[Doubles, Levels]:
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


@compile_once()
def _running_sums(u: Doubles) -> Doubles:
    """(N + 1, 3) number of the first values, their sum, and the sum of their squares."""
    sums = np.zeros((len(u) + 1, 3))
    for n in range(len(u)):
        sums[n + 1, 0] = n + 1
        sums[n + 1, 1] = sums[n, 1] + u[n]
        sums[n + 1, 2] = sums[n, 2] + u[n] * u[n]
    return sums


@compile_once()
def _minimise_svm(problem: SvmProblem) -> tuple[float, float]:
    """The best slope v and height a, by Newton's method with a search along each step."""
    v = a = 0.0
    here = _point(problem, v, a)
    for _ in range(SVM_MAX_STEPS):
        dv = (here.slope_height * here.height - here.height_height * here.slope) / here.determinant
        da = (here.slope_height * here.slope - here.slope_slope * here.height) / here.determinant
        gain = -(here.slope * dv + here.height * da)
        if gain <= SVM_TOLERANCE * here.value:
            break
        share = 1.0
        ahead = _point(problem, v + dv, a + da)
        while ahead.value > here.value * (1 + SVM_ROUNDING) - 1e-4 * share * gain and share > 1e-9:
            share /= 2
            ahead = _point(problem, v + share * dv, a + share * da)
        v, a, here = v + share * dv, a + share * da, ahead
    return v, a


@compile_once(error_model="numpy")  # thresholds may be infinite
def _point(p: SvmProblem, v: float, a: float) -> SvmPoint:
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
    return SvmPoint(
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


@compile_once()
def _side(sums: Doubles, cut: np.intp, below: bool) -> tuple[float, float, float]:
    """Number, sum and sum of squares of the values below a cut, or above it."""
    n, first, second = sums[cut, 0], sums[cut, 1], sums[cut, 2]
    if below:
        return n, first, second
    return sums[-1, 0] - n, sums[-1, 1] - first, sums[-1, 2] - second
