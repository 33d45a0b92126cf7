"""InteL-VAE on a sphere: push the code out to distance one from the origin."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from untwine.errors import IncompatibleError
from untwine.models._papers import MIAO_2022
from untwine.records import Sizes
from untwine.registry import model
from untwine.schema import Positive
from untwine.slots import Extras, Mapping
from untwine.vae import Recipe


def to_sphere(y: Tensor, epsilon: float) -> Tensor:
    """y/(‖y‖₂ + ε) over the last axis: almost the unit sphere, continuous at the origin.

    The gradient at 0 is the identity divided by ε.

    >>> to_sphere(torch.tensor([3.0, 4.0]), 1e-7)
    tensor([0.6000, 0.8000])
    """
    return y / (torch.linalg.vector_norm(y, dim=-1, keepdim=True) + epsilon)


class Sphere(Mapping):
    """w = y/(‖y‖₂ + ε), (B, D); Miao et al., section 6.1. Refuses a single latent."""

    def __init__(self, sizes: Sizes, epsilon: float) -> None:
        super().__init__()
        if sizes.latent < 2:
            raise IncompatibleError(
                "intel-sphere needs at least 2 latents: with 1 the sphere is two points and no "
                "gradient reaches the encoder"
            )
        self.out_features, self.epsilon = sizes.latent, epsilon

    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        return to_sphere(z, self.epsilon), {}


@model(
    title="InteL-VAE, sphere",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    process="y ~ N(0, I), w = y/‖y‖, x ~ p(x|w)",
    use="A property is periodic, such as an angle.",
    avoid="The length of the code should mean something.",
    bibtex=MIAO_2022,
)
def intel_sphere(*, epsilon: Positive = 1e-7) -> Recipe:
    """Put the code on a circle or a sphere, for data around a hole (Miao et al., 2022).

    L = E_q(y|x)[−log p(x|g(y))] + KL(q(y|x) ‖ N(0, I)),   g(y) = y/(‖y‖₂ + ε)

    Two latents make a circle, D latents the sphere of D−1 dimensions. The KL is that of y, before
    the mapping; it is never smaller than the KL on the sphere. Decoder and metrics see g(y).
    Refuses a single latent.

    Args:
        epsilon: ε, which keeps g continuous at the origin, where its slope is 1/ε; the authors'
            code has 1e-7, and 1e-3 is gentler should training be unstable.
    """
    return Recipe(mapping=partial(Sphere, epsilon=epsilon))
