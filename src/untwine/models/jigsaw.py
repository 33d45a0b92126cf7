"""Jigsaw-VAE: encode a shuffled image, reconstruct the whole one."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from untwine.errors import IncompatibleError
from untwine.models._papers import TAGHANAKI_2020
from untwine.records import Sizes, is_image
from untwine.registry import model
from untwine.schema import Width
from untwine.slots import Corruption
from untwine.vae import Recipe

Shuffle = Literal["windows", "channels", "both"]


def shuffle_windows(x: Tensor, order: Tensor, grid: int) -> Tensor:
    """Images (B, C, H, W) cut into grid x grid windows; cell k shows window order[b, k]."""
    b, c, h, w = x.shape
    cells = x.reshape(b, c, grid, h // grid, grid, w // grid)
    windows = cells.permute(0, 2, 4, 1, 3, 5).reshape(b, grid * grid, -1)  # (B, cells, pixels)
    windows = windows.gather(1, order[..., None].expand_as(windows))
    cells = windows.view(b, grid, grid, c, h // grid, w // grid).permute(0, 3, 1, 4, 2, 5)
    return cells.reshape(b, c, h, w)


def permutations(n: int, k: int, device: torch.device) -> Tensor:
    """(n, k) independent uniform permutations of 0 … k−1."""
    return torch.rand(n, k, device=device).argsort(1)


class Jigsaw(Corruption):
    """Permute the windows of a grid, the colour channels, or both; anew for every example."""

    def __init__(self, sizes: Sizes, grid: int, shuffle: Shuffle) -> None:
        super().__init__()
        self.grid, self.shuffle = grid, shuffle
        if not is_image(sizes.shape):
            raise IncompatibleError(f"jigsaw needs images, not data of shape {tuple(sizes.shape)}")
        channels, height, width = sizes.shape
        if shuffle != "channels" and (height % grid or width % grid):
            raise IncompatibleError(
                f"images of {width}x{height} pixels cannot be cut into {grid}x{grid} windows; "
                "choose a grid that divides both sides"
            )
        if shuffle == "channels" and channels == 1:
            raise IncompatibleError("images with one channel have no channels to shuffle")

    def corrupt(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shuffled = x
        if self.shuffle != "channels":
            order = permutations(len(x), self.grid**2, x.device)
            shuffled = shuffle_windows(shuffled, order, self.grid)
        if self.shuffle != "windows":
            order = permutations(len(x), x.shape[1], x.device)
            shuffled = shuffled.gather(1, order[..., None, None].expand_as(shuffled))
        return shuffled, x


@model(
    title="Jigsaw-VAE",
    paper="Taghanaki et al., 2020",
    url="https://arxiv.org/abs/2005.05496",
    use="Rare features should survive, and images are aligned.",
    avoid="Position is a factor: shuffled windows destroy it.",
    bibtex=TAGHANAKI_2020,
)
def jigsaw(*, grid: Width = 4, shuffle: Shuffle = "windows") -> Recipe:
    """Encode a shuffled image and reconstruct the whole one (Taghanaki et al., 2020).

    L = E_j E_q(z|j(x))[−log p(x|z)] + KL(q(z|j(x)) ‖ N(0, I))

    Every example has a permutation of its own in every step; channels are permuted once per image.
    At evaluation the image is encoded as it is. `jigsaw+beta-vae` is Jigsaw-β-VAE. The paper leaves
    open what is shuffled for faces; for coloured digits it is both. Shuffled windows suit images
    that are aligned, such as faces and centred digits: where position is a factor, as in sprites,
    they destroy it, and no training brings it back.

    Args:
        grid: windows along each side; 4 in the paper, 1 is no shuffling.
        shuffle: windows, channels, or both.
    """
    return Recipe(corruption=partial(Jigsaw, grid=grid, shuffle=shuffle))
