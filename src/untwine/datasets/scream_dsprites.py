"""dSprites on a painting: every draw of an image has a piece of it as background."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.cache import cache_directory, check_digest, digest_of, digest_of_files
from untwine.data.dataset import Dataset
from untwine.data.files import existing_path
from untwine.datasets._variants import InColour, base_sprites, random_crops, read_painting
from untwine.datasets.sprites import FACTORS
from untwine.registry import dataset
from untwine.renderers.painting import paint_fjord
from untwine.schema import Range

PAINTING = "the_scream.jpg"  # in the cache; any picture of it will do


@dataclass(frozen=True)
class Screaming(InColour):
    """Pieces of a painting averaged with one uniform colour; sprites show one minus that."""

    painting: Tensor  # (H, W, 3) in [0, 1]

    def take(self, index: Tensor) -> Tensor:
        background = random_crops(self.painting, self.shape[-1], len(index))
        background.add_(torch.rand(len(index), 3, 1, 1, device=index.device)).div_(2)
        return background.sub_(self.sprites.take(index)).abs_()

    def to(self, device: torch.device) -> Self:
        return replace(self, sprites=self.sprites.to(device), painting=self.painting.to(device))


def _painting(path: str, size: int) -> tuple[NDArray[np.uint8], str]:
    """The picture and its digest."""
    file = existing_path(path, "picture") if path else cache_directory() / PAINTING
    if path or file.is_file():
        return read_painting(file, size), digest_of_files([file])
    return paint_fjord(size), "painted"


@dataset(
    title="Scream dSprites",
    paper="Locatello et al., 2019",
    url="https://arxiv.org/abs/1811.12359",
    licence="Apache-2.0 (dSprites); the painting is in the public domain",
    citation="Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of "
    "Disentangled Representations, ICML 2019; Matthey et al., dSprites, 2017",
    examples="737,280 of 3x64x64",
    factors=FACTORS.names,
)
def scream_dsprites(
    *,
    of: Literal["sprites", "dsprites"] = "sprites",
    size: Annotated[int, Range(16, 128)] = 64,
    painting: str = "",
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Sprites on pieces of Munch's The Scream, as in the study of Locatello et al., 2019.

    Each draw of an image takes a new piece of the painting, fitted into 350 x 274 pixels, at a
    uniform place, averaged with one uniform colour; the pixels of the sprite show one minus that.
    The factors are those of dSprites. Without a picture of the painting, one in its manner is
    drawn.

    Args:
        of: the sprites: drawn (sprites), or from the published file (dsprites).
        size: side of the images in pixels; 64 for the published file.
        painting: a picture; when empty, the_scream.jpg in the cache, or else a drawn one.
        path: the published file, with of=dsprites; downloaded to the cache when empty.
        digest: of painting and file, filled in by a run.
    """
    data = base_sprites("scream-dsprites", of, size, path, "")
    picture, picture_digest = _painting(painting, size)
    both = digest_of([("sprites", data.digest.encode()), ("painting", picture_digest.encode())])
    check_digest(painting or str(cache_directory() / PAINTING), digest, both)
    scene = torch.from_numpy(picture.astype(np.float32) / 255)
    return replace(data, source=Screaming(data.source, scene), digest=both)
