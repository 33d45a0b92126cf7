"""Bernoulli, Gaussian and Laplace."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from untwine.records import Likelihood
from untwine.registry import likelihood
from untwine.schema import Natural, Positive


def sum_over_pixels(values: Tensor) -> Tensor:
    """Sum (B, ...) over pixels and channels to (B,)."""
    return values.sum(tuple(range(1, values.dim())))


@dataclass(frozen=True)
class Bernoulli:
    """Independent pixels, on with probability sigmoid(logits); x may be anything in [0, 1]."""

    logits: Tensor

    @property
    def mean(self) -> Tensor:
        return self.logits.sigmoid()

    def log_prob(self, x: Tensor) -> Tensor:
        return -sum_over_pixels(
            F.binary_cross_entropy_with_logits(self.logits, x, reduction="none")
        )

    def sample(self) -> Tensor:
        return torch.bernoulli(self.mean)


@dataclass(frozen=True)
class FixedGaussian:
    """N(mean, variance) in every pixel."""

    mean: Tensor
    variance: float

    def log_prob(self, x: Tensor) -> Tensor:
        constant = math.log(2 * math.pi * self.variance)
        return -sum_over_pixels((x - self.mean).square() / self.variance + constant) / 2

    def sample(self) -> Tensor:
        return self.mean + math.sqrt(self.variance) * torch.randn_like(self.mean)


@dataclass(frozen=True)
class Laplace:
    """Laplace(mean, scale) in every pixel."""

    mean: Tensor
    scale: float

    def log_prob(self, x: Tensor) -> Tensor:
        return -sum_over_pixels((x - self.mean).abs() / self.scale + math.log(2 * self.scale))

    def sample(self) -> Tensor:
        return torch.distributions.Laplace(self.mean, self.scale).sample()


def mean_link(squash: bool) -> Callable[[Tensor], Tensor]:
    """The function from the decoder's output to the mean: a sigmoid, or the identity."""
    return torch.sigmoid if squash else lambda raw: raw


@likelihood(title="Bernoulli", paper="Kingma and Welling, 2014", bounded=True)
def bernoulli(*, pixels: Natural = 0) -> Likelihood:
    """Cross-entropy with logits: Σ [softplus(o) − x·o], as in Kingma and Welling, 2014.

    On pixels that are not 0 or 1 its value has a floor above zero (their entropy).

    Args:
        pixels: weigh the log-likelihood in the training objective as if an image had this many
            pixels, for a paper's weights at another image size; 0 leaves it as it is. Scores and
            the history's `nll` stay in nats.
    """
    return Likelihood(Bernoulli, pixels=pixels)


@likelihood(title="Gaussian", paper="Kingma and Welling, 2014")
def gaussian(*, variance: Positive = 0.5, squash: bool = True, pixels: Natural = 0) -> Likelihood:
    """Fixed variance s²: Σ (x−m)²/(2s²) + ½ log 2πs², as in Kingma and Welling, 2014.

    Minimising it with weight β on the KL equals minimising the sum of squares with weight 2s²β.

    Args:
        variance: s²; 0.5 is the plain sum of squares, UG-VAE uses 0.2.
        squash: pass the mean through a sigmoid, for data in [0, 1].
        pixels: that the training objective counts, as in bernoulli.
    """
    link = mean_link(squash)
    return Likelihood(lambda raw: FixedGaussian(link(raw), variance), pixels=pixels)


@likelihood(title="Laplace", paper="Mathieu et al., 2019")
def laplace(*, scale: Positive = 1.0, squash: bool = True, pixels: Natural = 0) -> Likelihood:
    """Absolute error: Σ |x−m|/b + log 2b, as in Mathieu et al., 2019.

    Args:
        scale: b; Mathieu et al. use 0.1.
        squash: pass the mean through a sigmoid, for data in [0, 1].
        pixels: that the training objective counts, as in bernoulli.
    """
    link = mean_link(squash)
    return Likelihood(lambda raw: Laplace(link(raw), scale), pixels=pixels)
