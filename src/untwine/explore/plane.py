"""Points of the plane drawn as images of a dot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from untwine.tools.images import ImageArray

DOT_SIDE = 48  # pixels on each side of an image of a point
DOT_RADIUS = 3.0  # pixels
MARGIN = 0.15  # around the data, as a share of its extent
DATA_BRIGHTNESS = 0.3


class Plane:
    """Draws points as bright dots over a faint plot of the data (N, 2).

    >>> plane = Plane(np.array([[-1.0, -1.0], [1.0, 1.0]]))
    >>> images = plane.dots(np.zeros((1, 2)))
    >>> images.shape, bool(images[0, 0, 24, 24] > 0.9), bool(images[0, 0, 0, 0] > 0)
    ((1, 1, 48, 48), True, False)
    """

    def __init__(self, data: ImageArray) -> None:
        low, high = data.min(0), data.max(0)
        self.span = (1 + 2 * MARGIN) * (float((high - low).max()) or 1.0)
        self.low = (low + high - self.span) / 2
        self.background = np.zeros((DOT_SIDE, DOT_SIDE), np.float32)
        across, up = self._pixels(data).round().astype(int).T
        self.background[DOT_SIDE - 1 - up, across] = DATA_BRIGHTNESS

    def _pixels(self, points: ImageArray) -> ImageArray:
        """(N, 2) pixel positions from the left and from below; points outside are clipped."""
        inside = np.nan_to_num((points - self.low) / self.span)
        return np.clip(inside, 0, 1) * (DOT_SIDE - 1)

    def dots(self, points: ImageArray) -> ImageArray:
        """(N, 1, DOT_SIDE, DOT_SIDE) images of points (N, 2)."""
        centre, place = self._pixels(points), np.arange(DOT_SIDE)
        across = place[None, :] - centre[:, :1]
        up = (DOT_SIDE - 1 - place)[None, :] - centre[:, 1:]
        distance = np.sqrt(across[:, None, :] ** 2 + up[:, :, None] ** 2)
        bright = np.clip(DOT_RADIUS - distance, 0, 1).astype(np.float32)
        return np.maximum(bright, self.background)[:, None]
