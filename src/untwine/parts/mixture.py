"""Mixtures of diagonal Gaussians, and the divergences that go with a discrete component."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from untwine.parts.gaussian import Gaussian


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


def categorical_kl(weight: Tensor, log_prior: Tensor) -> Tensor:
    """Σ_k w_k (log w_k − log p_k) over the last axis; 0 log 0 is 0.

    >>> w = torch.tensor([0.7310586, 0.2689414])
    >>> round(categorical_kl(w, torch.full((2,), math.log(0.5))).item(), 7)
    0.1109441
    """
    return -(torch.special.entr(weight) + weight * log_prior).sum(-1)


def uniform_kl(weight: Tensor) -> Tensor:
    """KL of categorical weights (..., K) to the uniform distribution, (...)."""
    return math.log(weight.shape[-1]) - torch.special.entr(weight).sum(-1)
