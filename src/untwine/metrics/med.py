"""MED: disentanglement from mutual information instead of a predictor's importances."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.estimators.arrays import Split, check, split
from untwine.estimators.information import binned_information
from untwine.metrics.dci import completeness, disentanglement
from untwine.registry import metric
from untwine.schema import Count, Natural, Range

Shares = NDArray[np.float64]  # (D, K)


@metric(
    title="Mutual information based entropy disentanglement",
    paper="Cao et al., 2022",
    url="https://arxiv.org/abs/2206.04756",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "shift"),
    variants={"informativeness": {"informativeness": True}},
)
def med(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    *,
    bins: Annotated[int, Range(2, 10_000)] = 20,
    top: Count = 1,
    informativeness: bool = False,
    seed: Natural = 0,
) -> dict[str, float]:
    """DCI's disentanglement of shares of mutual information (Cao et al., 2022).

    R_ik = I(z_i; v_k) / Σ_j I(z_j; v_k),  P_i = R_i / Σ_k R_ik
    disentanglement = Σ_i ρ_i (1 − H(P_i) / ln K),  ρ_i = Σ_k R_ik / Σ R

    Completeness is the same of the columns of R, with ln D. Codes (N, D) are cut into equal bins
    between their extremes as for MIG; factors (N, K) are levels, and those with a single one are
    left out. With one factor disentanglement is 0 and with one latent completeness, as in DCI.

    For wide codes the values under "top" count only the latents that are needed: by falling
    disentanglement, at most `top` that know most of the same factor.

    Blind spots: information by chance enters R, (bins − 1) (levels − 1) / 2N nats of it, so noise
    looks like latents for the largest factor and wide codes sink; that is what "top" is for. How
    much the code knows of a factor does not matter, as each column of R sums to 1. Dead latents
    raise the base of completeness. Outliers squeeze the bins.

    Args:
        bins: number of bins of each latent.
        top: number of latents for each factor, for the values under "top".
        informativeness: add the accuracy of logistic regression on the test rows.
        seed: chooses the rows held out where no test rows are given.

    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> codes = np.hstack([factors, factors])
    >>> [round(value, 4) for value in med(codes, factors).values()]  # 0.6131 = 1 − ln 2 / ln 6
    [1.0, 0.6131, 1.0, 1.0]
    """
    z, f = check(codes, factors)
    shares = _shares(binned_information(z, f, bins))
    chosen = shares[_top_latents(shares, top)]
    scores = {
        "disentanglement": disentanglement(shares),
        "completeness": completeness(shares),
        "top_disentanglement": disentanglement(chosen),
        "top_completeness": completeness(chosen),
    }
    if not informativeness:
        return scores
    return scores | _informativeness(split(codes, factors, test_codes, test_factors, seed))


def _shares(information: Shares) -> Shares:
    """(D, K) of what all latents know of a factor, the share of each; 0 if none knows anything."""
    total = information.sum(0)
    return information / np.where(total > 0, total, 1)


def _top_latents(shares: Shares, count: int) -> NDArray[np.intp]:
    """The most disentangled latents, at most `count` that know most of the same factor."""
    order = np.argsort([-disentanglement(latent[None]) for latent in shares], kind="stable")
    best = shares.argmax(1)[order]
    return np.concatenate([order[best == k][:count] for k in range(shares.shape[1])])


def _informativeness(rows: Split) -> dict[str, float]:
    from untwine.estimators.linear import fit_each_logistic, logistic_inputs

    x, test_x = logistic_inputs(rows)
    models = fit_each_logistic(x, rows.factors, "multinomial")
    pairs = list(zip(models, rows.factors.T, rows.test_factors.T, strict=True))
    return {
        "informativeness": float(np.mean([(m.predict(test_x) == y).mean() for m, _, y in pairs])),
        "informativeness_train": float(np.mean([(m.predict(x) == y).mean() for m, y, _ in pairs])),
    }
