"""IRS: how little a latent moves while all factors but its own are changed."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.estimators.arrays import Codes, check
from untwine.estimators.information import discretise
from untwine.registry import metric
from untwine.schema import Range, Share


@metric(
    title="Interventional robustness score",
    paper="Suter et al., 2019",
    url="https://arxiv.org/abs/1811.00007",
    higher_is_better=True,
    range=(-1.0, 1.0),
    unchanged_by=("permutation", "sign", "shift", "dead"),
    variants={"binned": {"bins": 20}, "maximum": {"quantile": 1.0}},
)
def irs(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    quantile: Share = 0.99,
    bins: Annotated[int, Range(0, 10_000)] = 0,
) -> float:
    """How robust each latent is to changes of all factors but one (Suter et al., 2019).

    R_ik = 1 − mean_u Q_{f_k=u} |z_i − mean_{f_k=u} z_i| / m_i,   m_i = max |z_i − mean z_i|
    IRS = Σ_i m_i max_k R_ik / Σ_i m_i

    Q is a quantile over the rows with level u of factor k; the mean over levels is unweighted.

    Codes (N, D), factors (N, K) levels. Constant latents and factors with a single level are left
    out; without a latent that changes the score is 0. The paper takes the maximum (quantile 1);
    the reference implementation takes the 0.99 quantile and merges factors into 20 bins, which is
    `irs[binned]`.

    Blind spots: with a quantile below 1 a latent of pure noise scores about 0.35 and not 0. Wide
    latents dominate, because of the weights m_i. A level with few rows looks robust, and one with
    a single row perfectly so: compare only scores of equally many rows. Several latents that hold
    the same factor cost nothing. Negative scores are possible, where outliers are wider within
    levels than from the overall mean.

    Args:
        quantile: of the distances within a level.
        bins: equal bins to which factors are reduced first; 0 keeps their levels.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> irs(factors, factors), irs(factors.sum(1, keepdims=True), factors)
    (1.0, 0.5)
    """
    z, f = check(codes, factors)
    z = z[:, (z != z[0]).any(0)]
    if not z.shape[1]:
        return 0.0
    levels = discretise(f.astype(np.float64), bins) if bins else f
    furthest = np.array([_distance(latent).max() for latent in z.T])
    return float(furthest @ _robustness(z, levels, quantile, furthest).max(1) / furthest.sum())


def _robustness(
    z: Codes, f: NDArray[np.integer], quantile: float, furthest: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(N, D) codes and (N, K) levels to the (D, K) R_ik."""
    within = [_within(z, column, quantile) for column in f.T]
    return 1 - np.stack(within, axis=1) / furthest[:, None]


def _within(z: Codes, column: NDArray[np.integer], quantile: float) -> NDArray[np.float64]:
    """(D,) quantiles of the distances from the mean within a level, averaged over levels."""
    order = np.argsort(column.astype(np.min_scalar_type(column.max())), kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(column))[:-1])
    distances = ((_distance(latent[rows]) for latent in z.T) for rows in groups if len(rows))
    return np.mean([[_quantile(d, quantile) for d in group] for group in distances], axis=0)


def _distance(latent: NDArray[np.floating]) -> NDArray[np.float64]:
    """(n,) distances from the mean, in double precision because offsets can be large."""
    latent = latent.astype(np.float64)
    return np.abs(latent - latent.mean())


def _quantile(values: NDArray[np.float64], quantile: float) -> float:
    """The quantile of some numbers, linear between neighbours."""
    place = quantile * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    parts = np.partition(values, (low, high))
    return float(parts[low] + (place - low) * (parts[high] - parts[low]))
