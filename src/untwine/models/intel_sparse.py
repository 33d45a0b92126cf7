"""Sparse InteL-VAE: a network decides for each example which latents are on."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from untwine.models._papers import MIAO_2022
from untwine.records import Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative, Share
from untwine.slots import Extras, Mapping, Term
from untwine.vae import Recipe

Regularised = Literal["gate", "code"]
Normalise = Literal["after", "before"]
HIDDEN = 10
TINY = 1e-12


def proportions(v: Tensor) -> Tensor:
    """v/‖v‖₁ over the last axis, for v ≥ 0."""
    v = v + TINY  # the slope of the entropy is infinite at 0, and a row may be all zeros
    return v / v.sum(-1, keepdim=True)


def entropy(p: Tensor) -> Tensor:
    """−Σ_d p_d log p_d over the last axis."""
    return torch.special.entr(p).sum(-1)


def sparsity(v: Tensor, normalise: Normalise = "after") -> Tensor:
    """mean_i H(v_i) − H(mean_i v_i) of a batch v (B, D) ≥ 0, (); Miao et al., eq. 7.

    H normalises its argument; with `before`, rows are normalised before they are averaged.
    """
    each = proportions(v)
    together = proportions(v.mean(0)) if normalise == "after" else each.mean(0)
    return entropy(each).mean() - entropy(together)


class DimensionSelector(Mapping):
    """w = y ⊙ DS(y), (B, D); the gates DS(y) in [floor, 1] are reported as `gate`."""

    def __init__(self, sizes: Sizes, floor: float) -> None:
        super().__init__()
        self.out_features, self.floor = sizes.latent, floor
        self.network = nn.Sequential(
            nn.Linear(sizes.latent, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, sizes.latent),
            nn.Sigmoid(),
        )

    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        gate = self.floor + (1 - self.floor) * self.network(z)
        return z * gate, {"gate": gate}


class Sparsity(Term):
    """L_sp of the gates or of the code |w|, (); 0 for a batch of one."""

    def __init__(self, sizes: Sizes, on: Regularised, normalise: Normalise) -> None:
        super().__init__(sizes)
        self.on: Regularised = on
        self.normalise: Normalise = normalise

    def forward(self, trace: Trace) -> Tensor:
        v = trace.extras["gate"] if self.on == "gate" else trace.w.abs()
        return sparsity(v, self.normalise)


@model(
    title="InteL-VAE, sparse",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    process="y ~ N(0, I), w = y ⊙ DS(y), x ~ p(x|w)",
    use="Each example has few of many properties, and a density of the code is needed.",
    avoid="Exact zeros are needed, or batches are small.",
    bibtex=MIAO_2022,
)
def intel_sparse(
    *,
    gamma: NonNegative = 3.0,
    floor: Share = 0.0,
    on: Regularised = "gate",
    normalise: Normalise = "after",
) -> Recipe:
    """Switch off most latents of each example, others for other examples (Miao et al., 2022).

    L = E_q(y|x)[−log p(x|g(y))] + KL(q(y|x) ‖ N(0, I)) + γ L_sp,   g(y) = y ⊙ DS(y)
    L_sp = mean_i H(DS(y_i)) − H(mean_i DS(y_i)),   H(v) = −Σ_d p_d log p_d,   p = v/‖v‖₁

    DS, the dimension selector, is a network with two hidden layers of 10 units and outputs in
    [0, 1]. The first part of L_sp makes each example use few latents, the second makes examples
    differ in which. The paper adds γ L_sp to an objective that is maximised, a slip of the sign:
    its text and code minimise it, as here. L_sp depends on the batch, and is 0 for a batch of one.

    Args:
        gamma: γ, weight of the regulariser; 0 leaves the gates free. The paper finds better
            samples than the VAE's below 3 on Fashion-MNIST, and takes 30 and 70 on CelebA.
        floor: the least value of a gate; 0 in the paper, 0.2 in the authors' code. 1 is the VAE.
        on: what L_sp looks at: the gates as in the paper, or the absolute code as in the authors'
            code.
        normalise: whether the second entropy normalises after averaging as in the paper, or before
            as in the authors' code.
    """
    term = partial(Sparsity, on=on, normalise=normalise)
    return Recipe(
        mapping=partial(DimensionSelector, floor=floor), terms={"sparsity": (gamma, term)}
    )
