"""AnnealedVAE: let the KL grow to a capacity that rises with the step."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from torch import Tensor

from untwine.parts.schedules import linear
from untwine.parts.terms import KL
from untwine.records import Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative, Range
from untwine.slots import Term
from untwine.vae import Recipe


class CapacityGap(Term):
    """|mean_i KL_i − C(t)|, (); Burgess et al., eq. 8. The batch mean is inside the bars."""

    def __init__(self, sizes: Sizes, capacity: float, steps: int) -> None:
        super().__init__(sizes)
        self.kl, self.capacity = KL(sizes), linear(0.0, capacity, steps)

    def forward(self, trace: Trace) -> Tensor:
        return (self.kl(trace) - self.capacity(trace.batch.step)).abs()


@model(
    title="AnnealedVAE",
    paper="Burgess et al., 2018",
    url="https://arxiv.org/abs/1804.03599",
    use="A single knob in nats: you know how much the code should hold.",
    avoid="The capacity is unknown: too large a one forces noise into the code.",
    bibtex="""@article{burgess2018understanding,
  title = {Understanding disentangling in $\\beta$-VAE},
  author = {Burgess, Christopher P. and Higgins, Irina and Pal, Arka and Matthey, Loic and
    Watters, Nick and Desjardins, Guillaume and Lerchner, Alexander},
  journal = {arXiv:1804.03599},
  year = {2018}
}""",
)
def annealed_vae(
    *,
    capacity: NonNegative = 25.0,
    gamma: NonNegative = 1000.0,
    steps: Annotated[int, Range(1, 10**12)] = 100_000,
) -> Recipe:
    """Hold the KL at a capacity that rises with training (Burgess et al., 2018).

    L = E_q(z|x)[−log p(x|z)] + γ |KL − C(t)|,   C(t) = C_max min(1, t/T)

    The KL is the batch mean, inside the absolute value. With γ = 1000 it ends on C_max, also where
    that forces noise into the code: dSprites holds about 28 nats. C_max = 0 is β-VAE with β = γ.
    The logged term `kl` is the gap.

    Args:
        capacity: C_max in nats; the paper takes 25 on dSprites, the 2019 study 5 to 100.
        gamma: weight of the gap; 1000 in the paper and the study.
        steps: T, optimiser steps until the capacity is reached; 100,000 in the paper.
    """
    return Recipe(terms={"kl": (gamma, partial(CapacityGap, capacity=capacity, steps=steps))})
