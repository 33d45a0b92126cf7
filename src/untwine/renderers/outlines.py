"""Outlines in the plane, and whether points lie inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SIZE = 2.0
Points = NDArray[np.floating[Any]]
Shape = Literal["circle", "square", "star", "infinity"]


def corners(n: int, *, start: float, inner: float = 1.0) -> Points:
    """(n, 2) corners at equal angles; every second one at the share `inner` of the radius."""
    angle = start + 2 * np.pi * np.arange(n) / n
    radius = SIZE * np.where(np.arange(n) % 2, inner, 1.0)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)


SQUARE = corners(4, start=np.pi / 4)  # its sides are level
STAR = corners(10, start=np.pi / 2, inner=1 / 3)  # one of its five points is up


def on_circle(t: Points) -> Points:
    """(N,) shares of the way round to (N, 2) points on the circle."""
    return SIZE * np.stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], -1)


def on_polygon(t: Points, outline: Points) -> Points:
    """(N,) shares of the way round to (N, 2) points on the sides, as dense on each of them.

    >>> on_polygon(np.array([0.125, 0.25]), SQUARE).round(3).tolist()
    [[0.0, 1.414], [-1.414, 1.414]]
    """
    closed = np.concatenate([outline, outline[:1]])
    way = np.linalg.norm(np.diff(closed, axis=0), axis=-1).cumsum()
    passed = np.concatenate([[0.0], way / way[-1]])
    return np.stack([np.interp(t, passed, axis) for axis in closed.T], -1)


def on_infinity(t: Points) -> Points:
    """(N,) shares of the parameter r to (N, 2) points 2(cos r, sin r cos r)."""
    cos, sin = np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)
    return SIZE * np.stack([cos, sin * cos], -1)


def centres(n: int, radius: float = SIZE) -> Points:
    """(n, 2) places at equal angles on a circle, the first on the positive first axis."""
    angle = 2 * np.pi * np.arange(n) / n
    return radius * np.stack([np.cos(angle), np.sin(angle)], -1)


def in_circle(x: Points) -> NDArray[np.bool_]:
    return np.linalg.norm(x, axis=-1) < SIZE


def in_polygon(x: Points, outline: Points) -> NDArray[np.bool_]:
    """(N, 2) points to whether a ray to their right crosses the outline an odd number of times."""
    a, b = outline, np.roll(outline, -1, 0)
    px, py = x[:, :1], x[:, 1:]
    straddles = (a[:, 1] > py) != (b[:, 1] > py)  # (N, V)
    rise = np.where(a[:, 1] == b[:, 1], 1.0, b[:, 1] - a[:, 1])  # level sides are never straddled
    crossing = a[:, 0] + (py - a[:, 1]) * (b[:, 0] - a[:, 0]) / rise
    return (straddles & (px < crossing)).sum(-1) % 2 == 1


def in_loop(x: Points) -> NDArray[np.bool_]:
    """Whether points lie in the right loop of infinity, y² < x²(1 − x²/4)."""
    square = x[:, 0] ** 2
    return (x[:, 0] > 0) & (x[:, 1] ** 2 < square * (1 - square / SIZE**2))


INSIDE: dict[str, Callable[[Points], NDArray[np.bool_]]] = {
    "circle": in_circle,
    "square": lambda x: in_polygon(x, SQUARE),
    "star": lambda x: in_polygon(x, STAR),
    "infinity": in_loop,
}
