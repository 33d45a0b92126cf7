"""The slots of a VAE. Read this file and you can write any part.

    x --Corruption--> x_in --encoder--> h --Latents--> {name: Latent} --Mapping--> w --decoder--> p(x|w)
                      (train only)         (Posterior + Prior)
                                           Terms read all of it: Trace -> number

Each slot is abstract with its contract written here; a concrete part is final and says only what is
new. Every part is built from one `Sizes` record and knows nothing of data, devices or optimisers.
"""  # noqa: E501

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from untwine.records import Batch, Density, Draw, Latent, Sizes, Trace

Facts = dict[str, Tensor]
Encode = nn.Module
"""The encoder: (B, *shape) to features (B, F)."""


class Corruption(nn.Module, ABC):
    """What the encoder sees instead of x while training; the identity otherwise."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.corrupt(x) if self.training else (x, x)

    @abstractmethod
    def corrupt(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Clean x (B, *shape) to the encoder's input and the reconstruction target, same shape."""


class Posterior(nn.Module, ABC):
    """q(z|x) from the encoder's features."""

    @abstractmethod
    def forward(self, h: Tensor) -> Draw:
        """Features h (B, F) to a reparameterised draw of z (B, D)."""


class Prior(nn.Module, ABC):
    """p(z), with or without parameters of its own."""

    @abstractmethod
    def forward(self, encode: Callable[[Tensor], Draw]) -> Density:
        """The prior; `encode` is the current posterior of any inputs, for priors made of it."""


class Latents(nn.Module, ABC):
    """All latent variables of a model: how they are inferred and how they are generated."""

    out_features: int  # the width of the code: the decoded latents side by side

    @abstractmethod
    def forward(self, h: Tensor, batch: Batch, encoder: Encode, *, mean: bool) -> dict[str, Latent]:
        """Features h (B, F) to named latents, in the order in which the decoder sees them.

        `encoder` gives the features of other inputs. With `mean`, deterministic values of the
        latents must not depend on a sample, so that encoding is repeatable.
        """

    @abstractmethod
    def sample(self, n: int, encoder: Encode) -> Tensor:
        """(n, out_features) codes from the model's own prior."""


class Mapping(nn.Module, ABC):
    """A deterministic function of the code; terms see z, decoder and metrics see w."""

    out_features: int  # the width of w, which sizes the decoder

    @abstractmethod
    def forward(self, z: Tensor) -> tuple[Tensor, Facts]:
        """Code z (B, D) to w (B, D') and the named tensors that its own terms want to read."""


class Term(nn.Module, ABC):
    """One summand of the objective."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, trace: Trace) -> Tensor:
        """A value per example (B,) or for the whole batch (); summed over pixels and latents."""


class AdversarialTerm(Term, ABC):
    """A term with parameters of its own that minimise another loss with another optimiser."""

    lr: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.9)

    @abstractmethod
    def adversary_loss(self, z: Tensor, other: Tensor) -> Tensor:
        """The adversary's loss from codes (B, D) of this batch and of an independent one.

        Both arrive detached: the gradient of an adversary never reaches the model.
        """
