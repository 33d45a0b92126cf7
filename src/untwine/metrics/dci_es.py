"""DCI-ES: DCI from forests, with explicitness and size."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError, ParameterError
from untwine.estimators.arrays import Codes, Levels, split
from untwine.metrics.dci import completeness, disentanglement
from untwine.registry import metric
from untwine.schema import Count, Natural, Range


@metric(
    title="DCI with explicitness and size",
    short_title="DCI-ES",
    paper="Eastwood et al., 2023",
    url="https://arxiv.org/abs/2210.00364",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("scale",),
)
def dci_es(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    *,
    depths: Annotated[tuple[int, ...], Range(1)] = (1, 2, 3, 4, 8, 16, 32),
    trees: Count = 20,
    seed: Natural = 0,
) -> dict[str, float]:
    """Disentanglement, completeness, informativeness, explicitness, size (Eastwood et al., 2023).

    E = mean_k 1 − 2 A_k / ((x_T − x_1) b_k),  A_k = ∫ (y_k(x) − min y_k) dx,  b_k = 1 − 1/n_k
    S = K / D

    Probes of growing capacity predict each factor from the codes; y_k(x) is the held-out
    error of the best probe of capacity up to x. The easier a factor is to decode, the sooner y_k
    reaches its minimum and the closer E is to 1; a straight fall from guessing to no error gives 0.
    Here probes are random forests and x is the depth of their trees. One deep forest is grown for
    each factor and cut at every depth, which leaves the forest that this depth would have grown;
    every split may use every latent, so that importance is not spread artificially. D and C (as in
    `dci`) and the accuracy I are those of the depth that predicts best on average; of the greatest
    depth where none is better than guessing, because the few splits of shallow trees are arbitrary.

    Codes are (N, D), factors (N, K) levels; without test rows, a third of the rows is
    held back. With the default of 20 trees 10,000 rows take seconds. A single depth has no curve
    and is refused.

    Blind spots: E is 1 for a useless code, because a probe that never learns is at its minimum from
    the start: read E next to I only. It can be negative. Depth is no fair measure of capacity for
    factors of many levels, which no shallow tree can tell apart even in perfect codes. The best
    depth is chosen on the rows that I is measured on. Deep trees split on noise, which lowers D and
    C where factors have many levels. S only counts latents, dead ones too.

    Args:
        depths: of the trees, the capacities of the curve.
        trees: number of trees in a forest.
        seed: of held-out rows and of forests.

    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> scores = dci_es(factors.astype(float), factors)
    >>> scores["size"], scores["explicitness"] > 0.8
    (1.0, True)
    """
    capacities = sorted(set(depths))
    if len(capacities) < 2:
        raise ParameterError(f"dci-es.depths must hold at least two depths, not {depths}")
    rows = split(codes, factors, test_codes, test_factors, seed)
    k, d = rows.factors.shape[1], rows.codes.shape[1]
    probes = [
        _probe(rows.codes, y, rows.test_codes, test_y, capacities, trees, seed)
        for y, test_y in zip(rows.factors.T, rows.test_factors.T, strict=True)
    ]
    losses = np.stack([probe.losses for probe in probes])  # (K, T)
    guesses = np.array([1 - 1 / len(np.unique(column)) for column in rows.factors.T])
    best = _best_capacity(losses.mean(0), float(guesses.mean()), rows.test_factors.size)
    importances = np.stack([probe.importances[best] for probe in probes], axis=1)  # (D, K)
    curves = zip(losses, guesses, strict=True)
    return {
        "disentanglement": disentanglement(importances),
        "completeness": completeness(importances),
        "informativeness": float(1 - losses[:, best].mean()),
        "explicitness": float(
            np.mean([curve_explicitness(capacities, y, base) for y, base in curves])
        ),
        "size": k / d,
    }


def curve_explicitness(capacities: ArrayLike, losses: ArrayLike, base: float) -> float:
    """How early a curve of losses over capacities (T,) is at its minimum, against a base loss.

    Losses are replaced by the least so far: a larger probe contains the smaller ones.

    >>> curve_explicitness([0, 1, 2], [1.0, 0.5, 0.0], 1.0), curve_explicitness([0, 1], [0, 0], 1.0)
    (0.0, 1.0)
    """
    x, y = np.asarray(capacities, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or (np.diff(x) <= 0).any() or base <= 0:
        raise DataError(
            "a curve needs at least two capacities that increase, a loss for each, and a base loss "
            f"above 0, not {x.tolist()}, {y.tolist()} and {base}"
        )
    y = np.minimum.accumulate(y)
    area = (np.diff(x) * (y[1:] + y[:-1] - 2 * y[-1])).sum() / 2
    return float(1 - 2 * area / ((x[-1] - x[0]) * base))


def _best_capacity(losses: NDArray[np.float64], guess: float, predictions: int) -> int:
    """The capacity of least loss; the last one if that is within three errors of guessing."""
    error = np.sqrt(guess * (1 - guess) / predictions)
    return int(losses.argmin()) if losses.min() < guess - 3 * error else len(losses) - 1


class Probe(NamedTuple):
    """A forest at every capacity."""

    losses: NDArray[np.float64]  # (T,) on test rows
    importances: NDArray[np.float64]  # (T, D)


def _probe(
    x: Codes,
    y: Levels,
    test_x: Codes,
    test_y: Levels,
    depths: list[int],
    trees: int,
    seed: int,
) -> Probe:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(trees, max_depth=depths[-1], random_state=seed)
    # The number of threads changes nothing: every tree has its own seed, and votes are summed here.
    forest.set_params(max_features=None, n_jobs=_threads())
    with warnings.catch_warnings():
        # many levels of few rows look like regression to scikit-learn
        warnings.simplefilter("ignore", UserWarning)
        forest.fit(x, y)
    votes = np.zeros((len(depths), len(test_x), len(forest.classes_)))
    importances = np.zeros((len(depths), x.shape[1]))
    cells = np.ascontiguousarray(test_x, dtype=np.float32)
    for tree in forest.estimators_:
        _add_cut_tree(tree.tree_, cells, depths, votes, importances)
    predicted = forest.classes_[votes.argmax(-1)]  # (T, M)
    total = importances.sum(1, keepdims=True)
    return Probe((predicted != test_y).mean(1), importances / np.where(total > 0, total, 1.0))


def _threads() -> int:
    """How many threads to compute with: those of torch, which workers limit, or all cores."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else os.cpu_count() or 1


