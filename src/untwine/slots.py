"""The slots of a VAE. Read this file and you can write any part.

    x --Corruption--> x_in --encoder--> h --Latents--> {name: Latent} --Mapping--> w --decoder--> p(x|w)
                      (train only)         (Posterior + Prior)
                                           Terms read all of it: Trace -> number

Each slot is an abstract class that states its contract. A concrete part is final and contains only
what is new. Every part is built from one `Sizes` record, and is independent of data, devices and
optimisers.
"""  # noqa: E501

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from untwine.distributions import Gaussian
from untwine.records import Batch, Density, Draw, Latent, Sizes, Trace

Extras = dict[str, Tensor]
Encoder = nn.Module
"""(B, *shape) to features (B, F)."""


class Corruption(nn.Module, ABC):
    """Changes the encoder's input during training; the identity otherwise."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.corrupt(x) if self.training else (x, x)

    @abstractmethod
    def corrupt(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Clean x (B, *shape) to the encoder's input and the target, both of the same shape."""


class Posterior(nn.Module, ABC):
    """q(z|x) from the encoder's features."""

    @abstractmethod
    def forward(self, h: Tensor) -> Draw:
        """Features h (B, F) to a reparameterised draw of z (B, D)."""


class Prior(nn.Module, ABC):
    """p(z), with or without trainable parameters."""

    has_clusters: bool = False  # whether its mixture components stand for clusters

    @abstractmethod
    def forward(self, encode: Callable[[Tensor], Draw]) -> Density:
        """The prior; `encode` gives the posterior of any inputs, for priors built from it."""


class Latents(nn.Module, ABC):
    """All latent variables of a model: how they are inferred and how they are generated."""

    out_features: int  # width of the code: all latents that feed the decoder, concatenated
    outlier_cluster: int | None = None  # index of the cluster of outliers

    @abstractmethod
    def forward(
        self, h: Tensor, batch: Batch, encoder: Encoder, *, mean: bool
    ) -> dict[str, Latent]:
        """Features h (B, F) to named latents, in the order in which the decoder sees them.

        `encoder` gives the features of other inputs. With `mean`, deterministic values of the
        latents must not depend on a sample, so that encoding is repeatable.
        """

    @abstractmethod
    def sample(self, n: int, encoder: Encoder) -> Tensor:
        """(n, out_features) codes from the model's own prior."""

    def own_prior(self, shared: Tensor) -> Gaussian:
        """p(own code | shared code) for shared codes (R, G): K Gaussians each, (R, K, D).

        N(0, I) unless the model overrides it.
        """
        zero = shared.new_zeros(len(shared), 1, self.out_features - shared.shape[-1])
        return Gaussian(zero, zero)


class Mapping(nn.Module, ABC):
    """A deterministic function of the code, from z to the w that decoder and metrics see.

    Terms that shape the code, such as the KL, use z; a mapping's own terms may use w.
    """

    out_features: int  # width of w, and so of the decoder's input

    @abstractmethod
    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        """Code z (B, D) to w (B, D') and the named tensors that its own terms read."""


class Term(nn.Module, ABC):
    """One term of the objective.

    The objective multiplies the term named `nll` by `sizes.likelihood_weight`. A term of another
    name that contains log p(x|w) does so itself.
    """

    constant: float = 0.0  # what its estimator adds; left out where the term is shown

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, trace: Trace) -> Tensor:
        """A value per example (B,) or for the whole batch (); summed over pixels and latents."""


class AdversarialTerm(Term, ABC):
    """A term with its own parameters, which minimise a different loss with their own optimiser."""

    lr: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.9)

    @abstractmethod
    def adversary_loss(self, z: Tensor, other: Tensor) -> Tensor:
        """The adversary's loss from codes (B, D) of this batch and of an independent one.

        Both arrive detached: the gradient of an adversary never reaches the model.
        """
