"""dSprites in colour: every draw of an image has a colour of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.datasets._variants import InColour, base_sprites
from untwine.registry import dataset
from untwine.schema import Range


class Coloured(InColour):
    """Sprites times one colour per image, each channel uniform from 0.5 to 1."""

    def take(self, index: Tensor) -> Tensor:
        colour = 0.5 + 0.5 * torch.rand(len(index), 3, 1, 1, device=index.device)
        return self.sprites.take(index) * colour


@dataset(
    title="Colour dSprites",
    paper="Locatello et al., 2019",
    url="https://arxiv.org/abs/1811.12359",
    licence="Apache-2.0 (dSprites)",
    citation="Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of "
    "Disentangled Representations, ICML 2019; Matthey et al., dSprites, 2017",
    files=(),
)
def colour_dsprites(
    *,
    of: Literal["sprites", "dsprites"] = "sprites",
    size: Annotated[int, Range(16, 128)] = 64,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Sprites in colour on black, as in the study of Locatello et al., 2019.

    Each draw of an image takes a new colour, with every channel uniform from 0.5 to 1. The factors
    are those of dSprites: colour is noise, not a factor.

    Args:
        of: the sprites: drawn (sprites), or from the published file (dsprites).
        size: side of the images in pixels; 64 for the published file.
        path: the published file, with of=dsprites; downloaded to the cache when empty.
        digest: of the file, filled in by a run that names a path.
    """
    data = base_sprites("colour-dsprites", of, size, path, digest)
    return replace(data, source=Coloured(data.source))
