"""How large the clusters are that a clustered mapping has learned."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.errors import IncompatibleError
from untwine.measures import measure
from untwine.models.intel_clusters import Clusters
from untwine.runs import Finished

Counts = NDArray[np.int64]  # (clusters, levels)


def joint(planes: list[Tensor]) -> NDArray[np.float64]:
    """(ΠK,) the share of each cluster from those of each plane, the last plane fastest.

    >>> joint([torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])]).tolist()
    [0.125, 0.375, 0.125, 0.375]
    """
    total = torch.ones(1, dtype=torch.float64)
    for shares in planes:
        total = torch.outer(total, shares.double()).ravel()
    return total.numpy()


def cluster_of(counts: Counts, level: int) -> int:
    """The cluster that stands for a level, where each has one and they agree with most examples.

    A level without examples takes the cluster that the others leave.

    >>> cluster_of(np.array([[0, 9], [0, 1]]), 0)
    1
    """
    from scipy.optimize import linear_sum_assignment

    clusters, levels = linear_sum_assignment(counts, maximize=True)
    return int(clusters[levels == level][0])


@torch.no_grad()
def tally(finished: Finished, factor: int, n: int, seed: int) -> Counts:
    """(clusters, levels) how many of n examples fall in each cluster and have each level."""
    data, model = finished.data, finished.model
    if data.factors is None or not isinstance(model.mapping, Clusters):
        raise IncompatibleError("proportions need a clustered mapping and data with factors")
    size, clusters = data.factors.sizes[factor], math.prod(model.mapping.clusters)
    if size != clusters:
        raise IncompatibleError(f"{clusters} clusters cannot each be one of {size} levels")
    index = data.draw(n, np.random.default_rng(seed))
    counts = np.zeros((clusters, size), np.int64)
    np.add.at(
        counts, (model.assign(data.take(index)).numpy(), data.factors.of(index)[:, factor]), 1
    )
    return counts


@measure
def proportions(
    finished: Finished, *, level: int = 0, factor: int = 0, examples: int = 5_000, seed: int = 0
) -> dict[str, float]:
    """The share of the prior that a clustered mapping gives to a level, beside the true one.

    `learned` is read from the mapping, `true` from all examples; `error` is the distance between
    them and `start_error` that of the equal shares with which training begins; `agreement` is the
    share of examples that lie in the cluster of their own level.
    """
    counts = tally(finished, factor, examples, seed)
    mapping, factors = finished.model.mapping, finished.data.factors
    assert isinstance(mapping, Clusters) and factors is not None
    learned = float(joint(mapping.proportions())[cluster_of(counts, level)])
    everything = factors.of(np.arange(len(finished.data)))[:, factor]
    true = float((everything == level).mean())
    agreed = sum(counts[cluster_of(counts, k), k] for k in range(counts.shape[1]))
    return {
        "learned": learned,
        "true": true,
        "error": abs(learned - true),
        "start_error": abs(1 / len(counts) - true),
        "agreement": float(agreed / counts.sum()),
    }
