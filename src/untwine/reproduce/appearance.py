"""What a picture looks like, in numbers: ink, contrast, slant, brightness and colour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.floating[Any]]  # (N, C, H, W) in [0, 1]
Numbers = NDArray[np.floating[Any]]  # (N,)
Look = Callable[[Images], Numbers]


def ink(images: Images) -> Numbers:
    """Return (N,) the mean of all pixels: how thick the strokes of a digit are, or brightness."""
    return images.mean((1, 2, 3))


def contrast(images: Images) -> Numbers:
    """Return (N,) the standard deviation over pixels of the mean colour."""
    return images.mean(1).std((1, 2))


def slant(images: Images) -> Numbers:
    """Return (N,) −μ₁₁/μ₀₂ of the ink: how far strokes lean to the right; 0 if they are upright.

    >>> stroke = np.eye(3)[::-1].reshape(1, 1, 3, 3)  # from the lower left to the upper right
    >>> slant(stroke).tolist(), slant(stroke[..., ::-1]).tolist()
    ([1.0], [-1.0])
    """
    ink_at = images.mean(1)
    total = np.maximum(ink_at.sum((1, 2)), 1e-9)
    y, x = np.arange(ink_at.shape[1])[:, None], np.arange(ink_at.shape[2])
    down = y - ((ink_at * y).sum((1, 2)) / total)[:, None, None]
    across = x - ((ink_at * x).sum((1, 2)) / total)[:, None, None]
    height = np.maximum((ink_at * down**2).sum((1, 2)), 1e-9)
    return -(ink_at * down * across).sum((1, 2)) / height


def colour(images: Images) -> Numbers:
    """Return (N,) red minus blue, the mean over pixels; 0 for grey images."""
    return (images[:, 0] - images[:, -1]).mean((1, 2))


def greyness(images: Images) -> Numbers:
    """Return (N,) the mean of 4x(1 − x): 0 for pixels that are 0 or 1, 1 for those between."""
    return (4 * images * (1 - images)).mean((1, 2, 3))


DIGIT_LOOKS: Mapping[str, Look] = {
    "ink": ink,
    "contrast": contrast,
    "slant": slant,
}
FACE_LOOKS: Mapping[str, Look] = {
    "brightness": ink,
    "contrast": contrast,
    "colour": colour,
}
