"""Geometry of codes."""

from __future__ import annotations

import torch
from torch import Tensor


def to_sphere(y: Tensor, epsilon: float) -> Tensor:
    """y/(‖y‖₂ + ε) over the last axis: almost the unit sphere, continuous at the origin.

    The gradient at 0 is the identity divided by ε.

    >>> to_sphere(torch.tensor([3.0, 4.0]), 1e-7)
    tensor([0.6000, 0.8000])
    """
    return y / (torch.linalg.vector_norm(y, dim=-1, keepdim=True) + epsilon)
