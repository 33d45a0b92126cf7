"""The two terms of the evidence lower bound."""

from __future__ import annotations

import torch
from torch import Tensor

from untwine.records import Trace
from untwine.slots import Term


class NegLogLikelihood(Term):
    """−log p(x|w), summed over pixels and channels, (B,)."""

    def forward(self, trace: Trace) -> Tensor:
        return -trace.px.log_prob(trace.target)


class KL(Term):
    """The KL of all latents, ().

    A latent shared by a group counts once per group; the sum is divided by the number of examples.
    """

    def forward(self, trace: Trace) -> Tensor:
        total = torch.stack([latent.kl.sum() for latent in trace.latents.values()]).sum()
        return total / len(trace.target)
