"""Filling of polygons by a compiled loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from untwine.tools.compiling import compile_once


@compile_once()
def fill_polygons(
    edges: NDArray[np.float64],
    rows: NDArray[np.int64],
    poses: NDArray[np.int64],
    centres: NDArray[np.float64],
    subpixel: int,
    images: NDArray[np.float32],
) -> None:
    """Draw outlines by even-odd filling, in the poses (B,) about the centres (B, 4).

    `edges` (P, E, 4) are the outlines in every pose, and `rows` (S, E) count the rows that an edge
    can cross. Vertices are rounded to 1/subpixel pixel. Overwrites `images` (B, 1, size, size).
    """
    size, half = images.shape[2], subpixel // 2
    poses_per_shape = len(edges) // len(rows)
    flips = np.empty((size, size + 1), np.uint8)
    for i in range(len(images)):
        pose, centre = poses[i], centres[i]
        if pose < -len(edges) or pose >= len(edges):
            raise IndexError("position out of range")
        outline, number = edges[pose], rows[pose // poses_per_shape]
        flips[:] = 0
        for e in range(len(outline)):
            x0 = np.rint((outline[e, 0] + centre[0]) * subpixel)
            y0 = np.rint((outline[e, 1] + centre[1]) * subpixel)
            x1 = np.rint((outline[e, 2] + centre[2]) * subpixel)
            y1 = np.rint((outline[e, 3] + centre[3]) * subpixel)
            if y0 > y1:
                x0, y0, x1, y1 = x1, y1, x0, y0
            row = np.floor((y0 - half) / subpixel) + 1 + number[e]
            y = row * subpixel + half
            if y <= y1:
                x = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
                flips[int(row), int(np.ceil((x - half) / subpixel))] ^= 1
        for r in range(size):
            parity = np.uint8(0)
            for c in range(size):
                parity ^= flips[r, c]
                images[i, 0, r, c] = parity
