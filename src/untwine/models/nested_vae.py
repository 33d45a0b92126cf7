"""NestedVAE: a second VAE, from the code of one example to that of its partner."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from untwine.distributions import Gaussian
from untwine.records import Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative, Width
from untwine.slots import Term
from untwine.vae import Recipe

Source = Literal["mean", "sample"]


def partner_weights(group: Tensor | None, example: Tensor) -> Tensor:
    """(R, R) weight of row j among the partners of row i; each row sums to 1.

    Partners are the rows of the other examples of the group; a row without partners is its own.
    Several rows may be draws of one example.
    """
    itself = torch.eye(len(example), dtype=torch.bool, device=example.device)
    if group is None:
        return itself.double()
    others = (group[:, None] == group) & (example[:, None] != example)
    partners = (others | (itself & ~others.any(1, keepdim=True))).double()
    return partners / partners.sum(1, keepdim=True)


def three_layers(inputs: int, units: int, outputs: int) -> nn.Sequential:
    first, second = nn.Linear(inputs, units), nn.Linear(units, units)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(units, outputs))


class Nested(Term):
    """−log N(z_j; f(s), I) + β KL(q(s|z_i) ‖ N(0, I)), s ~ q(s|z_i), for all partners j of i, (B,).

    Every pair counts in both directions. `common` is q(s|z).
    """

    def __init__(
        self, sizes: Sizes, latent: int, units: int, beta: float, source: Source, detach: bool
    ) -> None:
        super().__init__(sizes)
        self.encoder = three_layers(sizes.latent, units, 2 * latent)
        self.decoder = three_layers(latent, units, sizes.latent)
        self.beta, self.source, self.detach = beta, source, detach

    def common(self, z: Tensor) -> Gaussian:
        """q(s|z) of codes (B, D), (B, S)."""
        return Gaussian(*self.encoder(z).chunk(2, -1))

    def forward(self, trace: Trace) -> Tensor:
        z = self._codes(trace)
        q = self.common(z)
        p = Gaussian(self.decoder(q.sample())[:, None], z.new_zeros(()))
        error = -p.log_prob(z[None])  # (B, B): of z_j from s_i
        return (self._weights(trace).to(z) * error).sum(1) + self.beta * q.kl()

    def _codes(self, trace: Trace) -> Tensor:
        mean = self.source == "mean"
        codes = [v.per_example(mean=mean) for v in trace.latents.values() if v.feeds_decoder]
        z = torch.cat(codes, -1)
        return z.detach() if self.detach else z

    def _weights(self, trace: Trace) -> Tensor:
        group, n = trace.batch.group, len(trace.z)
        if group is not None:
            group = group.repeat_interleave(trace.draws)
        return partner_weights(group, torch.arange(n, device=trace.z.device) // trace.draws)


@model(
    title="NestedVAE",
    paper="Vowels et al., 2020",
    url="https://arxiv.org/abs/2002.11576",
    use="Pairs share something that is to be isolated, without labels.",
    avoid="The data has no groups.",
    bibtex="""@inproceedings{vowels2020nestedvae,
  title = {{NestedVAE}: Isolating Common Factors via Weak Supervision},
  author = {Vowels, Matthew J. and Camgoz, Necati Cihan and Bowden, Richard},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2020}
}""",
)
def nested_vae(
    *,
    weight: NonNegative = 1.0,
    nested_beta: NonNegative = 1.0,
    nested_latent: Width = 5,
    units: Width = 64,
    source: Source = "mean",
    detach: bool = False,
) -> Recipe:
    """Isolate what paired examples have in common in a VAE of their codes (Vowels et al., 2020).

    L = Σ_{a∈{i,j}} [R_a + KL_a] + λ Σ_{(i,j),(j,i)} [−log N(z_j; f(s), I) + β KL(q(s|z_i) ‖ N)],
    s ~ q(s|z_i), R = −log p(x|z); divided by the number of examples

    Partners are the other members of an example's group in the batch, all of them with equal
    weight. An example without a partner in its batch is its own partner, and so is every example of
    data without groups: the nested VAE then only compresses the code. Outer and nested VAE train
    together; the weight of the outer KL is β-VAE's. The objective's term `nested` holds the nested
    VAE, and its `common(z)` is q(s|z).

    Args:
        weight: λ; 0 is the VAE.
        nested_beta: β, weight of the nested KL; 1 in the paper's code, 0 in its example.
        nested_latent: latents of the nested VAE; 6 in the paper's code.
        units: units of each of the two hidden layers of the nested encoder and decoder.
        source: what the nested VAE sees of the outer posterior, and reconstructs: its mean, as in
            the paper's code, or the sample.
        detach: keep the nested VAE's gradient from the outer one, which is the paper's code in two
            stages.
    """
    nested = partial(
        Nested,
        latent=nested_latent,
        units=units,
        beta=nested_beta,
        source=source,
        detach=detach,
    )
    return Recipe(terms={"nested": (weight, nested)} if weight else {})
