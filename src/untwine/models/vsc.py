"""Variational sparse coding: latents that are exactly zero unless a gate opens."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from untwine.parts.defaults import GaussianPosterior
from untwine.records import Batch, Draw, Latent, Sizes
from untwine.registry import model
from untwine.schema import NonNegative, OpenShare, Positive
from untwine.slots import Encoder, Latents
from untwine.vae import Recipe

Form = Literal["sigmoid", "relu"]
MIN_PROBABILITY = 1e-6  # of the released relu form, whose logarithms are infinite without it


def log_gate(o: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """log γ and log(1−γ) of γ = sigmoid(o), or of the released γ = exp(−relu(−o))."""
    if form == "sigmoid":
        return F.logsigmoid(o), F.logsigmoid(-o)
    gamma = (-F.relu(-o)).exp().clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return gamma.log(), (-gamma).log1p()


def gate_kl(log_on: Tensor, log_off: Tensor, alpha: float) -> Tensor:
    """Σ_d [γ log(γ/α) + (1−γ) log((1−γ)/(1−α))], (B,).

    >>> on = torch.tensor([[0.6]], dtype=torch.float64)
    >>> round(gate_kl(on.log(), (1 - on).log(), 0.1).item(), 7)
    0.7506836
    """
    on = log_on.exp() * (log_on - math.log(alpha))
    return (on + log_off.exp() * (log_off - math.log1p(-alpha))).sum(-1)


class SpikeAndSlab(Latents):
    """q(z_d|x) = γ N(μ, σ²) + (1−γ) δ₀ against p(z_d) = α N(0, 1) + (1−α) δ₀.

    The gate is a separate latent that the decoder does not see: its mean is γ, its KL the
    Bernoulli part. During training it is relaxed to sigmoid(c (η + γ − 1)) with η uniform and c
    growing with the step; otherwise it is exact (c → ∞).
    """

    def __init__(
        self, sizes: Sizes, alpha: float, form: Form, sharpness: float, sharpening: float
    ) -> None:
        super().__init__()
        self.alpha, self.sharpness, self.sharpening = alpha, sharpness, sharpening
        self.form: Form = form
        self.slab = GaussianPosterior(sizes)
        self.gate = nn.Linear(sizes.features, sizes.latent)
        self.out_features = sizes.latent

    def forward(
        self, h: Tensor, batch: Batch, encoder: Encoder, *, mean: bool
    ) -> dict[str, Latent]:
        slab = self.slab(h)
        log_on, log_off = log_gate(self.gate(h), self.form)
        on = log_on.exp()
        s = self.openness(on, torch.rand_like(on), batch.step)
        typical = self.openness(on, torch.full_like(on, 0.5), batch.step)
        slab_kl = (on * slab.q.kl_per_dim()).sum(-1)
        return {
            "z": Latent(Draw(s * slab.z, typical * slab.mean), slab_kl),
            "gate": Latent(Draw(s, on), gate_kl(log_on, log_off, self.alpha), feeds_decoder=False),
        }

    def openness(self, on: Tensor, eta: Tensor, step: Tensor) -> Tensor:
        """(B, D) in [0, 1]: how far gates of probability γ open at uniform noise η."""
        excess = eta + on - 1
        if not self.training:
            return (excess > 0).to(excess)
        return ((self.sharpness + self.sharpening * step) * excess).sigmoid()

    def sample(self, n: int, encoder: Encoder) -> Tensor:
        slab = torch.randn_like(self.gate.bias.expand(n, -1))
        return slab * torch.bernoulli(torch.full_like(slab, self.alpha))


@model(
    title="Variational sparse coding",
    paper="Tonolini et al., 2020",
    url="https://proceedings.mlr.press/v115/tonolini20a.html",
    process="each z_d ~ N(0, 1) with probability α and 0 otherwise, x ~ p(x|z)",
    use="Each example has few of many properties, and exact zeros are wanted.",
    avoid="A density of the code is needed, as for importance weights.",
    bibtex="""@inproceedings{tonolini2020variational,
  title = {Variational Sparse Coding},
  author = {Tonolini, Francesco and Jensen, Bj{\\o}rn Sand and Murray-Smith, Roderick},
  booktitle = {Conference on Uncertainty in Artificial Intelligence},
  year = {2020}
}""",
)
def vsc(
    *,
    alpha: OpenShare = 0.2,
    form: Form = "sigmoid",
    sharpness: Positive = 50.0,
    sharpening: NonNegative = 0.001,
) -> Recipe:
    """Switch latents off for most examples with a spike at zero (Tonolini et al., 2020).

    L = E_q(z|x)[−log p(x|z)] + Σ_d [γ_d KL(N(μ_d, σ_d²) ‖ N(0, 1)) + KL(Bern(γ_d) ‖ Bern(α))]

    The first version of the paper, which the comparisons in the InteL-VAE paper used: the later
    one has a learned prior and was found to diverge. A code is z_d = s_d (μ_d + σ_d ε_d) with a
    gate s_d that is open with probability γ_d(x). The representation is μ_d where γ_d > ½ and 0
    elsewhere, so it is sparse. Gates are exact outside training; in training they are relaxed and
    never quite 0. With the convolutional network the released code weighs the KL by 0.1, which is
    +beta-vae here. Has no density, so parts that need one refuse it.

    Args:
        alpha: prior probability that a latent is on; the InteL-VAE paper takes 0.01 and 0.2, the
            released code 0.5.
        form: of the gate's probability; sigmoid, or relu as released, γ = exp(−relu(−o)), whose
            gradient is zero where γ = 1, as it is for half of the gates at the start.
        sharpness: c at the start; exact gates need a large one, gradients a small one.
        sharpening: what is added to c with each step.
    """
    return Recipe(
        latents=partial(
            SpikeAndSlab, alpha=alpha, form=form, sharpness=sharpness, sharpening=sharpening
        )
    )
