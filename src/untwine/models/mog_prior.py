"""MoG-VAE: a fixed mixture of Gaussians as the prior."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from untwine.distributions import Gaussian, Mixture
from untwine.errors import IncompatibleError
from untwine.models._papers import MIAO_2022
from untwine.records import Density, Draw, Sizes
from untwine.registry import model
from untwine.schema import NonNegative, Positive, Width
from untwine.slots import Prior
from untwine.vae import Recipe


def centres(components: int, latent: int, radius: float) -> Tensor:
    """(K, D) the origin, or ±radius on the first axis, or a circle in the first two.

    >>> centres(4, 3, 2.0).round().int().tolist()
    [[2, 0, 0], [0, 2, 0], [-2, 0, 0], [0, -2, 0]]
    """
    means = torch.zeros(components, latent)
    if components == 2:
        means[:, 0] = torch.tensor([radius, -radius])
    elif components > 2:
        if latent < 2:
            raise IncompatibleError(
                f"{components} means on a circle need at least 2 latents, not {latent}; "
                "choose at most 2 components or more latents"
            )
        angles = torch.arange(components) * (2 * math.pi / components)
        means[:, :2] = radius * torch.stack([angles.cos(), angles.sin()], -1)
    return means


class FixedMixture(Prior):
    """p(z) = (1/K) Σ_k N(z; c_k, v I), without parameters; refuses a circle in one latent."""

    has_clusters = True
    means: Tensor  # (K, D)
    logvar: Tensor  # (K, D)

    def __init__(self, sizes: Sizes, components: int, radius: float, variance: float) -> None:
        super().__init__()
        means = centres(components, sizes.latent, radius)
        logvar = torch.full_like(means, math.log(variance))
        self.register_buffer("means", means, persistent=False)
        self.register_buffer("logvar", logvar, persistent=False)

    def forward(self, encode: Callable[[Tensor], Draw]) -> Density:
        return Mixture.even(Gaussian(self.means, self.logvar))


@model(
    title="MoG-VAE",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    process="z ~ (1/K) Σ_k N(c_k, v I), x ~ p(x|z)",
    use="A baseline with clusters at known places.",
    avoid="Clusters should be found: the places are fixed.",
    bibtex=MIAO_2022,
)
def mog_prior(
    *, components: Width = 10, radius: NonNegative = 2.0, variance: Positive = 1.0
) -> Recipe:
    """Give the prior fixed clusters, the baseline of a study of priors (Miao et al., 2022).

    L = E_q(z|x)[−log p(x|z) + log q(z|x) − log p(z)],   p(z) = (1/K) Σ_k N(z; c_k, v I)

    One component sits at the origin, two at ±r on the first axis, more on a circle of radius r in
    the first two latents, which then must exist. The KL is the one-sample estimate, which can
    be negative. The paper gives no numbers; its code has 2 or 4 components at distance 2 with
    log v = 1, surely meant as v = 1, and counts log σ² of the posterior D times over.

    Args:
        components: K, the number of Gaussians; 10 suits ten digits, 2 suits two.
        radius: r, the distance of the means from the origin.
        variance: v of every component; e = 2.718 for the paper's code, barely bimodal at r = 2.
    """
    return Recipe(
        prior=partial(FixedMixture, components=components, radius=radius, variance=variance)
    )
