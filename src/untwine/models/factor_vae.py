"""FactorVAE: penalise the total correlation as seen by an adversary."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from untwine.errors import IncompatibleError
from untwine.records import Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative, Positive, Range, Width
from untwine.slots import AdversarialTerm
from untwine.vae import Recipe


def permute_dims(z: Tensor) -> Tensor:
    """Codes (B, D) with every latent shuffled over the batch on its own: samples of Π_d q(z_d)."""
    return z.gather(0, torch.rand_like(z).argsort(0))


class DensityRatio(AdversarialTerm):
    """log q(z) − log Π_d q(z_d) as the difference of a classifier's two logits, (B,).

    Class 0 is a code of this batch, class 1 a permuted code of an independent batch.
    """

    def __init__(self, sizes: Sizes, width: int, depth: int, lr: float) -> None:
        super().__init__(sizes)
        self.lr = lr
        widths = [sizes.latent, *[width] * depth]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.LeakyReLU(0.2)]
        self.net = nn.Sequential(*layers, nn.Linear(width, 2))

    def forward(self, trace: Trace) -> Tensor:
        joint, product = self.net(trace.z).unbind(-1)
        return joint - product

    def adversary_loss(self, z: Tensor, other: Tensor) -> Tensor:
        if len(z) < 2:
            raise IncompatibleError("factor-vae needs a batch of at least 2 examples to permute")
        logits = self.net(torch.cat([z, permute_dims(other)]))  # one pass is faster than two
        classes = torch.arange(2, device=z.device).repeat_interleave(len(z))
        return F.cross_entropy(logits, classes)


@model(
    title="FactorVAE",
    paper="Kim and Mnih, 2018",
    url="https://arxiv.org/abs/1802.05983",
    use="One latent per factor, where the total correlation must not depend on the batch size.",
    avoid="Time is short: a step costs about twice as much, and two networks must stay in balance.",
    bibtex="""@inproceedings{kim2018disentangling,
  title = {Disentangling by Factorising},
  author = {Kim, Hyunjik and Mnih, Andriy},
  booktitle = {International Conference on Machine Learning},
  year = {2018}
}""",
)
def factor_vae(
    *,
    gamma: NonNegative = 10.0,
    width: Width = 1000,
    depth: Annotated[int, Range(1, 100)] = 6,
    adversary_lr: Positive = 1e-4,
) -> Recipe:
    """Penalise the total correlation estimated by a classifier of codes (Kim and Mnih, 2018).

    L = E_q(z|x)[−log p(x|z)] + KL(q(z|x) ‖ N(0, I)) + γ E[d₀(z) − d₁(z)]
    L_D = ½ (CE(d(z), 0) + CE(d(permuted z′), 1)),   z′ from an independent batch

    The model's step comes first, then the adversary's on detached codes with an Adam of its own
    (β₁ = 0.5, β₂ = 0.9), so its gradient never reaches the encoder. Steps count updates of the
    model.

    Args:
        gamma: weight of the total correlation, on top of the 1 that the KL contains; the 2019 study
            takes 10 to 100.
        width: units of each hidden layer of the classifier.
        depth: hidden layers of the classifier; 6 as in the 2019 study, 5 in some other code.
        adversary_lr: its learning rate; 1e-4 for shapes, 1e-5 for faces and chairs.
    """
    ratio = partial(DensityRatio, width=width, depth=depth, lr=adversary_lr)
    return Recipe(terms={"tc": (gamma, ratio)})
