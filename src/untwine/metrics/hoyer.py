"""Hoyer sparsity of sampled codes, with each latent brought to one scale."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import Codes, check_codes
from untwine.registry import metric

BLOCK_ROWS = 2**18  # processed at a time


@metric(
    title="Hoyer sparsity",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "dead"),
    variants={"raw": {"normalise": False}, "means": {"means": True}},
)
def hoyer(
    sampled_codes: ArrayLike,
    codes: ArrayLike | None = None,
    *,
    normalise: bool = True,
    means: bool = False,
) -> dict[str, float]:
    """How sparse codes are, after scaling each latent to one spread (Miao et al., 2022, eq. C.3).

    Hoyer(z) = (√D − |ẑ|₁ / |ẑ|₂) / (√D − 1),   ẑ_d = z_d / std_d,   score = mean over rows

    1 for rows with one non-zero latent, 0 for rows of equal sizes. Codes of a standard normal prior
    reach 0.27 with 10 latents, 0.22 with 100, and more with fewer. So the second value is the
    excess over the exact expectation of N(0, I_D): how much sparser the codes are than that.

    `sampled_codes` (N, D) are drawn from the posterior; `hoyer[means]` takes `codes`, the posterior
    means, instead. The two differ where a latent is not used: its samples follow the prior, which
    for a model with gates, such as vsc, is sparse by itself. Constant latents are left out and do
    not count in D, since counting them would reward dead latents; rows of zeros are skipped.
    Latents are not centred. Refuses fewer than two latents that change, and codes that are all
    zero.

    Blind spots: it does not see which latents are used for what, and sparse codes need not be
    disentangled. A latent that is far from 0 everywhere counts as always on. Without scaling,
    unequal scales alone look sparse: 0.90 for ten latents of which nine are a hundredth as wide.

    Args:
        normalise: bring each latent to a standard deviation of 1 first, and leave constant ones
            out.
        means: of posterior means instead of samples.

    >>> scores = hoyer(np.eye(4))
    >>> round(scores["hoyer"], 6), round(scores["excess"], 6)
    (1.0, 0.697653)
    """
    if means and codes is None:
        raise DataError("sparsity of posterior means needs them; give them as codes")
    z = check_codes(codes if means and codes is not None else sampled_codes)
    scale = np.array([_spread(latent) for latent in z.T]) if normalise else np.ones(z.shape[1])
    changing = np.flatnonzero(scale)
    if len(changing) < 2:
        raise DataError(f"sparsity needs at least 2 latents that change, not {len(changing)}")
    parts = (
        z[first : first + BLOCK_ROWS, changing] / scale[changing]
        for first in range(0, len(z), BLOCK_ROWS)
    )
    ratios = np.concatenate([_ratios(part) for part in parts])  # (N,)
    if not len(ratios):
        raise DataError("all codes are 0, so sparsity is undefined")
    value = _sparsity(float(ratios.mean()), len(changing))
    return {
        "hoyer": value,
        "excess": value - _sparsity(_normal_ratio(len(changing)), len(changing)),
    }


def _spread(latent: NDArray[np.floating]) -> float:
    """The standard deviation; exactly 0 when the latent is constant."""
    return float((latent.astype(np.float64) - latent[0]).std())


def _ratios(z: Codes) -> NDArray[np.float64]:
    """(n, D) codes to |z|₁ / |z|₂ of the rows that are not zero."""
    size = np.abs(z.astype(np.float64))
    size = size[size.any(1)]
    size /= size.max(1, keepdims=True)  # squares of tiny codes would vanish
    return size.sum(1) / np.sqrt(np.square(size).sum(1))


def _sparsity(ratio: float, d: int) -> float:
    return min(1.0, max(0.0, (math.sqrt(d) - ratio) / (math.sqrt(d) - 1)))  # against rounding


def _normal_ratio(d: int) -> float:
    """E |z|₁ / |z|₂ for z ~ N(0, I_d): d Γ(d/2) / (√π Γ((d+1)/2))."""
    return d * math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)
