"""dSprites without a download: every image is drawn from its factors, pixel for pixel."""

from __future__ import annotations

import math
from typing import Annotated, Self

import torch
from torch import Tensor

from untwine.data.dataset import Dataset, Factors
from untwine.registry import dataset
from untwine.schema import Range

FACTORS = Factors(
    ("shape", "scale", "orientation", "position x", "position y"),
    (3, 6, 40, 32, 32),
    unordered=("shape",),
    level_names={"shape": ("square", "ellipse", "heart")},
)
SCALES, ORIENTATIONS, POSITIONS = FACTORS.sizes[1:4]
PLACES = POSITIONS * POSITIONS
POSES = SCALES * ORIENTATIONS
SUBPIXEL = 256  # vertices lie on a grid of 1/256 pixel
MIN_IMAGES_TO_COMPILE = 64_000
"""Images that must be drawn before the compiled loop repays the 0.7 s that loading it takes."""


def outlines() -> list[Tensor]:
    """The square, the ellipse and the heart as (V, 2) corners, x right and y down, at 64 pixels."""
    square = torch.tensor([[-9.6, -9.6], [9.6, -9.6], [9.6, 9.6], [-9.6, 9.6]]).double()
    a = torch.arange(100).double() * (2 * math.pi / 100)
    ellipse = torch.stack([9.6 * 1.33 * a.cos(), 9.6 / 1.33 * a.sin()], 1)
    t = torch.arange(150).double() * (2 * math.pi / 150)
    bumps = 13 * t.cos() - 5 * (2 * t).cos() - 2 * (3 * t).cos() - (4 * t).cos()
    heart = torch.stack([9.6 * t.sin() ** 3, -(19.2 / 29) * bumps - 1.44], 1)
    return [square, ellipse, heart]


