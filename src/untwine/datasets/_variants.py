"""What the variants of dSprites share: the sprites themselves, colours, crops of a painting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset, Source
from untwine.data.files import obtain
from untwine.data.incoming.pictures import convert_picture, decode_picture, read_picture_file
from untwine.datasets.dsprites import FILE, dsprites
from untwine.datasets.sprites import sprites
from untwine.errors import DataError, ParameterError
from untwine.renderers.painting import frame_size


def base_sprites(name: str, of: str, size: int, path: str, digest: str) -> Dataset:
    """The black and white sprites behind a variant: drawn, or those of the published file."""
    if of == "dsprites":
        if size != 64:
            raise ParameterError(
                f"{name}.size must be 64 with of=dsprites, whose images are stored"
            )
        file = path or str(obtain(name, [FILE])[0])  # so that errors name this variant
        data = dsprites(path=file, digest=digest)
        return data if path else replace(data, digest="")
    if path:
        raise ParameterError(f"{name}.path names the file of dSprites; write of=dsprites with it")
    return sprites(size=size)


@dataclass(frozen=True)
class InColour:
    """Sprites that are changed into three channels, anew at every draw."""

    sprites: Source

    @property
    def shape(self) -> torch.Size:
        return torch.Size((3, *self.sprites.shape[1:]))

    def __len__(self) -> int:
        return len(self.sprites)

    def to(self, device: torch.device) -> Self:
        return type(self)(self.sprites.to(device))


def read_painting(path: Path, size: int) -> NDArray[np.uint8]:
    """(H, W, 3) a picture, fitted into the frame for images of this size."""
    from PIL.Image import Resampling

    try:
        image = convert_picture(decode_picture(read_picture_file(path)), "RGB")
    except DataError as error:
        raise DataError(f"{path} {error}; name another as the painting") from None
    image.thumbnail(frame_size(size), Resampling.BICUBIC)
    if min(image.size) < size:
        raise DataError(
            f"{path} is too small or too narrow to cut {size} x {size} pixels out of it"
        )
    return np.asarray(image)


def random_crops(painting: Tensor, size: int, n: int) -> Tensor:
    """(n, 3, size, size) pieces of a painting (H, W, 3), at uniform places."""
    windows = painting.unfold(0, size, 1).unfold(1, size, 1)
    row = torch.randint(windows.shape[0], (n,), device=painting.device)
    column = torch.randint(windows.shape[1], (n,), device=painting.device)
    return windows[row, column]
