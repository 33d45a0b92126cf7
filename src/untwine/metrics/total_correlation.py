"""Total correlation of the codes, as if they were Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import Codes, check_codes
from untwine.registry import metric

SINGULAR = 1e-13  # eigenvalues of the correlations that count as 0
BLOCK_ROWS = 2**18  # summed at a time


@metric(
    title="Gaussian total correlation",
    paper="Locatello et al., 2019",
    url="https://arxiv.org/abs/1811.12359",
    higher_is_better=False,
    range=(0.0, None),
    unchanged_by=("permutation", "sign", "scale", "shift", "dead"),
)
def total_correlation(codes: ArrayLike) -> float:
    """The total correlation in nats of a Gaussian with the codes' covariance.

    TC = ½ (Σ_i ln Σ_ii − ln det Σ) = KL(N(0, Σ) ‖ Π_i N(0, Σ_ii))

    Used by Locatello et al., 2019, to show that uncorrelated codes need not be disentangled.

    Codes (N, D) give the covariance Σ (D, D). Constant latents are left out; one latent scores 0.
    Refuses latents that are linear combinations of each other, exact copies included, because
    their total correlation is infinite; so it is with fewer rows than latents.

    Blind spots: it sees second moments only, so latents that depend on each other without
    correlation score 0, and so does any rotation of independent latents of equal variance. It
    needs no factors and says nothing of them.

    >>> z = np.array([[1, 1], [-1, -1], [2, -2], [-2, 2], [1, 1], [-1, -1]])
    >>> round(total_correlation(z), 6)  # correlation −1/3
    0.058892
    """
    covariances = covariance(check_codes(codes))
    changing = covariances.diagonal() > 0
    covariances = covariances[changing][:, changing]
    spread = np.sqrt(covariances.diagonal())
    eigenvalues = np.linalg.eigvalsh(covariances / np.outer(spread, spread))
    if (eigenvalues <= SINGULAR * len(spread)).any():
        raise DataError(
            "some latents are linear combinations of others, so the total correlation is "
            "infinite; leave copies out, and give more rows than latents"
        )
    return max(0.0, float(-np.log(eigenvalues).sum() / 2))


def covariance(z: Codes) -> NDArray[np.float64]:
    """(N, D) codes to their unbiased (D, D) covariance; exactly 0 for constant latents.

    >>> covariance(np.array([[0.0, 1.0], [2.0, 1.0]])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    start = z[0].astype(np.float64)  # a constant latent then is exactly 0
    mean = sum((part - start).sum(0) for part in _parts(z)) / len(z)
    products = [_product(part - start - mean) for part in _parts(z)]
    return np.sum(products, axis=0) / (len(z) - 1)


def _parts(z: Codes) -> list[Codes]:
    return [z[first : first + BLOCK_ROWS] for first in range(0, len(z), BLOCK_ROWS)]


def _product(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return z.T @ z
