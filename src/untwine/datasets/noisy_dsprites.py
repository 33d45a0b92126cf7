"""dSprites in noise: every draw of an image has a background of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.datasets._variants import InColour, base_sprites
from untwine.registry import dataset
from untwine.schema import Range


class Noisy(InColour):
    """Sprites plus uniform noise in every pixel and channel, clipped at 1."""

    def take(self, index: Tensor) -> Tensor:
        noise = torch.rand(len(index), *self.shape, device=index.device)
        return noise.add_(self.sprites.take(index)).clamp_(max=1)


@dataset(
    title="Noisy dSprites",
    paper="Locatello et al., 2019",
    url="https://arxiv.org/abs/1811.12359",
    licence="Apache-2.0 (dSprites)",
    citation="Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of "
    "Disentangled Representations, ICML 2019; Matthey et al., dSprites, 2017",
    files=(),
)
def noisy_dsprites(
    *,
    of: Literal["sprites", "dsprites"] = "sprites",
    size: Annotated[int, Range(16, 128)] = 64,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """White sprites on coloured noise, as in the study of Locatello et al., 2019.

    Each draw of an image takes new noise, uniform in [0, 1] for every pixel and channel, to which
    the sprite is added. The factors are those of dSprites.

    Args:
        of: the sprites: drawn (sprites), or from the published file (dsprites).
        size: side of the images in pixels; 64 for the published file.
        path: the published file, with of=dsprites; downloaded to the cache when empty.
        digest: of the file, filled in by a run that names a path.
    """
    data = base_sprites("noisy-dsprites", of, size, path, digest)
    return replace(data, source=Noisy(data.source))
