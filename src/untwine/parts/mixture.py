"""Mixtures of diagonal Gaussians, and the divergences that go with a discrete component."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from untwine.parts.gaussian import Gaussian
from untwine.records import Draw, Latent

KLMode = Literal["analytic", "mc"]
"""How the KL to a mixture is taken whose weights depend on the sample."""


@dataclass(frozen=True)
class Mixture:
    """Σ_k w_k N(z; m_k, diag v_k); a density like any other.

    >>> means = torch.tensor([[1.0], [-1.0]]).double()
    >>> two = Mixture.even(Gaussian(means, torch.zeros_like(means)))
    >>> round(two.log_prob(torch.zeros(1).double()).item(), 7)
    -1.4189385
    """

    parts: Gaussian  # (..., K, D)
    log_weight: Tensor  # (..., K), normalised

    @classmethod
    def even(cls, parts: Gaussian) -> Mixture:
        """All components equally likely."""
        k = parts.mean.shape[-2]
        return cls(parts, parts.mean.new_full((k,), -math.log(k)))

    def log_each(self, z: Tensor) -> Tensor:
        """log w_k N(z; m_k, v_k), (..., K) for z (..., D); its softmax is the Bayes posterior."""
        return self.log_weight + self.parts.log_prob(z[..., None, :])

    def log_prob(self, z: Tensor) -> Tensor:
        return self.log_each(z).logsumexp(-1)

    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        """(*shape, ..., D): a component, then a draw from it."""
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
    """KL(q ‖ part_k) of q (B, D) to every component (K, D) or (B, K, D), (B, K)."""
    return Gaussian(q.mean[:, None], q.logvar[:, None]).kl(parts)


def expected_kl(q: Gaussian, parts: Gaussian, weight: Tensor, z: Tensor, mode: KLMode) -> Tensor:
    """(B,) the KL of q (B, D) to components (B, K, D), weighted by (B, K).

    `analytic`: Σ_k w_k KL(q ‖ p_k); `mc`: Σ_k w_k [log q(z) − log p_k(z)] at the sample z (B, D).
    """
    if mode == "analytic":
        return (weight * kl_to_each(q, parts)).sum(-1)
    return (weight * (q.log_prob(z)[:, None] - parts.log_prob(z[:, None]))).sum(-1)


def categorical_kl(log_q: Tensor, log_p: Tensor) -> Tensor:
    """Σ_k q_k (log q_k − log p_k) over the last axis, from logarithms.

    Logarithms keep the gradient finite where a probability underflows to 0.

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


def component(log_weight: Tensor) -> Latent:
    """A discrete latent summed out: its weights (B, K), and its KL to the uniform prior."""
    weight = log_weight.exp()
    return Latent(
        Draw(weight, weight, log_density=log_weight), uniform_kl(log_weight), decoded=False
    )
