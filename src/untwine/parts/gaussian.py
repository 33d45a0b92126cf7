"""The diagonal Gaussian."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian with diagonal covariance over the last axis; `logvar` is log σ².

    >>> q = Gaussian(torch.tensor([1.0, 0.0]), torch.tensor([0.0, math.log(4.0)]))
    >>> round(q.kl().item(), 6)
    1.306853
    """

    mean: Tensor  # (..., D)
    logvar: Tensor  # (..., D)

    @property
    def std(self) -> Tensor:
        return (self.logvar / 2).exp()

    @property
    def variance(self) -> Tensor:
        return self.logvar.exp()

    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        """Reparameterised draws, (*shape, ..., D)."""
        noise = torch.randn(
            *shape, *self.mean.shape, dtype=self.mean.dtype, device=self.mean.device
        )
        return self.mean + self.std * noise

    def log_prob_per_dim(self, z: Tensor) -> Tensor:
        """log N(z_d; μ_d, σ²_d) for every dimension, (..., D)."""
        # Scaled before it is squared: exp(−ℓ/2) overflows at twice the ℓ of exp(−ℓ).
        scaled = (z - self.mean) * (-self.logvar / 2).exp()
        return -(LOG_2PI + self.logvar + scaled.square()) / 2

    def log_prob(self, z: Tensor) -> Tensor:
        return self.log_prob_per_dim(z).sum(-1)

    def kl_per_dim(self, other: Gaussian | None = None) -> Tensor:
        """KL(self ‖ other) for every dimension, (..., D); `None` is the standard normal."""
        if other is None:
            return (self.mean.square() + self.logvar.exp() - 1 - self.logvar) / 2
        gap = self.logvar - other.logvar
        distance = (self.mean - other.mean) * (-other.logvar / 2).exp()
        return (gap.exp() + distance.square() - 1 - gap) / 2

    def kl(self, other: Gaussian | None = None) -> Tensor:
        """KL(self ‖ other) = ½ Σ_d [log(v₂/v₁) + (v₁ + (m₁−m₂)²)/v₂ − 1], (...)."""
        return self.kl_per_dim(other).sum(-1)
