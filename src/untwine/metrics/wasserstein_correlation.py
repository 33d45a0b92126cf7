"""Wasserstein correlation: how far the codes are, as a Gaussian, from independent ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from untwine.estimators.arrays import check_codes
from untwine.metrics.total_correlation import covariance
from untwine.registry import metric


@metric(
    title="Gaussian Wasserstein correlation",
    paper="Locatello et al., 2019",
    url="https://arxiv.org/abs/1811.12359",
    higher_is_better=False,
    range=(0.0, None),
    unchanged_by=("permutation", "sign", "shift", "dead"),
)
def wasserstein_correlation(codes: ArrayLike) -> dict[str, float]:
    """The squared 2-Wasserstein distance between correlated and uncorrelated Gaussian codes.

    W = W₂²(N(0, Σ), N(0, S)) = 2 tr Σ − 2 tr (S^½ Σ S^½)^½,   S = diag Σ

    Reported by Locatello et al., 2019, next to the total correlation. The second value is W / tr Σ,
    which does not change when all codes are scaled alike.

    Codes (N, D) give the covariance Σ (D, D). Constant latents add nothing; without a latent that
    changes, both values are 0. Unlike the total correlation it is finite for copies.

    Blind spots: it sees second moments only, like the total correlation. W grows with the scale of
    the codes, so latents that are wide dominate it; the normalised value still depends on the
    relative scale of the latents.

    >>> z = np.array([[1, 1], [-1, -1], [2, -2], [-2, 2], [1, 1], [-1, -1]])
    >>> round(wasserstein_correlation(z)["normalised"], 6)  # correlation −1/3
    0.028803
    """
    covariances = covariance(check_codes(codes))
    spread = np.sqrt(covariances.diagonal())
    eigenvalues = np.linalg.eigvalsh(covariances * np.outer(spread, spread))
    total = float(covariances.trace())
    distance = max(0.0, 2 * total - 2 * float(np.sqrt(eigenvalues.clip(0)).sum()))
    return {
        "wasserstein_correlation": distance,
        "normalised": distance / total if total > 0 else 0.0,
    }
