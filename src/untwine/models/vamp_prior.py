"""VampPrior: the prior is a mixture of the posteriors of trainable inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from untwine.distributions import Gaussian, Mixture
from untwine.errors import IncompatibleError
from untwine.records import Density, Draw, Sizes, is_image
from untwine.registry import model
from untwine.schema import NonNegative, Width
from untwine.slots import Prior
from untwine.vae import Recipe

Start = Literal["data", "random"]


def reflect(u: Tensor) -> Tensor:
    """Fold numbers at 0 and 1 until they lie in [0, 1].

    >>> [round(v, 6) for v in reflect(torch.tensor([-0.25, 0.5, 1.125])).tolist()]
    [0.25, 0.5, 0.875]
    """
    return 1 - (u.remainder(2) - 1).abs()


class PseudoInputs(Prior):
    """p(z) = (1/C) Σ_c q(z|u_c) with trainable u_c (C, *shape).

    Pseudo-images are clamped to [0, 1] on their way to the encoder, pseudo-vectors are free.
    Refuses a posterior that is not Gaussian, such as a flow.
    """

    def __init__(
        self, sizes: Sizes, components: int, start: Start, start_mean: float, start_std: float
    ) -> None:
        super().__init__()
        self.image = is_image(sizes.shape)
        if start == "random":
            centre = torch.full((components, *sizes.shape), start_mean)
        elif sizes.draw_examples is None:
            raise IncompatibleError(
                "pseudo-inputs that start from data need training examples; use start=random"
            )
        else:
            centre = sizes.draw_examples(components)
        u = centre + start_std * torch.randn_like(centre)
        # outside [0, 1] the clamp has no gradient and a pixel would stay what it is
        self.u = nn.Parameter(reflect(u) if self.image else u)

    def forward(self, encode: Callable[[Tensor], Draw]) -> Density:
        q = encode(self.u.clamp(0, 1) if self.image else self.u).q
        if not isinstance(q, Gaussian):
            raise IncompatibleError(
                "the VampPrior needs a Gaussian posterior, whose density is known at any point; "
                "leave out the part that replaces it"
            )
        return Mixture.even(q)


@model(
    title="VampPrior VAE",
    paper="Tomczak and Welling, 2018",
    url="https://arxiv.org/abs/1705.07120",
    process="z ~ (1/C) Σ_c q(z|u_c) for learned inputs u_c, x ~ p(x|z)",
    use="Samples and likelihood matter more than a simple prior.",
    avoid="Time is short: each step encodes the pseudo-inputs too.",
    bibtex="""@inproceedings{tomczak2018vae,
  title = {{VAE} with a {VampPrior}},
  author = {Tomczak, Jakub M. and Welling, Max},
  booktitle = {International Conference on Artificial Intelligence and Statistics},
  year = {2018}
}""",
)
def vamp_prior(
    *,
    components: Width = 50,
    start: Start = "data",
    start_mean: float = 0.05,
    start_std: NonNegative = 0.01,
) -> Recipe:
    """Make the prior a mixture of the posteriors of learned inputs (Tomczak and Welling, 2018).

    L = E_q(z|x)[−log p(x|z) + log q(z|x) − log p(z)],   p(z) = (1/C) Σ_c q(z|u_c)

    The pseudo-inputs u_c go through the same encoder as the data, so that a step costs as much as
    one with C more images to encode; in a network with batch normalisation they form a batch of
    their own. The KL is the one-sample estimate, which can be negative. Samples come from
    pseudo-inputs picked uniformly (the released code takes the first ones). This is the model with
    one level of latents, without the paper's warm-up of the KL. As with the paper's hardtanh, a
    pixel of a pseudo-image that is trained out of [0, 1] stays there. Refuses posteriors that are
    not Gaussian, such as flows.

    Args:
        components: C, the number of pseudo-inputs; the paper takes 500, which makes steps several
            times slower, so fewer by default.
        start: where pseudo-inputs begin; data at training examples with a little noise, random at
            N(start_mean, start_std²) in every pixel.
        start_mean: of random pseudo-inputs; the paper takes 0.05 on MNIST, 0.5 on Caltech and
            Frey faces, 0.4 on CIFAR. Images are reflected into [0, 1].
        start_std: of the noise; the paper takes 0.01 on data and on MNIST, 0.02 to 0.05 elsewhere.
    """
    return Recipe(
        prior=partial(
            PseudoInputs,
            components=components,
            start=start,
            start_mean=start_mean,
            start_std=start_std,
        )
    )
