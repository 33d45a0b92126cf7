"""What codes of a sample say: where they lie, what a selection has in common, what latents know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from untwine.data import Factors
from untwine.explore.answers import FactorDifference, LatentDifference

Codes = NDArray[np.floating]
Levels = NDArray[np.int64]
BINS = 20
NEIGHBOURS, STEPS = 30, 500  # of t-SNE; its usual 1000 steps hardly get further
SHUFFLES = 3
TOLD = 8  # differences
PLAIN = 0.02  # of the examples: below this a difference between shares is not told
SLIGHT = 0.2  # deviations: below this a difference between means is not told


def knowledge(codes: Codes, factors: Levels) -> NDArray[np.float64]:
    """(D, K) the share of each factor's entropy that each latent knows, beyond chance.

    (I − E) / (H − E) with the mutual information I of a latent in 20 bins and a factor, the
    factor's entropy H, and E what the same bins know of the factor when examples are shuffled: of a
    small sample that is far from 0.

    >>> levels = np.arange(400)[:, None] % 4
    >>> noise = np.random.default_rng(0).standard_normal((400, 1))
    >>> knowledge(np.concatenate([levels, noise], 1).astype(float), levels).round(1).tolist()
    [[1.0], [0.0]]
    """
    from untwine.metrics._information import discretise, entropy, mutual_information

    rng = np.random.default_rng(0)
    binned, whole = discretise(codes, BINS), entropy(factors)
    shuffled = [mutual_information(binned, rng.permutation(factors)) for _ in range(SHUFFLES)]
    chance = np.mean(shuffled, axis=0)
    left = whole - chance
    share = (mutual_information(binned, factors) - chance) / np.where(left > 1e-9, left, 1)
    return np.clip(np.where(left > 1e-9, share, 0), 0, 1)


def main_directions(codes: Codes) -> tuple[Codes, Codes]:
    """(N, P) codes along their main directions, and the share of the variance (P,) along each."""
    centred = codes.astype(np.float64) - codes.mean(0)
    left, size, right = np.linalg.svd(centred, full_matrices=False)
    sign = np.where(right[np.arange(len(right)), np.abs(right).argmax(1)] < 0, -1, 1)
    variance = size**2
    return left * size * sign, variance / (variance.sum() or 1)


def neighbourhoods(codes: Codes, nats: NDArray[np.floating], active: float) -> Codes:
    """(N, 2) codes by t-SNE, of the latents that say something; the same at every call.

    Latents that say nothing are left out, because all are given the same spread.
    """
    from sklearn.manifold import TSNE

    order = np.argsort(-nats, kind="stable")
    used = codes[:, order[: max(2, int((nats >= active).sum()))]].astype(np.float64)
    spread = used.std(0)
    scaled = (used - used.mean(0)) / np.where(spread > 0, spread, 1)
    if scaled.shape[1] == 1:
        scaled = np.concatenate([scaled, np.zeros_like(scaled)], 1)
    near = min(NEIGHBOURS, (len(scaled) - 1) / 3)
    return TSNE(perplexity=near, init="pca", max_iter=STEPS, random_state=0).fit_transform(scaled)


def factor_differences(factors: Factors, chosen: Levels, every: Levels) -> list[FactorDifference]:
    """The level of each factor that is most over-represented in a selection, most telling first."""
    found: list[FactorDifference] = []
    for k, name in enumerate(factors.names):
        size = factors.sizes[k]
        share = np.bincount(chosen[:, k], minlength=size) / len(chosen)
        overall = np.bincount(every[:, k], minlength=size) / len(every)
        level = int((share - overall).argmax())
        if share[level] - overall[level] > PLAIN:
            found.append(
                FactorDifference(
                    factor=name,
                    level=level,
                    share=float(share[level]),
                    overall=float(overall[level]),
                )
            )
    return sorted(found, key=lambda one: one.overall - one.share)[:TOLD]


def latent_differences(chosen: Codes, every: Codes) -> list[LatentDifference]:
    """The latents whose means are far from those of all, the farthest first."""
    mean, overall, spread = chosen.mean(0), every.mean(0), every.std(0)
    away = (mean - overall) / np.where(spread > 0, spread, 1)
    return [
        LatentDifference(
            number=int(d),
            mean=float(mean[d]),
            overall=float(overall[d]),
            deviations=float(away[d]),
        )
        for d in np.argsort(-np.abs(away), kind="stable")[:TOLD]
        if abs(away[d]) >= SLIGHT
    ]


def reach(samples: Sequence[Codes]) -> tuple[list[float], list[float]]:
    """Where sliders begin and end: all but the outermost of several samples (N, D), rounded.

    >>> rng = np.random.default_rng(0)
    >>> reach([rng.standard_normal((4000, 1))])
    ([-2.5], [2.5])
    """
    low = np.min([np.quantile(sample, 0.015, axis=0) for sample in samples], axis=0)
    high = np.max([np.quantile(sample, 0.985, axis=0) for sample in samples], axis=0)
    step = np.where(high - low > 2, 0.5, 0.05)
    low, high = np.floor(low / step) * step, np.ceil(high / step) * step
    same = high <= low
    low, high = np.where(same, low - 0.5, low), np.where(same, high + 0.5, high)
    return low.round(2).tolist(), high.round(2).tolist()