class Sprites:
    """A renderer of the factor grid: even-odd filling of polygons, all images of a batch at once.

    For every edge of an outline the table holds one slot per row of pixels that the edge can cross.
    A crossing flips all pixels to its right, so an image is the running parity of its crossings.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.shape = torch.Size((1, size, size))
        slots = [_slots(outline * size / 64) for outline in outlines()]
        width = max(len(row) for _, row in slots)
        pad = torch.nn.functional.pad
        # An edge padded with zeros is horizontal and crosses no row.
        edges = [pad(_poses(edge), (0, 0, 0, width - len(edge))) for edge, _ in slots]
        self.edges = torch.cat(edges)  # (720, E, 4): x0, y0, x1, y1 about the centre
        self.row = torch.stack([pad(row, (0, width - len(row))) for _, row in slots])  # (3, E)
        self.n_drawn = 0

    def __len__(self) -> int:
        return math.prod(FACTORS.sizes)

    def to(self, device: torch.device) -> Self:
        # Exact filling needs double precision, which Apple's GPUs lack: there images are drawn on
        # the CPU and handed over.
        home = torch.device("cpu") if device.type == "mps" else device
        moved = object.__new__(type(self))
        moved.__dict__.update(self.__dict__)
        moved.edges, moved.row = self.edges.to(home), self.row.to(home)
        return moved

    def take(self, index: Tensor) -> Tensor:
        """(B,) positions in the grid to (B, 1, size, size) zeros and ones.

        On a CPU a compiled loop draws the same images two to five times faster.
        """
        device, index = index.device, index.to(self.edges.device)
        pose, centre = index // PLACES, self._centres(index)
        self.n_drawn += len(index)
        if self.n_drawn > MIN_IMAGES_TO_COMPILE and self.edges.device.type == "cpu":
            return self._fill_compiled(pose, centre).to(device)
        return self._fill(pose, centre).to(device)

    def _fill_compiled(self, pose: Tensor, centre: Tensor) -> Tensor:
        from untwine.renderers.polygons import fill_polygons

        images = torch.empty(len(pose), *self.shape)
        inputs = [tensor.numpy() for tensor in (self.edges, self.row, pose, centre)]
        fill_polygons(*inputs, SUBPIXEL, images.numpy())
        return images

    def _fill(self, pose: Tensor, centre: Tensor) -> Tensor:
        n, size = len(pose), self.size
        row, column = self._crossings(pose, centre)
        image = torch.arange(n, device=pose.device)[:, None]
        place = ((image * size + row) * (size + 1) + column).long().flatten()
        flips = torch.zeros(n * size * (size + 1), dtype=torch.uint8, device=pose.device)
        flips.scatter_add_(0, place, torch.ones_like(place, dtype=torch.uint8))
        parity = flips.view(n, 1, size, size + 1)[..., :size].cumsum(-1, dtype=torch.uint8) & 1
        return parity.float()

    def _centres(self, index: Tensor) -> Tensor:
        """(B,) -> (B, 4) the sprite's centre as x, y, x, y."""
        x, y = index // POSITIONS % POSITIONS, index % POSITIONS
        xy = torch.stack([x, y, x, y], -1).double() / (POSITIONS - 1)
        return (16 + 32 * xy) * (self.size / 64)

    def _crossings(self, pose: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
        """(B, E) the row and the first column right of each crossing; column `size` is none.

        A pixel is sampled at its centre; a centre on an edge belongs to left and bottom edges.
        Numbers are whole and below 2^31, so double precision is exact where it decides.
        """
        ends = ((self.edges[pose] + centre[:, None]) * SUBPIXEL).round()
        x0, y0, x1, y1 = ends.unbind(-1)
        up = y0 > y1
        x0, x1 = torch.where(up, x1, x0), torch.where(up, x0, x1)
        y0, y1 = torch.where(up, y1, y0), torch.where(up, y0, y1)
        half = SUBPIXEL // 2
        row = ((y0 - half) / SUBPIXEL).floor() + 1 + self.row[pose // POSES]
        y = row * SUBPIXEL + half
        x = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
        column = ((x - half) / SUBPIXEL).ceil()
        crosses = y <= y1
        return torch.where(crosses, row, 0), torch.where(crosses, column, self.size)


def _slots(outline: Tensor) -> tuple[Tensor, Tensor]:
    """(V, 2) corners to edges (E, 4), one for each row that it can cross, and that row (E,)."""
    edge = torch.cat([outline, outline.roll(-1, 0)], 1)
    length = (edge[:, :2] - edge[:, 2:]).norm(dim=1) + 2 / SUBPIXEL
    rows = length.floor().long() + 1
    return edge.repeat_interleave(rows, 0), torch.cat([torch.arange(int(n)) for n in rows])


def _poses(edge: Tensor) -> Tensor:
    """(E, 4) edges in every scale and orientation, (240, E, 4)."""
    scale = 0.5 + 0.5 * torch.arange(SCALES).double() / (SCALES - 1)
    angle = 2 * math.pi * torch.arange(ORIENTATIONS).double() / (ORIENTATIONS - 1)
    cos, sin = angle.cos(), angle.sin()
    # Counter-clockwise on the screen, where y points down.
    turn = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
    ends = torch.einsum("s,oij,epj->soepi", scale, turn, edge.view(-1, 2, 2))
    return ends.reshape(POSES, len(edge), 4)


@dataset(
    title="dSprites, regenerated",
    paper="Matthey et al., 2017",
    url="https://github.com/google-deepmind/dsprites-dataset",
    licence="Apache-2.0 (geometry of dSprites)",
    citation="Matthey, Higgins, Hassabis, Lerchner, dSprites: Disentanglement testing Sprites "
    "dataset, 2017",
)
def sprites(*, size: Annotated[int, Range(16, 128)] = 64) -> Dataset:
    """All 737,280 images of dSprites (Matthey et al., 2017), regenerated from their factors.

    Black and white squares, ellipses and hearts: 3 shapes x 6 scales x 40 orientations x 32 x 32
    positions, in the order of the original file. At 64 pixels every image equals the original bit
    for bit; other sizes draw the same geometry.

    Args:
        size: side of the images in pixels.
    """
    return Dataset(Sprites(size), FACTORS)
