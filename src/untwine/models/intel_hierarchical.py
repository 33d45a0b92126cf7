"""InteL-VAE with levels: each part of the code is made from the part above it."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from untwine.errors import IncompatibleError
from untwine.models._papers import MIAO_2022
from untwine.records import Sizes
from untwine.registry import model
from untwine.schema import Range
from untwine.slots import Extras, Mapping
from untwine.vae import Recipe

Act = Literal["relu", "linear", "tanh"]
MAX_LEVELS = 5
ACTIVATIONS: dict[Act, type[nn.Module]] = {
    "relu": nn.ReLU,
    "linear": nn.Identity,
    "tanh": nn.Tanh,
}


def even_levels(latent: int) -> tuple[int, ...]:
    """The latents in up to five levels, as equal as can be, the larger ones first.

    >>> even_levels(12), even_levels(3)
    ((3, 3, 2, 2, 2), (1, 1, 1))
    """
    n = min(MAX_LEVELS, latent)
    return tuple(latent // n + (level < latent % n) for level in range(n))


class Levels(Mapping):
    """w = (w₀, …, w_n), w₀ = y₀ and w_i = act(A_i [w_{i−1}, y_i] + b_i); Miao et al., appendix B.

    (B, D) to (B, D). Refuses levels that do not add up to the number of latents.
    """

    def __init__(self, sizes: Sizes, levels: tuple[int, ...], act: Act) -> None:
        super().__init__()
        levels = levels or even_levels(sizes.latent)
        if sum(levels) != sizes.latent:
            raise IncompatibleError(
                f"intel-hierarchical.levels must add up to the {sizes.latent} latents, and "
                f"{levels} add up to {sum(levels)}"
            )
        self.out_features, self.levels = sizes.latent, levels
        self.layers = nn.ModuleList(nn.Linear(a + b, b) for a, b in pairwise(levels))
        self.act = ACTIVATIONS[act]()

    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        top, *rest = z.split(self.levels, -1)
        parts = [top]
        for layer, y in zip(self.layers, rest, strict=True):
            parts.append(self.act(layer(torch.cat([parts[-1], y], -1))))
        return torch.cat(parts, -1), {}


@model(
    title="InteL-VAE, hierarchical",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    process="y ~ N(0, I), z₀ = y₀, z_i = NN_i(z_{i−1}, y_i), x ~ p(x|z)",
    use="Properties range from coarse to fine.",
    avoid="Properties are independent of each other.",
    bibtex=MIAO_2022,
)
def intel_hierarchical(
    *, levels: Annotated[tuple[int, ...], Range(1)] = (), act: Act = "relu"
) -> Recipe:
    """Arrange the code in levels, each made from the one above and noise (Miao et al., 2022).

    L = E_q(y|x)[−log p(x|g(y))] + KL(q(y|x) ‖ N(0, I))
    g(y) = (z₀, …, z_n),   z₀ = y₀,   z_i = NN_i(z_{i−1}, y_i)

    NN_i is one layer, as in the authors' code. A change of y_i changes its own level and those
    after it, never those before it. One level is the VAE. Refuses levels that do not add up to
    the number of latents.

    Args:
        levels: latents of each level from the top; none splits them evenly into up to five. The
            paper has 5 levels of 10 for Fashion-MNIST, the authors' code up to 7 for CelebA.
        act: activation of the layers; relu as in the authors' code, which sets about half of the
            code below the first level to zero; linear and tanh do not.
    """
    return Recipe(mapping=partial(Levels, levels=tuple(levels), act=act))
