"""Images side by side as one small PNG, quickly; points of the plane as images of a dot."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.floating]
Bytes = NDArray[np.uint8]
FAST = 1  # of zlib's levels: small pictures hardly get smaller with a slower one
DOT = 48  # pixels of each side of the plane in which a point is drawn
RADIUS, MARGIN, FAINT = 3.0, 0.15, 0.3


def as_bytes(images: Images) -> Bytes:
    """Numbers in [0, 1] as bytes."""
    return np.rint(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8)


def png(images: Bytes) -> bytes:
    """(R, C, channels, H, W) images as one PNG of R rows and C columns without gaps.

    >>> png(np.zeros((2, 3, 1, 8, 8), np.uint8))[:4]
    b'\\x89PNG'
    """
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(joined(images)).save(stream, "PNG", compress_level=FAST)
    return stream.getvalue()


def joined(images: Bytes) -> Bytes:
    """The same as an array: (R · H, C · W) for grey images, with 3 or 4 channels for others.

    Two channels are shown as red and green.

    >>> joined(np.zeros((2, 3, 1, 8, 8), np.uint8)).shape
    (16, 24)
    >>> joined(np.zeros((1, 1, 2, 4, 4), np.uint8)).shape
    (4, 4, 3)
    """
    rows, columns, channels, height, width = images.shape
    sheet = images.transpose(0, 3, 1, 4, 2).reshape(rows * height, columns * width, channels)
    if channels == 2:
        sheet = np.concatenate([sheet, np.zeros_like(sheet[..., :1])], -1)
    return sheet[..., 0] if channels == 1 else sheet


def sheet(images: Bytes, columns: int) -> bytes:
    """(N, channels, H, W) images as one PNG, row after row; what is left of the last is black."""
    rows = -(-len(images) // columns)
    whole = np.zeros((rows * columns, *images.shape[1:]), images.dtype)
    whole[: len(images)] = images
    return png(whole.reshape(rows, columns, *images.shape[1:]))


def address(picture: bytes) -> str:
    """A PNG as an address that holds it whole."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


class Plane:
    """Where points (N, 2) are drawn: the data faintly, and each point as a bright dot.

    >>> plane = Plane(np.array([[-1.0, -1.0], [1.0, 1.0]]))
    >>> images = plane.dots(np.zeros((1, 2)))
    >>> images.shape, bool(images[0, 0, 24, 24] > 0.9), bool(images[0, 0, 0, 0] > 0)
    ((1, 1, 48, 48), True, False)
    """

    def __init__(self, data: Images) -> None:
        low, high = data.min(0), data.max(0)
        self.span = (1 + 2 * MARGIN) * (float((high - low).max()) or 1.0)
        self.low = (low + high - self.span) / 2
        self.behind = np.zeros((DOT, DOT), np.float32)
        across, up = self._pixels(data).round().astype(int).T
        self.behind[DOT - 1 - up, across] = FAINT

    def _pixels(self, points: Images) -> Images:
        """(N, 2) where points lie from the left and from below; those outside at the border."""
        inside = np.nan_to_num((points - self.low) / self.span)
        return np.clip(inside, 0, 1) * (DOT - 1)

    def dots(self, points: Images) -> Images:
        """(N, 1, DOT, DOT) images of points (N, 2)."""
        centre, place = self._pixels(points), np.arange(DOT)
        across = place[None, :] - centre[:, :1]
        up = (DOT - 1 - place)[None, :] - centre[:, 1:]
        away = np.sqrt(across[:, None, :] ** 2 + up[:, :, None] ** 2)
        bright = np.clip(RADIUS - away, 0, 1).astype(np.float32)
        return np.maximum(bright, self.behind)[:, None]
