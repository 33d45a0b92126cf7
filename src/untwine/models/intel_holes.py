"""InteL-VAE with holes: glue points of a circle together in pairs."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from untwine.errors import IncompatibleError
from untwine.models._papers import MIAO_2022
from untwine.models.intel_sphere import to_sphere
from untwine.records import Sizes
from untwine.registry import model
from untwine.schema import Positive, Width
from untwine.slots import Extras, Mapping
from untwine.vae import Recipe


def arc(u: Tensor) -> Tensor:
    """ρ(u) = √(4/3 − (1−u)²) − 1/√3 for u in [0, 1]: from 0 at a glued point to 1/√3."""
    return (4 / 3 - (1 - u).square()).sqrt() - 1 / math.sqrt(3)


def glue(c: Tensor, holes: int) -> Tensor:
    """Circle points c (B, 2) to (c₁, c₂·ρ(u)), (B, 2).

    Glued are the two points at each abscissa k_j = −1 + 2j/h, j = 1…h−1; u is the distance of c₁ to
    the nearest of them, relative to half the gap between two and, beyond the last, to a whole one.
    """
    if holes == 1:
        return c
    first, second = c.unbind(-1)
    joints = torch.arange(1, holes, dtype=c.dtype, device=c.device) * (2 / holes) - 1  # (h−1,)
    distance = (first[:, None] - joints).abs().amin(-1)
    gap = torch.where(first.abs() > 1 - 2 / holes, 2.0, 1.0).to(c) / holes
    u = (distance / gap).clamp(max=1)  # rounding may leave c₁ a hair outside [−1, 1]
    return torch.stack([first, second * arc(u)], -1)


class GluedCircle(Mapping):
    """w = (glued circle of y₁ and y₂, y₃, …), (B, D); Miao et al., eq. 5. Refuses one latent."""

    def __init__(self, sizes: Sizes, holes: int, epsilon: float) -> None:
        super().__init__()
        if sizes.latent < 2:
            raise IncompatibleError("intel-holes needs at least 2 latents to make a plane, not 1")
        self.out_features = sizes.latent
        self.holes, self.epsilon = holes, epsilon

    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        plane = glue(to_sphere(z[:, :2], self.epsilon), self.holes)
        return torch.cat([plane, z[:, 2:]], -1), {}


@model(
    title="InteL-VAE, holes",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    process="y ~ N(0, I), w = g(y) on a plane with holes, x ~ p(x|w)",
    use="Data lies around holes, such as periodic motion.",
    avoid="The topology is unknown.",
    bibtex=MIAO_2022,
)
def intel_holes(*, holes: Width = 2, epsilon: Positive = 1e-7) -> Recipe:
    """Give the code's plane a number of holes, for data such as an infinity sign (Miao et al., 2022).

    L = E_q(y|x)[−log p(x|g(y))] + KL(q(y|x) ‖ N(0, I))
    g(y) = (c₁, c₂·ρ(|c₁|)),   c = y/(‖y‖₂ + ε),   ρ(u) = √(4/3 − (1−u)²) − 1/√3

    That is the paper's map for two holes. One hole is the circle of `intel-sphere`; for more the
    paper gives no formula, and here h−1 evenly spaced pairs of points with the same c₁ are glued by
    the same arcs. The map acts on the first two latents and leaves any others as they are. The
    authors' code doubles the result, which the decoder's first layer absorbs. Refuses a single
    latent.

    Args:
        holes: h, the number of holes; the paper takes 1 and 2.
        epsilon: ε, which keeps g continuous at the origin; the authors' code has 1e-7.
    """  # noqa: E501
    return Recipe(mapping=partial(GluedCircle, holes=holes, epsilon=epsilon))
