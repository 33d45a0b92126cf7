"""Weights that change with the optimiser step."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Schedule = Callable[[Tensor], Tensor]
Weight = float | Schedule
"""The weight of a term: a number, or a function of the step (a scalar tensor)."""


def scale(weight: Weight, factor: float) -> Weight:
    """The weight times a factor.

    >>> scale(0.5, 16.0)
    8.0
    """
    return (lambda step: factor * weight(step)) if callable(weight) else factor * weight


def linear(start: float, end: float, steps: int) -> Schedule:
    """A schedule from `start` at step 0 to `end` at step `steps`, then constant.

    >>> import torch
    >>> linear(0.0, 25.0, 100_000)(torch.tensor(25_000)).item()
    6.25
    """
    return lambda step: start + (end - start) * (step / steps).clamp(max=1.0)
