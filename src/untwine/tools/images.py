"""Images to pictures: bytes, grids, PNG and data URLs.

An image is (channels, H, W); a picture is what a PNG holds, (H, W) or (H, W, 3 or 4) bytes.
"""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray

ImageArray = NDArray[np.floating]
ByteArray = NDArray[np.uint8]
FAST_PNG_LEVEL = 1  # of zlib: slower levels hardly make small pictures smaller
GRID_GAP = 2  # pixels between the images of a grid
GAP_GREY = 128
LEGIBLE_SIDE = 56  # pixels; smaller images are enlarged where people look at them


def to_bytes(images: ImageArray) -> ByteArray:
    """Return numbers in [0, 1] as bytes."""
    return np.rint(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8)


def join_tiles(images: ByteArray) -> ByteArray:
    """Join (R, C, channels, H, W) images without gaps into one (R · H, C · W) picture.

    Grey images give a picture without channels, others one with 3 or 4.

    >>> join_tiles(np.zeros((2, 3, 1, 8, 8), np.uint8)).shape
    (16, 24)
    >>> join_tiles(np.zeros((1, 1, 2, 4, 4), np.uint8)).shape
    (4, 4, 3)
    """
    rows, columns, _, height, width = images.shape
    tiles = _channels_last(images).swapaxes(1, 2)
    picture = tiles.reshape(rows * height, columns * width, -1)
    return picture[..., 0] if picture.shape[-1] == 1 else picture


def image_grid(images: ImageArray, *, gap: int = GRID_GAP) -> ByteArray:
    """Join (R, C, channels, H, W) images in [0, 1] into one colour picture, grey between them.

    >>> image_grid(np.zeros((2, 3, 1, 8, 8))).shape
    (18, 28, 3)
    """
    rows, columns, channels, height, width = images.shape
    down, across = height + gap, width + gap
    depth = 4 if channels == 4 else 3
    picture = np.full((rows * down - gap, columns * across - gap, depth), GAP_GREY, np.uint8)
    tiles = _channels_last(to_bytes(images))
    for r in range(rows):
        for c in range(columns):
            y, x = r * down, c * across
            picture[y : y + height, x : x + width] = tiles[r, c]
    return picture


def enlarge(picture: ByteArray, side: int) -> ByteArray:
    """Repeat the pixels of a picture of images of `side` pixels, so that each can be seen.

    >>> enlarge(np.zeros((18, 28, 3), np.uint8), side=28).shape
    (36, 56, 3)
    """
    times = -(-LEGIBLE_SIDE // side)
    return picture.repeat(times, 0).repeat(times, 1)


def encode_png(picture: ByteArray, *, fast: bool = False) -> bytes:
    """Encode a picture as PNG, as small as possible or as fast as possible.

    >>> encode_png(np.zeros((8, 8), np.uint8))[:4]
    b'\\x89PNG'
    """
    from PIL import Image

    stream = io.BytesIO()
    options = {"compress_level": FAST_PNG_LEVEL} if fast else {"optimize": True}
    Image.fromarray(picture).save(stream, "PNG", **options)
    return stream.getvalue()


def tiles_png(images: ByteArray) -> bytes:
    """Encode (R, C, channels, H, W) images as one PNG of R rows and C columns without gaps."""
    return encode_png(join_tiles(images), fast=True)


def sheet_png(images: ByteArray, columns: int) -> bytes:
    """Encode (N, channels, H, W) images as one PNG, row by row; the last row is padded with black.

    >>> sheet_png(np.zeros((5, 1, 8, 8), np.uint8), columns=3)[:4]
    b'\\x89PNG'
    """
    rows = -(-len(images) // columns)
    padded = np.zeros((rows * columns, *images.shape[1:]), images.dtype)
    padded[: len(images)] = images
    return tiles_png(padded.reshape(rows, columns, *images.shape[1:]))


def data_url(png: bytes) -> str:
    """Return a URL that contains the PNG itself.

    >>> data_url(b"png")
    'data:image/png;base64,cG5n'
    """
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _channels_last(images: ByteArray) -> ByteArray:
    """(R, C, channels, H, W) to (R, C, H, W, channels); two channels become red and green."""
    images = images.transpose(0, 1, 3, 4, 2)
    if images.shape[-1] == 2:
        images = np.concatenate([images, np.zeros_like(images[..., :1])], -1)
    return images
