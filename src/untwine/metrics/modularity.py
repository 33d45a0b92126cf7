"""Modularity: whether each latent knows of one factor only."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import Codes, Levels, check
from untwine.estimators.information import binned_information, discretise
from untwine.registry import metric
from untwine.schema import Range

MIN_DEVIATIONS = 6.0  # standard deviations above chance from which information counts


@metric(
    title="Modularity",
    paper="Ridgeway and Mozer, 2018",
    url="https://arxiv.org/abs/1802.05312",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "shift"),
    variants={"corrected": {"corrected": True}},
)
def modularity(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    bins: Annotated[int, Range(2, 10_000)] = 20,
    corrected: bool = False,
) -> float:
    """How close each latent is to knowing a single factor (Ridgeway and Mozer, 2018).

    modularity = 1/D Σ_i (1 − Σ_(k ≠ best) M_ik² / ((K − 1) max_k M_ik²)),  M_ik = I(z_i; v_k)

    Codes (N, D) are cut into equal bins between their extremes as for MIG; factors (N, K) are
    levels. Latents that know nothing count as 0; factors with a single level are left out, and a
    single factor is refused, because modularity compares factors.

    Blind spots: it says nothing of how much a latent knows. Pure noise scores high where factors
    differ in size, as information by chance grows with the number of levels: 0.68 for the factors
    of dSprites. `modularity[corrected]` subtracts that share and counts only what is significantly
    above it. Constant latents pull the mean down, so unused ones cost, while a factor that no
    latent knows costs nothing. The extremes of a latent set its bins, so outliers squeeze them.

    Args:
        bins: number of bins of each latent.
        corrected: subtract the information that independent latents would have by chance, and take
            what is left for 0 within six standard deviations.

    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> modularity(factors, factors), modularity(np.hstack([factors, 0 * factors]), factors)
    (1.0, 0.5)
    """
    z, f = check(codes, factors)
    if f.shape[1] == 1:
        raise DataError("modularity compares factors, but only one has more than one level")
    information = binned_information(z, f, bins)
    if corrected:
        information = _beyond_chance(information, z, f, bins)
    return float(_latent_modularity(information).mean())


def _latent_modularity(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D, K) information to the (D,) modularity of each latent."""
    squares = information**2
    best = squares.max(1)
    others = (squares.sum(1) - best) / (information.shape[1] - 1)
    return np.where(best > 0, 1 - others / np.where(best > 0, best, 1), 0)


def _beyond_chance(
    information: NDArray[np.float64], z: Codes, f: Levels, bins: int
) -> NDArray[np.float64]:
    """Information less what it is by chance: 2N times it is then χ² distributed."""
    used = [len(np.unique(discretise(column[:, None], bins))) for column in z.T]
    freedom = np.outer(np.array(used) - 1, f.max(0))
    beyond = information - freedom / (2 * len(z))
    return np.where(beyond > MIN_DEVIATIONS * np.sqrt(2 * freedom) / (2 * len(z)), beyond, 0)
