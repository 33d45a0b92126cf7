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
    lower_is_better=("bits_per_dimension",),
)
def elbo(elbos: ArrayLike, dimensions: int | None = None) -> dict[str, float]:
    """The mean evidence lower bound in nats per example (Kingma and Welling, 2014).

    ELBO = E_q(z|x)[log p(x|z)] − KL(q(z|x) ‖ p(z)) ≤ log p(x)

    `elbos` (N,) are bounds of examples, or means over batches of one size. The standard
    error follows the mean where there are at least two, and then the bound in bits per dimension,
    −ELBO / (D log 2) for examples of D numbers (`dimensions`). Refuses bounds that are not finite.

    Blind spots: it adds pixels up, so a model with few nats for its latents scores well by drawing
    the background alone, and codes that ignore the image can be part of the best bound. It is the
    plain bound: what else a model was trained with does not count. Values of densities (as of a
    normal likelihood) can be positive, and compare only for one likelihood and one scaling of the
    data. A better bound may mean a tighter posterior rather than a better model.

    >>> elbo([-90.0, -110.0], 100)
    {'elbo': -100.0, 'standard_error': 10.0, 'bits_per_dimension': 1.4426950408889634}
    """
    bounds = np.asarray(elbos)
    if bounds.dtype.kind not in "biuf" or bounds.ndim != 1 or not bounds.size:
        raise DataError(f"elbos must be numbers of shape (N,), not {bounds.dtype} {bounds.shape}")
    if not np.isfinite(bounds).all():
        raise DataError("the bounds hold NaN or infinity; find out where they come from first")
    return nats_and_bits("elbo", bounds.astype(np.float64), dimensions)


def nats_and_bits(name: str, values: np.ndarray, dimensions: int | None) -> dict[str, float]:
    """The mean of log-likelihoods (N,), its standard error, and the mean in bits per dimension."""
    nats = mean_and_error(name, values)
    if dimensions is None:
        return nats
    return {**nats, "bits_per_dimension": -nats[name] / (dimensions * math.log(2))}


def mean_and_error(name: str, values: np.ndarray) -> dict[str, float]:
    """The mean of values (N,) under a name, and its standard error where N is at least 2."""
    mean = {name: float(values.mean())}
    if len(values) < 2:
        return mean
    return {**mean, "standard_error": float(values.std(ddof=1) / math.sqrt(len(values)))}
