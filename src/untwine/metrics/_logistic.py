"""Logistic regression of factors on codes, in two forms, and how well its probabilities rank."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from untwine.metrics._arrays import Codes, Levels, Split

Floats = NDArray[np.floating]
Solver = Literal["multinomial", "2019"]
Loss = Callable[[Floats], tuple[float, Floats]]  # (C, N) scores to sum and derivatives

ROWS = 2**11  # whose scores stay in the fast memory
TOLERANCE = 1e-4  # largest derivative of the mean loss where it counts as a minimum
STEPS = 1000


class Model(NamedTuple):
    """Weights (D + 1, C) of the levels (C,) it knows; the last row holds the biases."""

    weights: NDArray[np.float64]
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
        """(N,) the most likely levels; the smallest of several."""
        return self.levels[self.log_probabilities(x).argmax(1)]


def inputs(rows: Split) -> tuple[Floats, Floats]:
    """(N, D + 1) inputs to learn from and to test on: standard codes, and ones for the bias.

    Mean and deviation are those of the rows to learn from; a latent that is constant there is 0.
    """
    mean = rows.codes.mean(0, dtype=np.float64)
    changing = (rows.codes != rows.codes[:1]).any(0)
    spread = np.where(changing, rows.codes.std(0, dtype=np.float64), np.inf)
    return _standard(rows.codes, mean, spread), _standard(rows.test_codes, mean, spread)


def _standard(codes: Codes, mean: Floats, spread: Floats) -> NDArray[np.float32]:
    x = np.ones((len(codes), codes.shape[1] + 1), np.float32)
    x[:, :-1] = (codes - mean) / spread
    return x


def fit_each(x: Floats, factors: Levels, solver: Solver) -> list[Model]:
    """One model for each factor (N, K)."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda y: fit(x, y, solver), factors.T))


def fit(x: Floats, y: Levels, solver: Solver) -> Model:
    """Minimise Σ loss + |w|² / 2 over the levels that occur in y (N,).

    The multinomial model has free biases. The one of 2019 tells each level from the others and
    penalises biases too. With two levels both are a single line.
    """
    levels, y = np.unique(y, return_inverse=True)
    penalty = np.ones(x.shape[1])
    penalty[-1] = solver == "2019"
    if len(levels) == 2:
        weights = _minimise(_sigmoid_loss, x, y - 1, 1, penalty)
        return Model(np.hstack([0 * weights, weights]), levels, solver)
    loss = _sigmoid_loss if solver == "2019" else _softmax_loss
    return Model(_minimise(loss, x, y, len(levels), penalty), levels, solver)


def _minimise(
    loss: Loss, x: Floats, y: Levels, columns: int, penalty: Floats
) -> NDArray[np.float64]:
    """(D + 1, C) weights by L-BFGS, in the precision of the inputs; y (N,) is the right column.

    A row with y = -1 has none.
    """
    from scipy.optimize import minimize

    shape = (x.shape[1], columns)
    parts = [
        _part(x[start : start + ROWS], y[start : start + ROWS]) for start in range(0, len(x), ROWS)
    ]

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat.reshape(shape)
        slope = penalty[:, None] * w
        value = float((slope * w).sum()) / 2
        for part, hits in parts:
            scores = w.T.astype(x.dtype) @ part
            value -= _sum(scores[hits])
            sums, errors = loss(scores)
            errors[hits] -= 1
            value, slope = value + sums, slope + part @ errors.T
        return value / len(x), slope.ravel() / len(x)

    options = {"gtol": TOLERANCE, "maxiter": STEPS}
    start = np.zeros(shape[0] * shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(shape)


def _part(x: Floats, y: Levels) -> tuple[Floats, tuple[Levels, NDArray[np.intp]]]:
    """Inputs (D + 1, N), as sums over the first axis are fast, and where the right scores stand."""
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
    """In double precision: what is left of large sums decides when to stop."""
    return float(values.sum(dtype=np.float64))


def ranking(log_probabilities: Floats, y: Levels, levels: Levels) -> float:
    """Mean area under the ROC curve of each level (C,) against the rest, from (N, C) and y (N,).

    U = Σ_n (rows below + rows as high / 2) over the level's rows, less what they have among
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
