"""ML-VAE: what a group has in common, and what is each example's own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from untwine.distributions import Gaussian
from untwine.parts.defaults import GaussianPosterior
from untwine.parts.groups import group_rows, product_of_experts
from untwine.records import Batch, Draw, Latent, Sizes
from untwine.registry import model
from untwine.schema import MaybeWidth
from untwine.slots import Encoder, Latents
from untwine.vae import Recipe


class StyleAndContent(Latents):
    """Style per example and content per group; without groups each example forms its own."""

    def __init__(
        self, sizes: Sizes, style: int, content: int, per_member: bool, whole_batch: bool
    ) -> None:
        super().__init__()
        style, content = style or sizes.latent, content or sizes.latent
        self.style = GaussianPosterior(replace(sizes, latent=style))
        self.content = nn.Linear(sizes.features, 2 * content)
        self.per_member = per_member
        self.whole_batch = whole_batch
        self.out_features = style + content

    def forward(
        self, h: Tensor, batch: Batch, encoder: Encoder, *, mean: bool
    ) -> dict[str, Latent]:
        rows, groups = self._rows(h, batch.group)
        style = self.style(h)
        factors = Gaussian(*self.content(h).chunk(2, -1))
        q = product_of_experts(factors, rows, groups)  # (R, D)
        shared = per_group if mean or not self.per_member else per_member
        return {
            "style": Latent(style, style.q.kl(), standard_normal_like(style.q)),
            "content": shared(q, rows),
        }

    def _rows(self, h: Tensor, group: Tensor | None) -> tuple[Tensor, int]:
        if self.whole_batch:
            return torch.zeros(h.shape[0], dtype=torch.long, device=h.device), 1
        return group_rows(group, h.shape[0], h.device)

    def sample(self, n: int, encoder: Encoder) -> Tensor:
        """Every sample forms its own group."""
        return torch.randn_like(self.content.weight.new_empty(n, self.out_features))


def standard_normal_like(q: Gaussian) -> Gaussian:
    """N(0, I) with the shape of q."""
    return Gaussian(torch.zeros_like(q.mean), torch.zeros_like(q.mean))


def per_group(q: Gaussian, rows: Tensor) -> Latent:
    """One draw for each group."""
    return Latent(Draw(q.sample(), q.mean, q), q.kl(), standard_normal_like(q), rows=rows)


def per_member(q: Gaussian, rows: Tensor) -> Latent:
    """A draw for each member from its group's posterior; members share the group's KL evenly."""
    each = Gaussian(q.mean[rows], q.logvar[rows])  # (B, D)
    kl = q.kl()
    members = torch.zeros_like(kl).scatter_add(0, rows, torch.ones_like(kl[rows]))
    return Latent(Draw(each.sample(), each.mean, each), (kl / members)[rows])


@model(
    title="ML-VAE",
    paper="Bouchacourt et al., 2018",
    url="https://arxiv.org/abs/1705.08841",
    process="c_g ~ N(0, I) for each group, s_i ~ N(0, I) for each example, x_i ~ p(x|s_i, c_g)",
    use="Examples come in groups, and content should be apart from style.",
    avoid="The data has no groups, or batches hold one member of each.",
    bibtex="""@inproceedings{bouchacourt2018multi,
  title = {Multi-Level Variational Autoencoder: Learning Disentangled Representations from
           Grouped Observations},
  author = {Bouchacourt, Diane and Tomioka, Ryota and Nowozin, Sebastian},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2018}
}""",
)
def ml_vae(
    *,
    style: MaybeWidth = 0,
    content: MaybeWidth = 0,
    per_member: bool = False,
    whole_batch: bool = False,
) -> Recipe:
    """Separate what a group shares from what is each example's own (Bouchacourt et al., 2018).

    L = Σ_g [ Σ_{i∈g} (E_q[−log p(x_i|s_i, c_g)] + KL(q(s_i|x_i) ‖ N)) + KL(q(c_g|x_g) ‖ N) ]

    q(c_g) is the normalised product of its members' Gaussians: 1/v_g = Σ_i 1/v_i,
    m_g = v_g Σ_i m_i/v_i, without the prior among the factors. The KL of the content counts once
    per group. The paper averages over groups; here, as everywhere, the sum is divided by the number
    of examples, which is the same up to a constant factor when groups have one size. Groups are the
    members that fall in one batch; data without groups makes each example a group of its own, and
    this is the VAE. The code is [style, content]; `encode_group` gives the content of each group.

    Args:
        style: latents of each example; 0 is the run's number of latents, the paper takes 10.
        content: latents of each group; 0 is the run's number of latents, the paper takes 10.
        per_member: draw the content afresh for every member from its group's posterior, as the
            authors' code does, instead of once per group.
        whole_batch: take each batch for one group, whatever groups the data has, as the UG-VAE
            paper does to compare; the content then depends on all examples encoded together.
    """
    latents = partial(
        StyleAndContent,
        style=style,
        content=content,
        per_member=per_member,
        whole_batch=whole_batch,
    )
    return Recipe(latents=latents)
