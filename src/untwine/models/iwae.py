"""IWAE: a tighter bound from several samples per example."""

from __future__ import annotations

import math
from typing import Annotated

from torch import Tensor

from untwine.parts.terms import KL, NegLogLikelihood
from untwine.records import Sizes, Trace
from untwine.registry import model
from untwine.schema import Range
from untwine.slots import Term
from untwine.vae import Recipe


class ImportanceBound(Term):
    """−log (1/K) Σ_k p(x|z_k) p(z_k) / q(z_k|x), (B,); Burda et al., eq. 8.

    Outside training there is one draw per example, and this is the one-sample bound. Refuses
    latents without a prior density or shared by a group.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.likelihood_weight = sizes.likelihood_weight

    def forward(self, trace: Trace) -> Tensor:
        weights = trace.log_weight(self.likelihood_weight).view(-1, trace.draws)  # (B, K)
        return math.log(trace.draws) - weights.logsumexp(1)


@model(
    title="IWAE",
    paper="Burda et al., 2016",
    url="https://arxiv.org/abs/1509.00519",
    use="The likelihood matters: the bound is tighter.",
    avoid="The encoder is what you want: with many samples its gradient becomes noisy. "
    "Memory grows with K.",
    bibtex="""@inproceedings{burda2016importance,
  title = {Importance Weighted Autoencoders},
  author = {Burda, Yuri and Grosse, Roger and Salakhutdinov, Ruslan},
  booktitle = {International Conference on Learning Representations},
  year = {2016}
}""",
)
def iwae(*, draws: Annotated[int, Range(1, 10_000)] = 5) -> Recipe:
    """Maximise a bound from K importance-weighted samples (Burda et al., 2016).

    L = −E log (1/K) Σ_k p(x|z_k) p(z_k) / q(z_k|x)

    An option of any model whose latents have densities: the terms `nll` and `kl` are then only
    logged. K = 1 is the VAE with a one-sample KL.

    Args:
        draws: K, samples per example; the paper takes 1, 5 and 50.
    """
    terms = {"bound": (1.0, ImportanceBound), "nll": (0.0, NegLogLikelihood), "kl": (0.0, KL)}
    return Recipe(terms=terms, draws=draws)
