"""Counts, such as molecules per gene or words per document."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from untwine.likelihoods.basic import sum_over_pixels
from untwine.records import Likelihood
from untwine.registry import likelihood
from untwine.schema import Natural, Positive

MAX_LOG_DISPERSION = 8.0  # beyond e^8 it is a Poisson distribution for all that counts


@dataclass(frozen=True)
class NegativeBinomial:
    """Counts with mean share · (total of the example) and variance mean + mean² / dispersion."""

    log_shares: Tensor  # (B, *shape), whose exponentials sum to 1
    log_dispersion: Tensor
    decoded_total: float

    @property
    def mean(self) -> Tensor:
        return self.log_shares.exp() * self.decoded_total

    def log_prob(self, x: Tensor) -> Tensor:
        total = sum_over_pixels(x).clamp(min=1e-6).view(-1, *[1] * (x.dim() - 1))
        log_mean, r = self.log_shares + total.log(), self.log_dispersion
        log_sum = torch.logaddexp(r, log_mean)
        choices = torch.lgamma(x + r.exp()) - torch.lgamma(r.exp()) - torch.lgamma(x + 1)
        return sum_over_pixels(choices + r.exp() * (r - log_sum) + x * (log_mean - log_sum))

    def sample(self) -> Tensor:
        r = self.log_dispersion.exp()
        rate = torch.distributions.Gamma(r, r / self.mean.clamp(min=1e-12)).sample()
        return torch.poisson(rate)


@likelihood(title="Counts", paper="Lopez et al., 2018", counts=True)
def counts(*, total: Positive = 1.0, pixels: Natural = 0) -> Likelihood:
    """Negative binomial given the total: mean share_d · Σ_d x_d, as in Lopez et al., 2018.

    The decoder outputs a share of the total (by a softmax) and a dispersion for every number. How
    many counts an example has in all is taken from the example, so that codes need not hold it.
    The encoder sees log(1 + x).

    Args:
        total: counts of an example that is decoded or sampled; 1 gives shares.
        pixels: that the training objective counts, as in bernoulli.
    """

    def observe(raw: Tensor) -> NegativeBinomial:
        logits, dispersion = raw.chunk(2, 1)
        log_shares = F.log_softmax(logits.flatten(1), 1).view_as(logits)
        limit = MAX_LOG_DISPERSION
        return NegativeBinomial(log_shares, limit * torch.tanh(dispersion / limit), total)

    return Likelihood(observe, outputs=2, pixels=pixels, view=torch.log1p)
