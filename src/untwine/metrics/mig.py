"""MIG: how much more the best latent knows of a factor than the second best."""

from __future__ import annotations

from typing import Annotated

from numpy.typing import ArrayLike

from untwine.estimators.arrays import check, top_two
from untwine.estimators.information import binned_information, entropy
from untwine.registry import metric
from untwine.schema import Range


@metric(
    title="Mutual information gap",
    paper="Chen et al., 2018",
    url="https://arxiv.org/abs/1802.04942",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "shift", "dead"),
)
def mig(
    codes: ArrayLike, factors: ArrayLike, *, bins: Annotated[int, Range(2, 10_000)] = 20
) -> float:
    """The mutual information gap (Chen et al., 2018), with histograms as in the 2019 study.

    MIG = 1/K Σ_k (I(z_(1); v_k) − I(z_(2); v_k)) / H(v_k)

    z_(1) and z_(2) are the two latents that know most of factor k.

    Codes (N, D) are cut into equal bins between their extremes; factors (N, K) are levels. With one
    latent the second best is 0; factors with a single level are left out. The paper itself has no
    bins: it integrates over the posterior, so its values are others.

    Blind spots: a perfect code reaches 1 only for factors with at most as many levels as bins: 0.85
    for 32 levels in 20 bins. The extremes set the bins, so a single outlier squeezes all others
    into a few. Two latents that share a factor score 0 however clean they are, and one latent that
    knows two factors loses nothing. Few rows look like information: about (bins − 1) (levels − 1) /
    2N nats between a factor and any latent.

    Args:
        bins: number of bins of each latent.

    >>> import numpy as np
    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> mig(factors.astype(float), factors)
    1.0
    """
    z, f = check(codes, factors)
    best, second = top_two(binned_information(z, f, bins))
    return float(((best - second) / entropy(f)).mean())
