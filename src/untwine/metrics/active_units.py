"""Active units: how many latents change with the data at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.estimators.arrays import check_codes
from untwine.registry import metric
from untwine.schema import NonNegative


@metric(
    title="Active units",
    paper="Burda et al., 2016",
    url="https://arxiv.org/abs/1509.00519",
    higher_is_better=True,
    question="held",
    range=(0.0, None),
    unchanged_by=("permutation", "sign", "shift", "dead"),
)
def active_units(codes: ArrayLike, *, threshold: NonNegative = 0.01) -> float:
    """The number of latents whose posterior mean varies over the data (Burda et al., 2016).

    AU = #{i: Var_x(E[z_i | x]) > threshold}

    Codes (N, D) are posterior means; the variance is over rows.

    Blind spots: the threshold is absolute, so scaled codes count differently; other scores draw
    the line elsewhere (the FactorVAE score at a standard deviation of 0.05, which is a variance of
    0.0025). A latent that varies need not be used by the decoder, and samples in place of means
    make every latent active.

    Args:
        threshold: variance above which a latent is active.

    >>> z = np.array([[-1.0, 0.05, 2.0], [1.0, -0.05, 2.0]])
    >>> active_units(z)
    1.0
    """
    return float(sum(_variance(column) > threshold for column in check_codes(codes).T))


def _variance(column: NDArray[np.floating]) -> float:
    """The variance of one latent; exactly 0 when it is constant."""
    return float((column.astype(np.float64) - column[0]).var())
