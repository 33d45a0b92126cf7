"""Denoising VAE: encode a noisy image, reconstruct the clean one."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from untwine.errors import IncompatibleError
from untwine.records import Sizes, is_image
from untwine.registry import model
from untwine.schema import NonNegative, Share
from untwine.slots import Corruption
from untwine.vae import Recipe

Noise = Literal["gaussian", "salt-and-pepper"]


class AddNoise(Corruption):
    """Gaussian noise, or pixels set to black or white; images stay in [0, 1]."""

    def __init__(self, sizes: Sizes, noise: Noise, sigma: float, rate: float) -> None:
        super().__init__()
        self.noise, self.sigma, self.rate = noise, sigma, rate
        self.is_image = is_image(sizes.shape)
        if noise == "salt-and-pepper" and not self.is_image:
            raise IncompatibleError("salt-and-pepper noise needs images; choose gaussian noise")

    def corrupt(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.noise == "gaussian":
            noisy = x + self.sigma * torch.randn_like(x)
            return (noisy.clamp(0, 1) if self.is_image else noisy), x
        hit, white = torch.rand_like(x) < self.rate, torch.rand_like(x) < 0.5
        return torch.where(hit, white.to(x), x), x


@model(
    title="Denoising VAE",
    paper="Im et al., 2017",
    url="https://arxiv.org/abs/1511.06406",
    use="Inputs are noisy, or the code should ignore noise.",
    avoid="Fine detail is what the code is for.",
    bibtex="""@inproceedings{im2017denoising,
  title = {Denoising Criterion for Variational Auto-Encoding Framework},
  author = {Im, Daniel Jiwoong and Ahn, Sungjin and Memisevic, Roland and Bengio, Yoshua},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2017}
}""",
)
def denoising(*, noise: Noise = "gaussian", sigma: NonNegative = 0.1, rate: Share = 0.05) -> Recipe:
    """Encode a corrupted image and reconstruct the clean one (Im et al., 2017).

    L = E_x̃|x E_q(z|x̃)[−log p(x|z)] + KL(q(z|x̃) ‖ N(0, I))

    One corruption per example and step; the KL is that of the corrupted input. At evaluation the
    clean image is encoded.

    Args:
        noise: gaussian, or salt-and-pepper as in the paper on digits.
        sigma: standard deviation of Gaussian noise.
        rate: share of pixels that salt-and-pepper sets to 0 or 1; 0.05 does best in the paper.
    """
    return Recipe(corruption=partial(AddNoise, noise=noise, sigma=sigma, rate=rate))
