"""Codes of a sample: coordinates in two dimensions, differences of a selection, slider ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from untwine.data.dataset import Factors
from untwine.explore.answers import FactorDifference, LatentDifference

Codes = NDArray[np.floating]
Levels = NDArray[np.int64]
TSNE_PERPLEXITY = 30
TSNE_STEPS = 500  # the default of 1000 changes little
MAX_DIFFERENCES = 8
MIN_SHARE_DIFFERENCE = 0.02  # of the examples; smaller differences are left out
MIN_DEVIATIONS = 0.2  # standard deviations between means; smaller differences are left out


def principal_coordinates(codes: Codes) -> tuple[Codes, Codes]:
    """(N, P) codes along their main directions, and the share of the variance (P,) along each."""
    centred = codes.astype(np.float64) - codes.mean(0)
    left, size, right = np.linalg.svd(centred, full_matrices=False)
    sign = np.where(right[np.arange(len(right)), np.abs(right).argmax(1)] < 0, -1, 1)
    variance = size**2
    return left * size * sign, variance / (variance.sum() or 1)


def tsne_coordinates(codes: Codes, nats: NDArray[np.floating], active: float) -> Codes:
    """(N, 2) codes by t-SNE of the active latents; deterministic.

    Inactive latents are left out, because all latents are scaled to the same spread.
    """
    from sklearn.manifold import TSNE

    order = np.argsort(-nats, kind="stable")
    used = codes[:, order[: max(2, int((nats >= active).sum()))]].astype(np.float64)
    spread = used.std(0)
    scaled = (used - used.mean(0)) / np.where(spread > 0, spread, 1)
    if scaled.shape[1] == 1:
        scaled = np.concatenate([scaled, np.zeros_like(scaled)], 1)
    near = min(TSNE_PERPLEXITY, (len(scaled) - 1) / 3)
    return TSNE(perplexity=near, init="pca", max_iter=TSNE_STEPS, random_state=0).fit_transform(
        scaled
    )


def factor_differences(factors: Factors, chosen: Levels, every: Levels) -> list[FactorDifference]:
    """The most over-represented level of each factor in a selection, largest difference first."""
    differences: list[FactorDifference] = []
    for k, name in enumerate(factors.names):
        size = factors.sizes[k]
        share = np.bincount(chosen[:, k], minlength=size) / len(chosen)
        overall = np.bincount(every[:, k], minlength=size) / len(every)
        level = int((share - overall).argmax())
        if share[level] - overall[level] > MIN_SHARE_DIFFERENCE:
            differences.append(
                FactorDifference(
                    factor=name,
                    level=level,
                    level_name=factors.level_name(k, level),
                    share=float(share[level]),
                    overall=float(overall[level]),
                )
            )
    return sorted(differences, key=lambda one: one.overall - one.share)[:MAX_DIFFERENCES]


def latent_differences(chosen: Codes, every: Codes) -> list[LatentDifference]:
    """Latents whose mean in a selection differs from that of all, largest difference first."""
    return [
        LatentDifference(number=d, mean=mean, overall=overall, deviations=deviations)
        for d, mean, overall, deviations in mean_differences(chosen, every)
    ]


def mean_differences(chosen: Codes, every: Codes) -> Iterator[tuple[int, float, float, float]]:
    """Columns (N, D) whose mean in a selection differs: number, mean, overall mean, deviations."""
    mean, overall, spread = chosen.mean(0), every.mean(0), every.std(0)
    deviations = (mean - overall) / np.where(spread > 0, spread, 1)
    for d in np.argsort(-np.abs(deviations), kind="stable")[:MAX_DIFFERENCES]:
        if abs(deviations[d]) >= MIN_DEVIATIONS:
            yield int(d), float(mean[d]), float(overall[d]), float(deviations[d])


def slider_range(
    ranges: Sequence[tuple[Sequence[float] | Codes, Sequence[float] | Codes]],
) -> tuple[list[float], list[float]]:
    """The low and high ends of sliders (D,) that hold several ranges (D,), rounded.

    >>> slider_range([([-2.1], [2.2]), ([-1.0], [2.3])])
    ([-2.5], [2.5])
    """
    low = np.min([np.asarray(low) for low, _ in ranges], axis=0)
    high = np.max([np.asarray(high) for _, high in ranges], axis=0)
    step = np.where(high - low > 2, 0.5, 0.05)
    low, high = np.floor(low / step) * step, np.ceil(high / step) * step
    same = high <= low
    low, high = np.where(same, low - 0.5, low), np.where(same, high + 0.5, high)
    return low.round(2).tolist(), high.round(2).tolist()
