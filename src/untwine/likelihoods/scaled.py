"""Likelihoods with a learned scale: the decoder outputs a scale as well as a mean."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from untwine.distributions import Gaussian
from untwine.likelihoods.basic import mean_link, sum_over_pixels
from untwine.records import Likelihood
from untwine.registry import likelihood
from untwine.schema import Natural, Positive

BINS = 256


@dataclass(frozen=True)
class LearnedGaussian:
    """N(mean, exp(logvar)) in every pixel, each with its own variance."""

    mean: Tensor
    logvar: Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        return sum_over_pixels(Gaussian(self.mean, self.logvar).log_prob_per_dim(x))

    def sample(self) -> Tensor:
        return Gaussian(self.mean, self.logvar).sample()


@dataclass(frozen=True)
class Logistic256:
    """Logistic(mean, exp(log_scale)) cut into 256 bins, in every pixel.

    Bin k holds [k/256, (k+1)/256), the brightness k/255 of a byte among them; the outermost bins
    reach to infinity. `mean` is that of the logistic before it is cut.
    """

    mean: Tensor
    log_scale: Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        k = (x * BINS).floor().clamp(0, BINS - 1)
        inverse = (-self.log_scale).exp()
        above = ((k + 1) / BINS - self.mean) * inverse
        below = (k / BINS - self.mean) * inverse
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − e^{b−a}), whose logarithm is exact far from the mean too.
        upper = F.logsigmoid(above).where(k < BINS - 1, 0)
        lower = F.logsigmoid(-below).where(k > 0, 0)
        width = (-torch.expm1(-inverse / BINS)).log().where((k > 0) & (k < BINS - 1), 0)
        return sum_over_pixels(upper + lower + width)

    def sample(self) -> Tensor:
        """Brightnesses k/255."""
        x = self.mean + self.log_scale.exp() * torch.rand_like(self.mean).logit()
        return (x * BINS).floor().clamp(0, BINS - 1) / (BINS - 1)


@likelihood(title="Gaussian with learned variance", paper="Bouchacourt et al., 2018")
def learned_gaussian(
    *, bound: Positive = 1.0, squash: bool = False, pixels: Natural = 0
) -> Likelihood:
    """Mean and log-variance ℓ per pixel: ½ Σ [(x−m)² e^{−ℓ} + ℓ + log 2π], as in Bouchacourt et al., 2018.

    ℓ = c·tanh(o/c) for the decoder's output o and the bound c, so that no pixel's variance can
    vanish.

    Args:
        bound: c; the log-variance stays within [−c, c]. ML-VAE has 1.
        squash: pass the mean through a sigmoid, for data in [0, 1]; ML-VAE does not.
        pixels: that the training objective counts, as in bernoulli.
    """  # noqa: E501
    link = mean_link(squash)

    def observe(raw: Tensor) -> LearnedGaussian:
        mean, logvar = raw.chunk(2, 1)
        return LearnedGaussian(link(mean), bound * torch.tanh(logvar / bound))

    return Likelihood(observe, outputs=2, pixels=pixels)


@likelihood(title="Logistic in 256 bins", paper="Tomczak and Welling, 2018", bounded=True)
def logistic256(*, pixels: Natural = 0) -> Likelihood:
    """Bytes: log [σ((x+1/256−m)/s) − σ((x−m)/s)] for x on the grid of 1/256, as in Tomczak and Welling, 2018.

    The mean is a sigmoid kept within [1/512, 1 − 1/512], log s is kept within [−4.5, 0]. Unlike in
    the paper's code the outermost bins take all that lies beyond them, so that the 256 bins sum to
    one, and nothing is added inside the logarithm.

    Args:
        pixels: that the training objective counts, as in bernoulli.
    """  # noqa: E501

    def observe(raw: Tensor) -> Logistic256:
        mean, log_scale = raw.chunk(2, 1)
        edge = 0.5 / BINS
        return Logistic256(mean.sigmoid().clamp(edge, 1 - edge), F.hardtanh(log_scale, -4.5, 0.0))

    return Likelihood(observe, outputs=2, pixels=pixels)
