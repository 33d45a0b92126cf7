"""Mutual information between latents."""

from __future__ import annotations

from typing import Annotated

from numpy.typing import ArrayLike

from untwine.estimators.arrays import check_codes
from untwine.estimators.information import discretise, mutual_information
from untwine.registry import metric
from untwine.schema import Range


@metric(
    title="Mutual information between latents",
    paper="Locatello et al., 2019",
    url="https://arxiv.org/abs/1811.12359",
    higher_is_better=False,
    range=(0.0, None),
    unchanged_by=("permutation", "sign", "scale", "shift"),
)
def latent_information(codes: ArrayLike, *, bins: Annotated[int, Range(2, 10_000)] = 20) -> float:
    """The mean mutual information of two latents in nats, as in Locatello et al., 2019.

    score = 1/(D (D−1)) Σ_{i≠j} I(z_i; z_j)

    Codes (N, D) are cut into equal bins between the extremes of each latent. One latent scores 0,
    and constant latents count as pairs without information.

    Blind spots: the plug-in estimate is biased upwards by about (bins − 1)² / (2N), which is 0.018
    nats for 20 bins and 10 000 rows: compare only scores of equally many rows. Outliers squeeze
    the bins and hide dependence, dead latents dilute it, and only pairs are looked at.

    Args:
        bins: number of bins of each latent.

    >>> import numpy as np
    >>> z = np.array([0.0, 0.0, 1.0, 1.0])
    >>> round(latent_information(np.stack([z, z], 1)), 6)  # ln 2
    0.693147
    """
    levels = discretise(check_codes(codes), bins)
    d = levels.shape[1]
    if d == 1:
        return 0.0
    information = mutual_information(levels, levels)
    return float((information.sum() - information.trace()) / (d * (d - 1)))
