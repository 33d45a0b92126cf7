"""The log-likelihood of data by importance sampling."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.metrics.elbo import nats_and_bits
from untwine.registry import metric
from untwine.schema import Count


@metric(
    title="Log-likelihood by importance sampling",
    short_title="Log-likelihood",
    paper="Burda et al., 2016",
    url="https://arxiv.org/abs/1509.00519",
    higher_is_better=True,
    range=(-math.inf, None),
    unchanged_by=(),
    lower_is_better=("bits_per_dimension",),
    unreliable_below={"effective_draws": 10},
)
def log_likelihood(
    log_weights: ArrayLike, dimensions: int | None = None, *, draws: Count = 100
) -> dict[str, float]:
    """The log-likelihood in nats per example, from draws of the posterior (Burda et al., 2016).

    log p(x) ≈ log 1/S Σ_s w_s,   log w_s = log p(x|z_s) + log p(z_s) − log q(z_s|x)

    `log_weights` (N, S) are log w for S draws of each of N examples, of which the first `draws` are
    used. The mean over examples is followed by its standard error, by itself in bits per dimension
    (for examples of `dimensions` numbers), and by the mean effective number of draws,
    (Σ w)² / Σ w²: near 1 means that one draw carries the estimate, and below 10 tables mark the
    score as unreliable. A log-weight may be −∞ if the example has another finite one.

    Blind spots: for any number of draws it is a lower bound in expectation, and the looser the
    further the posterior is from the truth: it grows with `draws`, so models compare only at one
    number. Like every likelihood it says little about how samples look or what the codes mean.

    Args:
        draws: from the posterior for each example.

    >>> scores = log_likelihood([[0.0, 0.0], [math.log(3), -math.inf]], draws=2)
    >>> round(scores["log_likelihood"], 6), scores["effective_draws"]  # (log 1 + log 3/2) / 2
    (0.202733, 1.5)
    """
    w = _check(log_weights, draws)
    top = w.max(1, keepdims=True)
    weights = np.exp(w - top)  # (N, S), the largest of each row is 1
    total = weights.sum(1)
    values = top[:, 0] + np.log(total / draws)
    effective = np.square(total) / np.square(weights).sum(1)
    return {
        **nats_and_bits("log_likelihood", values, dimensions),
        "effective_draws": float(effective.mean()),
    }


def _check(log_weights: ArrayLike, draws: int) -> NDArray[np.float64]:
    """The first `draws` columns."""
    w = np.asarray(log_weights)
    if w.dtype.kind not in "biuf" or w.ndim != 2 or 0 in w.shape:
        raise DataError(f"log_weights must be numbers of shape (N, S), not {w.dtype} {w.shape}")
    if w.shape[1] < draws:
        raise DataError(
            f"there are {w.shape[1]} draws of each example, not {draws}; "
            f"write draws={w.shape[1]}, or draw more"
        )
    w = w[:, :draws].astype(np.float64)
    if np.isnan(w).any() or (w == np.inf).any() or not np.isfinite(w.max(1)).all():
        raise DataError(
            "the log weights hold NaN or infinity, or an example whose weights are all 0; "
            "find out where they come from first"
        )
    return w
