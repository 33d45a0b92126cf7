"""FactorVAE score: does the latent that varies least tell which factor was held fixed?"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.estimators.arrays import Codes
from untwine.estimators.sampling import Draws, Encoder, Sampler, fixed_factors, make_sampler
from untwine.registry import metric
from untwine.schema import Count, Natural, NonNegative, Range


@metric(
    title="FactorVAE score",
    paper="Kim and Mnih, 2018",
    url="https://arxiv.org/abs/1802.05983",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "shift", "dead"),
    variants={"2018": {"batch": 200, "votes": 800}, "fresh": {"draws": "fresh"}},
)
def factor_vae_score(
    codes: ArrayLike | Encoder,
    factors: ArrayLike,
    *,
    batch: Annotated[int, Range(2)] = 64,
    votes: Count = 10_000,
    test_votes: Count = 5_000,
    prune: NonNegative = 0.05,
    draws: Draws = "rows",
    seed: Natural = 0,
) -> dict[str, float]:
    """How well the steadiest latent tells which factor is fixed (Kim and Mnih, 2018).

    vote (y, d):  d = argmin_i Var_batch(z_i) / Var(z_i),   V[y, d] = number of such votes
    score = share of fresh votes with y = argmax_k V[k, d]

    One vote: a factor y is drawn, then a batch of examples with one level of factor y. Only active
    latents take part: those that change at all, by a standard deviation of at least `prune`.

    Codes (N, D) and factors (N, K): batches are rows of one level, drawn with replacement, and
    Var(z_i) is that of all rows. With `draws="fresh"`, `codes` is a function from levels (n, K) to
    codes (n, D) and `factors` the sizes (K,) of independent uniform factors: the protocol of the
    2019 study. Refuses fewer than two factors that change. Returns the accuracy on fresh votes, on
    the votes that were counted (which the paper reports), and the number of active latents; all
    are 0 when no latent is active. Chance is about 1/K.

    Blind spots: a factor that is not encoded costs exactly 1/K, unless a noisy latent escapes
    `prune` and takes its votes. `prune` is absolute: perfect codes of standard deviation 0.01
    score 0. Duplicated latents cost nothing. Where a level has few rows, batches repeat them and
    vary less than fresh ones would, and with many latents even noise is classified: give thousands
    of rows, or fresh draws.

    Args:
        batch: examples per vote.
        votes: votes that train the classifier.
        test_votes: votes that test it.
        prune: least standard deviation of an active latent.
        draws: "rows" batches existing rows, "fresh" encodes new examples with a function.
        seed: of the draws.

    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> factor_vae_score(factors.astype(float), factors, votes=500, test_votes=500)
    {'factor_vae_score': 1.0, 'train_accuracy': 1.0, 'active': 3.0}
    """
    source, rng = make_sampler(codes, factors, draws), np.random.default_rng(seed)
    variance = _variances(source.observations(rng))
    active = np.flatnonzero((variance > 0) & (np.sqrt(variance) >= prune))
    if not len(active):
        return {"factor_vae_score": 0.0, "train_accuracy": 0.0, "active": 0.0}
    weight = 1 / variance[active]
    train_counts = _votes(source, votes, batch, active, weight, rng)  # (K, A)
    test_counts = _votes(source, test_votes, batch, active, weight, rng)
    guess = train_counts.argmax(0)
    return {
        "factor_vae_score": float(test_counts[guess, np.arange(len(active))].sum() / test_votes),
        "train_accuracy": float(train_counts.max(0).sum() / votes),
        "active": float(len(active)),
    }


def _variances(z: Codes) -> NDArray[np.float64]:
    """(N, D) codes to (D,) unbiased variances; exactly 0 for constant latents."""
    return np.array(
        [c.var(ddof=1, dtype=np.float64) if (c != c[0]).any() else 0.0 for c in z.T],
        dtype=np.float64,
    )


def _votes(
    source: Sampler,
    votes: int,
    batch: int,
    active: NDArray[np.intp],
    weight: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """(K, A) how often each active latent varied least while each factor was fixed."""
    counts = np.zeros(source.factors * len(active), dtype=np.int64)
    for y in fixed_factors(source, votes, batch, rng):
        z = source.sharing(y, batch, rng)[..., active].astype(np.float64)  # (V, batch, A)
        z -= z.mean(1, keepdims=True)
        least = (np.einsum("vbd,vbd->vd", z, z) * weight).argmin(1)
        counts += np.bincount(y * len(active) + least, minlength=len(counts))
    return counts.reshape(source.factors, -1)
