"""Points in the plane with holes and gaps: what a Gaussian prior finds hard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from untwine.data.arrays import from_arrays
from untwine.data.dataset import Dataset, Factors
from untwine.errors import ParameterError
from untwine.registry import dataset
from untwine.renderers.outlines import (
    SIZE,
    SQUARE,
    STAR,
    Points,
    centres,
    on_circle,
    on_infinity,
    on_polygon,
)
from untwine.schema import Count, Natural, NonNegative, Positive, Range

MIAO = {
    "paper": "Miao et al., 2022",
    "url": "https://arxiv.org/abs/2106.13746",
    "licence": "Apache-2.0 (drawn here)",
    "citation": "Miao, Mathieu, Siddharth, Teh, Rainforth: On Incorporating Inductive Biases into "
    "VAEs. International Conference on Learning Representations, 2022",
}


def _sample_outline(outline: Callable[[Points], Points], count: int, seed: int) -> Dataset:
    """Points at random places of an outline."""
    return from_arrays(outline(np.random.default_rng(seed).random(count)))


def _assign(weights: tuple[int, ...], count: int) -> NDArray[np.int64]:
    """(count,) indices in the proportions of the weights, exact to one."""
    ends = np.cumsum(weights) / sum(weights)
    return np.searchsorted(np.round(ends * count), np.arange(count), side="right")


def _with_factor(points: Points, name: str, levels: NDArray[np.int64], size: int) -> Dataset:
    """Points with one factor."""
    table = levels[:, None].astype(np.min_scalar_type(size))
    return replace(from_arrays(points), factors=Factors((name,), (size,), table, unordered=(name,)))


@dataset(title="Circle", **MIAO)
def circle(*, count: Count = 10_000, seed: Natural = 0) -> Dataset:
    """Points on a circle of radius 2, evenly spread and without noise (Miao et al., 2022).

    The distribution has one hole. The paper draws new points in every batch; these are drawn once.

    Args:
        count: number of points.
        seed: of their places.
    """
    return _sample_outline(on_circle, count, seed)


@dataset(title="Square", **MIAO)
def square(*, count: Count = 10_000, seed: Natural = 0) -> Dataset:
    """Points on the sides of a square whose corners lie at radius 2 (Miao et al., 2022).

    One hole, with corners.

    Args:
        count: number of points.
        seed: of their places.
    """
    return _sample_outline(lambda t: on_polygon(t, SQUARE), count, seed)


@dataset(title="Star", **MIAO)
def star(*, count: Count = 10_000, seed: Natural = 0) -> Dataset:
    """Points on the outline of a star with five points (Miao et al., 2022).

    The outer corners lie at radius 2 and the inner ones at a third of it: one hole, far from
    convex.

    Args:
        count: number of points.
        seed: of their places.
    """
    return _sample_outline(lambda t: on_polygon(t, STAR), count, seed)


@dataset(title="Infinity", **MIAO)
def infinity(*, count: Count = 10_000, seed: Natural = 0) -> Dataset:
    """Points on the infinity sign 2(cos r, sin r cos r), r uniform (Miao et al., 2022).

    Two holes that meet in the origin.

    Args:
        count: number of points.
        seed: of their places.
    """
    return _sample_outline(on_infinity, count, seed)


@dataset(title="Clusters", **MIAO)
def clusters(
    *,
    proportions: Annotated[tuple[int, ...], Range(0)] = (1, 1),
    spread: NonNegative = 0.3,
    radius: Positive = SIZE,
    count: Count = 10_000,
    seed: Natural = 0,
) -> Dataset:
    """A mixture of round Gaussians at equal angles on a circle (Miao et al., 2022).

    By default the paper's two at (2, 0) and (−2, 0). The one factor is the cluster.

    Args:
        proportions: a weight for each cluster, from the first axis counter-clockwise; `1,1,1` are
            three alike, and `2,3` have 40 % and 60 % of the points.
        spread: standard deviation of each.
        radius: distance of the clusters from the origin.
        count: number of points.
        seed: of their places.
    """
    if not sum(proportions):
        raise ParameterError("clusters.proportions must name at least one weight above 0")
    cluster = _assign(proportions, count)
    noise = np.random.default_rng(seed).standard_normal((count, 2))
    points = centres(len(proportions), radius)[cluster] + spread * noise
    return _with_factor(points, "cluster", cluster, len(proportions))


@dataset(title="Cross", **MIAO)
def cross(*, spread: NonNegative = 0.05, count: Count = 10_000, seed: Natural = 0) -> Dataset:
    """Sparse data in two dimensions: each point has one coordinate that counts (Miao et al., 2022).

    That coordinate is a standard normal, for one half of the points the first and for the other
    the second. The paper shows such data in figure 3 and does not say how it is drawn. The one
    factor is the axis.

    Args:
        spread: standard deviation of the coordinate that does not count.
        count: number of points.
        seed: of their places.
    """
    axis = _assign((1, 1), count)
    noise = np.random.default_rng(seed).standard_normal((count, 2))
    points = noise * np.where(axis[:, None] == np.arange(2), 1.0, spread)
    return _with_factor(points, "axis", axis, 2)
