"""The evidence lower bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from untwine.errors import DataError
from untwine.registry import metric


@metric(
    title="Evidence lower bound",
    paper="Kingma and Welling, 2014",
    url="https://arxiv.org/abs/1312.6114",
    higher_is_better=True,
    range=(-math.inf, None),
    unchanged_by=(),
)
def elbo(elbos: ArrayLike) -> dict[str, float]:
    """The mean evidence lower bound in nats per example (Kingma and Welling, 2014).

    ELBO = E_q(z|x)[log p(x|z)] − KL(q(z|x) ‖ p(z)) ≤ log p(x)

    `elbos` (N,) are bounds of examples, or means over batches of one size. The standard
    error follows the mean where there are at least two. Refuses bounds that are not finite.

    Blind spots: it adds pixels up, so a model with few nats for its latents scores well by drawing
    the background alone, and codes that ignore the image can be part of the best bound. It is the
    plain bound: what else a model was trained with does not count. Values of densities (as of a
    normal likelihood) can be positive, and compare only for one likelihood and one scaling of the
    data. A better bound may mean a tighter posterior rather than a better model.

    >>> elbo([-90.0, -110.0])
    {'elbo': -100.0, 'standard_error': 10.0}
    """
    bounds = np.asarray(elbos)
    if bounds.dtype.kind not in "biuf" or bounds.ndim != 1 or not bounds.size:
        raise DataError(f"elbos must be numbers of shape (N,), not {bounds.dtype} {bounds.shape}")
    if not np.isfinite(bounds).all():
        raise DataError("the bounds hold NaN or infinity; find out where they come from first")
    return mean_and_error("elbo", bounds.astype(np.float64))


def mean_and_error(name: str, values: np.ndarray) -> dict[str, float]:
    """The mean of values (N,) under a name, and its standard error where N is at least 2."""
    mean = {name: float(values.mean())}
    if len(values) < 2:
        return mean
    return {**mean, "standard_error": float(values.std(ddof=1) / math.sqrt(len(values)))}
