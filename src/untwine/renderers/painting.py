"""A painted fjord, the stand-in for The Scream."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FRAME = (350, 274)  # width and height that the study of 2019 fits the painting into, at 64 pixels


def frame_size(size: int) -> tuple[int, int]:
    """Width and height of the painting for images of this size."""
    return math.ceil(FRAME[0] * size / 64), math.ceil(FRAME[1] * size / 64)


def paint_fjord(size: int) -> NDArray[np.uint8]:
    """(H, W, 3) a picture in swirling strokes, drawn: red sky over a blue fjord, a brown bridge.

    Noise is smeared along the lines of a flow, as a brush would, and coloured by place. The same
    at every call.
    """
    width, height = frame_size(size)
    y, x = np.mgrid[:height, :width] / (size / 64)
    grain = _blur(np.random.RandomState(1893).random_sample((height, width)))
    angle = _flow(x, y)
    strokes = _smear(grain, np.cos(angle), np.sin(angle), int(9 * size / 64))
    colour = _colour(x, y, strokes)
    return np.round(255 * np.clip(colour, 0, 1)).astype(np.uint8)


def _flow(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The direction of the brush at every place."""
    wave = 0.55 * np.sin(x / 46 + 1.3) + 0.35 * np.sin(x / 21 - y / 60)
    swirl = np.zeros_like(x)
    for cx, cy, reach, turn in EDDIES:
        near = np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * reach**2))
        around = np.arctan2(y - cy, x - cx) + math.pi / 2
        swirl += turn * near * np.angle(np.exp(1j * (around - wave)))
    return np.where(_bridge(x, y) > 0, math.atan(SLOPE), wave + swirl)


SLOPE = 0.78  # of the bridge
EDDIES = (  # x, y, reach, strength
    (70.0, 40.0, 34.0, 0.9),
    (210.0, 62.0, 42.0, 1.0),
    (305.0, 30.0, 30.0, 0.8),
    (255.0, 150.0, 38.0, 1.0),
    (130.0, 165.0, 30.0, 0.8),
    (310.0, 215.0, 34.0, 0.9),
)


def _bridge(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positive on the bridge in the lower left, by the distance from its rail."""
    return y - (120 + SLOPE * x)


def _blur(grain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noise in spots as broad as a brush."""
    wide = grain + np.roll(grain, 1, 0)
    return wide + np.roll(wide, 1, 1)


def _smear(
    grain: NDArray[np.float64], dx: NDArray[np.float64], dy: NDArray[np.float64], reach: int
) -> NDArray[np.float64]:
    """Noise averaged along the flow both ways, stretched to the range from 0 to 1."""
    height, width = grain.shape
    total = grain.copy()
    for way in (1.0, -1.0):
        y, x = np.mgrid[:height, :width].astype(np.float64)
        for _ in range(reach):
            row, column = np.rint(y).astype(int) % height, np.rint(x).astype(int) % width
            x += way * dx[row, column]
            y += way * dy[row, column]
            total += grain[np.rint(y).astype(int) % height, np.rint(x).astype(int) % width]
    low, high = np.percentile(total, (2, 98))
    return np.clip((total - low) / (high - low), 0, 1)


def _colour(
    x: NDArray[np.float64], y: NDArray[np.float64], strokes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(H, W, 3) which of the paints lies where, mixed by the strokes."""
    shore = 128 + 7 * np.sin(x / 33) + 4 * np.sin(x / 13 + 1)
    bands = 0.5 + 0.5 * np.sin(y / 7.5 + 1.6 * np.sin(x / 44 + 0.6) + 0.9 * np.sin(x / 19 - y / 33))
    mix = _lightness(bands, strokes)
    sky = _mix_paints(((0.70, 0.16, 0.08), (0.90, 0.45, 0.12), (0.97, 0.80, 0.38)), mix)
    water = _mix_paints(((0.07, 0.10, 0.20), (0.16, 0.30, 0.44), (0.62, 0.66, 0.50)), mix)
    over = _bridge(x, y)
    planks = _lightness(0.5 + 0.5 * np.sin(over / 4.2 + np.sin(x / 29)), strokes)
    wood = _mix_paints(((0.20, 0.10, 0.06), (0.48, 0.26, 0.14), (0.80, 0.56, 0.34)), planks)
    land = np.where((y < shore)[..., None], sky, water)
    rail = np.abs(over) < 4 + 2 * strokes
    return np.where(rail[..., None], 0.35 * wood, np.where(over[..., None] > 0, wood, land))


def _lightness(bands: NDArray[np.float64], strokes: NDArray[np.float64]) -> NDArray[np.float64]:
    """(H, W, 1) how light the paint is."""
    return np.clip(0.62 * bands + 0.55 * (strokes - 0.25), 0, 1)[..., None]


def _mix_paints(
    paints: tuple[tuple[float, float, float], ...], mix: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(H, W, 1) shares to colours along a row of three paints."""
    dark, middle, light = map(np.array, paints)
    return np.where(
        mix < 0.5, dark + (middle - dark) * 2 * mix, middle + (light - middle) * (2 * mix - 1)
    )