def _add_cut_tree(
    tree: Any,
    x: NDArray[np.float32],
    depths: list[int],
    votes: NDArray[np.float64],
    importances: NDArray[np.float64],
) -> None:
    """Add a tree's votes (T, M, C) and importances (T, D), as if it ended at each depth."""
    parents, levels = _ancestry(tree)
    nodes = tree.apply(x)
    gains = _gains(tree)
    for t in reversed(range(len(depths))):
        while (deeper := levels[nodes] > depths[t]).any():
            nodes = np.where(deeper, parents[nodes], nodes)
        votes[t] += tree.value[nodes, 0]
        inner = (tree.children_left >= 0) & (levels < depths[t])
        np.add.at(importances[t], tree.feature[inner], gains[inner])


def _ancestry(tree: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The parent and the depth of every node of a tree."""
    parents = np.zeros(tree.node_count, dtype=np.int64)
    levels = np.zeros(tree.node_count, dtype=np.int64)
    nodes = np.array([0])
    for level in range(1, tree.max_depth + 1):
        nodes = nodes[tree.children_left[nodes] >= 0]
        children = np.concatenate([tree.children_left[nodes], tree.children_right[nodes]])
        parents[children], levels[children] = np.tile(nodes, 2), level
        nodes = children
    return parents, levels


def _gains(tree: Any) -> NDArray[np.float64]:
    """The decrease of weighted impurity at every node; 0 at leaves."""
    weighted = tree.weighted_n_node_samples * tree.impurity
    inner = tree.children_left >= 0
    left, right = tree.children_left[inner], tree.children_right[inner]
    gains = np.zeros(tree.node_count)
    gains[inner] = weighted[inner] - weighted[left] - weighted[right]
    return np.maximum(gains, 0.0) / tree.weighted_n_node_samples[0]
