"""Mixup-VAE: encode a blend of two images, reconstruct the one that has the larger share."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.distributions import Beta

from untwine.models._papers import TAGHANAKI_2020
from untwine.records import Sizes
from untwine.registry import model
from untwine.schema import Positive
from untwine.slots import Corruption
from untwine.vae import Recipe


def blend(x: Tensor, partner: Tensor, share: Tensor) -> Tensor:
    """λ′ x + (1−λ′) partner with λ′ = max(λ, 1−λ): x always has the larger share."""
    share = torch.maximum(share, 1 - share)
    return share * x + (1 - share) * partner


class Mixup(Corruption):
    """Blend each example with a random partner, its share drawn from Beta(a, a)."""

    def __init__(self, sizes: Sizes, a: float) -> None:
        super().__init__()
        self.a = a
        self.ones = (1,) * len(sizes.shape)

    def corrupt(self, x: Tensor) -> tuple[Tensor, Tensor]:
        # In double precision: for a small a the Gamma draws behind a Beta underflow in single.
        a = torch.tensor(self.a, dtype=torch.float64)
        share = Beta(a, a, validate_args=False).sample((len(x), *self.ones)).to(x)
        return blend(x, x[torch.randperm(len(x), device=x.device)], share), x


@model(
    title="Mixup-VAE",
    paper="Taghanaki et al., 2020",
    url="https://arxiv.org/abs/2005.05496",
    use="A corruption that needs no choice of noise.",
    avoid="Examples have little in common, so that blends look like neither.",
    bibtex=f"""{TAGHANAKI_2020}

@inproceedings{{zhang2018mixup,
  title = {{mixup: Beyond Empirical Risk Minimization}},
  author = {{Zhang, Hongyi and Cisse, Moustapha and Dauphin, Yann N. and Lopez-Paz, David}},
  booktitle = {{International Conference on Learning Representations}},
  year = {{2018}}
}}""",
)
def mixup(*, a: Positive = 0.2) -> Recipe:
    """Encode a blend of two images and reconstruct the larger part (Taghanaki et al., 2020).

    x̃ = λ′ x_i + (1−λ′) x_j,   λ′ = max(λ, 1−λ),   λ ~ Beta(a, a)
    L = E_q(z|x̃)[−log p(x_i|z)] + KL(q(z|x̃) ‖ N(0, I))

    The baseline of the Jigsaw paper, after the mixup of Zhang et al., 2018; unlike there the
    targets are not blended. Every example has its own share; the paper lets the target change
    instead where λ is below ½, which is the same in law and would part examples from their groups.

    Args:
        a: of the Beta distribution; not stated in the paper, 0.2 to 1 is usual.
    """
    return Recipe(corruption=partial(Mixup, a=a))
