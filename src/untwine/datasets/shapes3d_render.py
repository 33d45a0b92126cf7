"""3D Shapes without a download: a room and what stands in it, drawn from the factors."""

from __future__ import annotations

import colorsys
import functools
import math
from dataclasses import dataclass
from typing import Annotated, Self

import torch
from torch import Tensor

from untwine.data.dataset import Dataset, Factors
from untwine.registry import dataset
from untwine.renderers import room
from untwine.schema import Range

FACTORS = Factors(
    ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation"),
    (10, 10, 10, 8, 4, 15),
    unordered=("shape",),
    level_names={"shape": ("cube", "cylinder", "sphere", "capsule")},
)
HUES, SCALES, SHAPES, ORIENTATIONS = FACTORS.sizes[2:]
VIEWS = SCALES * SHAPES * ORIENTATIONS  # all that changes the geometry
SKY = (0.86, 0.93, 1.0)
CPU = torch.device("cpu")


@functools.lru_cache(maxsize=2)
def weights(size: int) -> Tensor:
    """(480, 4, size * size) bytes: how much floor, wall, object and white is in each pixel.

    The first axis runs over scale, shape and orientation, the last fastest.
    """
    angles = torch.linspace(-math.pi / 6, math.pi / 6, ORIENTATIONS, dtype=torch.float64)
    dark = [room.shadow(cast, torch.float64) for cast in room.SOLIDS]
    # One camera at a time, so that memory stays small.
    drawn = [_render_view(room.views(angle[None], size), dark, size) for angle in angles]
    return torch.cat(drawn, 1).flatten(0, 1)


def _render_view(view: room.View, dark: list[Tensor], size: int) -> Tensor:
    """(32, 1, 4, size * size) bytes: all scales and shapes from one camera."""
    empty = room.room(view)
    return torch.stack(
        [
            room.pixels(room.add_solid(empty, view, cast, dark[shape], scale), size)
            for scale in torch.linspace(0.75, 1.25, SCALES).tolist()
            for shape, cast in enumerate(room.SOLIDS)
        ]
    )


def palette() -> Tensor:
    """(11, 3) up to 255: the colours of the hues 0, 0.1, ..., 0.9, and the pale sky."""
    colours = [colorsys.hsv_to_rgb(k / HUES, 0.95, 1.0) for k in range(HUES)]
    return torch.tensor([*colours, SKY]).mul(255).round()


@dataclass(frozen=True)
class Rooms:
    """A renderer of the factor grid: geometry from a table, colours mixed pixel by pixel.

    Weights and colours are whole numbers up to 255, so that every sum is exact: an image has the
    same bits alone, in a batch, and on every device.
    """

    size: int
    device: torch.device = CPU

    @property
    def shape(self) -> torch.Size:
        return torch.Size((3, self.size, self.size))

    def __len__(self) -> int:
        return math.prod(FACTORS.sizes)

    def to(self, device: torch.device) -> Self:
        return type(self)(self.size, device)

    @functools.cached_property
    def tables(self) -> tuple[Tensor, Tensor]:
        """The weights of all views and the colours, made when the first image is wanted."""
        return weights(self.size).to(self.device), palette().to(self.device)

    def take(self, index: Tensor) -> Tensor:
        """(B,) positions in the grid to (B, 3, size, size) colours."""
        views, hues = self.tables
        place, view = index // VIEWS, index % VIEWS
        floor, wall, thing = (hues[place // HUES**k % HUES] for k in (2, 1, 0))
        colours = torch.stack([floor, wall, thing, hues[HUES].expand_as(floor)], 2)  # (B, 3, 4)
        mixed = torch.bmm(colours, views.index_select(0, view).float())
        return mixed.div_(255 * 255).view(len(index), *self.shape)


@dataset(
    title="3D Shapes, rendered",
    paper="Burgess and Kim, 2018",
    url="https://github.com/google-deepmind/3d-shapes",
    licence="Apache-2.0 (drawn by untwine)",
    citation="Burgess, C. and Kim, H. (2018). 3D Shapes Dataset.",
)
def shapes3d_render(*, size: Annotated[int, Range(16, 128)] = 64) -> Dataset:
    """A stand-in for 3D Shapes (Burgess and Kim, 2018) that needs no download.

    A cube, cylinder, sphere or capsule in the corner of a room: 10 floor, 10 wall and 10 object
    hues x 8 scales x 4 shapes x 15 orientations, 480,000 images in the order of the original file.
    The factors and their values are the published ones (scales 0.75 to 1.25, orientations of the
    camera from -30 to 30 degrees); the pictures are ray cast here and only resemble the original.

    Args:
        size: side of the images in pixels.
    """
    return Dataset(Rooms(size), FACTORS)
