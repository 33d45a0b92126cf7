"""Gaussians and mixtures of them, and their divergences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
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
        """Draw (*shape, ..., D) reparameterised samples."""
        noise = torch.randn(
            *shape, *self.mean.shape, dtype=self.mean.dtype, device=self.mean.device
        )
        return self.mean + self.std * noise

    def log_prob_per_dim(self, z: Tensor) -> Tensor:
        """log N(z_d; μ_d, σ²_d) of every dimension, (..., D)."""
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


KLMode = Literal["analytic", "mc"]
"""How to compute the KL to a mixture whose weights depend on the sample."""


@dataclass(frozen=True)
class Mixture:
    """Σ_k w_k N(z; m_k, diag v_k), a `Density`.

    >>> means = torch.tensor([[1.0], [-1.0]]).double()
    >>> two = Mixture.even(Gaussian(means, torch.zeros_like(means)))
    >>> round(two.log_prob(torch.zeros(1).double()).item(), 7)
    -1.4189385
    """

    parts: Gaussian  # (..., K, D)
    log_weight: Tensor  # (..., K), normalised

    @classmethod
    def even(cls, parts: Gaussian) -> Mixture:
        """The mixture of these components with equal weights."""
        k = parts.mean.shape[-2]
        return cls(parts, parts.mean.new_full((k,), -math.log(k)))

    def log_joint(self, z: Tensor) -> Tensor:
        """log w_k N(z; m_k, v_k), (..., K) for z (..., D); its softmax is the Bayes posterior."""
        return self.log_weight + self.parts.log_prob(z[..., None, :])

    def log_prob(self, z: Tensor) -> Tensor:
        return self.log_joint(z).logsumexp(-1)

    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        """Draw (*shape, ..., D) samples: first a component, then a point from it."""
        mean, logvar = torch.broadcast_tensors(self.parts.mean, self.parts.logvar)
        lead = mean.shape[:-2]
        weight = self.log_weight.exp().expand(*lead, -1)
        n = math.prod(shape)
        pick = torch.multinomial(weight.reshape(-1, weight.shape[-1]), n, replacement=True).T
        index = pick.reshape(*shape, *lead, 1, 1).expand(*shape, *lead, 1, mean.shape[-1])
        mean, logvar = (
            v.expand(*shape, *v.shape).gather(-2, index).squeeze(-2) for v in (mean, logvar)
        )
        return Gaussian(mean, logvar).sample()


def kl_to_each(q: Gaussian, parts: Gaussian) -> Tensor:
    """(B, K) KL of q (B, D) to every component (K, D) or (B, K, D)."""
    return Gaussian(q.mean[:, None], q.logvar[:, None]).kl(parts)


def expected_kl(q: Gaussian, parts: Gaussian, weight: Tensor, z: Tensor, mode: KLMode) -> Tensor:
    """(B,) KL of q (B, D) to components (B, K, D), weighted by (B, K).

    `analytic`: Σ_k w_k KL(q ‖ p_k); `mc`: Σ_k w_k [log q(z) − log p_k(z)] at the sample z (B, D).
    """
    if mode == "analytic":
        return (weight * kl_to_each(q, parts)).sum(-1)
    return (weight * (q.log_prob(z)[:, None] - parts.log_prob(z[:, None]))).sum(-1)


def categorical_kl(log_q: Tensor, log_p: Tensor) -> Tensor:
    """Σ_k q_k (log q_k − log p_k) over the last axis, from logarithms.

    Logarithms keep the gradient finite when a probability underflows to 0.

    >>> q = torch.tensor([0.7310586, 0.2689414]).double()
    >>> round(categorical_kl(q.log(), torch.full((2,), 0.5).log()).item(), 7)
    0.1109441
    """
    log_p = log_p.expand_as(log_q).to(log_q)
    return F.kl_div(log_p, log_q, reduction="none", log_target=True).sum(-1)


def uniform_kl(log_weight: Tensor) -> Tensor:
    """KL of categorical log-weights (..., K) to the uniform distribution, (...)."""
    k = log_weight.shape[-1]
    return categorical_kl(log_weight, log_weight.new_full((k,), -math.log(k)))
