"""The default of every slot: one Gaussian latent, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from untwine.distributions import Gaussian
from untwine.records import Batch, Density, Draw, Latent, Likelihood, Network, Sizes
from untwine.slots import Corruption, Encoder, Extras, Latents, Mapping, Posterior, Prior
from untwine.tools.compute import frozen_statistics


def divergence(draw: Draw, p: Density) -> Tensor:
    """KL(q ‖ p) per row: exact between Gaussians, else the one-sample estimate at `draw.z`."""
    if isinstance(draw.q, Gaussian) and isinstance(p, Gaussian):
        return draw.q.kl(p)
    return draw.log_q - p.log_prob(draw.z)


class GaussianPosterior(Posterior):
    """q(z|x) = N(μ(h), diag σ²(h)), both linear in the features h."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.head = nn.Linear(sizes.features, 2 * sizes.latent)

    def forward(self, h: Tensor) -> Draw:
        q = Gaussian(*self.head(h).chunk(2, -1))
        return Draw(q.sample(), q.mean, q)


class StandardNormal(Prior):
    """p(z) = N(0, I)."""

    zero: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(sizes.latent), persistent=False)

    def forward(self, encode: Callable[[Tensor], Draw]) -> Density:
        return Gaussian(self.zero, self.zero)


class SingleLatent(Latents):
    """One latent variable z: any posterior with any prior."""

    def __init__(
        self,
        sizes: Sizes,
        posterior: Callable[[Sizes], Posterior],
        prior: Callable[[Sizes], Prior],
    ) -> None:
        super().__init__()
        self.posterior, self.prior = posterior(sizes), prior(sizes)
        self.out_features = sizes.latent

    def forward(
        self, h: Tensor, batch: Batch, encoder: Encoder, *, mean: bool
    ) -> dict[str, Latent]:
        draw = self.posterior(h)
        p = self.prior(self._encode_with(encoder))
        return {"z": Latent(draw, divergence(draw, p), p)}

    def sample(self, n: int, encoder: Encoder) -> Tensor:
        return self.prior(self._encode_with(encoder)).sample((n,))

    def _encode_with(self, encoder: Encoder) -> Callable[[Tensor], Draw]:
        """The posterior of inputs other than data, without touching running statistics."""

        def encode(x: Tensor) -> Draw:
            with frozen_statistics(encoder):
                return self.posterior(encoder(x))

        return encode


class IdentityMapping(Mapping):
    """w = z."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.out_features = sizes.latent

    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        return z, {}


class NoCorruption(Corruption):
    """The encoder sees x itself."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def corrupt(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class View(nn.Module):
    """How the encoder sees data of one kind, such as counts."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def add_view(network: Network, likelihood: Likelihood) -> Network:
    """The network with an encoder that sees data as the likelihood asks."""
    view = likelihood.view
    if view is None:
        return network
    return replace(network, encoder=lambda shape: nn.Sequential(View(view), network.encoder(shape)))
