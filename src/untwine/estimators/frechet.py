"""The Fréchet distance between two sets of features, each seen as a normal distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.floating]  # (M, F)


def frechet_distance(a: Features, b: Features) -> float:
    """|m_a − m_b|² + tr(C_a + C_b − 2 (C_a C_b)^½) of features (M, F) and (N, F).

    With roots C = RᵀR the last trace is the sum of the singular values of R_a R_bᵀ. No square root
    of a product is taken, so nothing is complex and little is lost to rounding.

    >>> a = np.array([[-1.0], [1.0]])
    >>> round(frechet_distance(a, 3 * a + 5), 6)  # 5² + (√2 − 3√2)²
    33.0
    """
    (mean, root), (other_mean, other_root) = _moments(a), _moments(b)
    overlap = np.linalg.svd(root @ other_root.T, compute_uv=False).sum()
    spread = np.square(root).sum() + np.square(other_root).sum()
    return max(0.0, float(np.square(mean - other_mean).sum() + spread - 2 * overlap))


def _moments(features: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean (F,) and a root R of the unbiased covariance, of at most F rows."""
    x = np.asarray(features, dtype=np.float64)
    mean = x.mean(0)
    root = (x - mean) / np.sqrt(len(x) - 1)
    if len(root) > root.shape[1]:
        root = np.asarray(np.linalg.qr(root, mode="r"))
    return mean, root
