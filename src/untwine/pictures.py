"""Pictures: grids of images as PNG, curves as SVG that follow the page's colours."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

INK = "#010203"  # stands for the page's own text colour, see `curves`
GAP = 2  # pixels between the images of a grid


def grid(images: NDArray[np.floating], *, gap: int = GAP) -> NDArray[np.uint8]:
    """(R, C, channels, H, W) images in [0, 1] to one (H', W', 3 or 4) picture, grey between them.

    >>> grid(np.zeros((2, 3, 1, 8, 8))).shape
    (18, 28, 3)
    """
    rows, columns, channels, height, width = images.shape
    depth = 4 if channels == 4 else 3
    sheet = np.full(
        (rows * (height + gap) - gap, columns * (width + gap) - gap, depth), 128, dtype=np.uint8
    )
    pixels = (np.clip(images, 0, 1) * 255).round().astype(np.uint8).transpose(0, 1, 3, 4, 2)
    if channels == 2:  # no picture has two channels: show them as red and green
        pixels = np.concatenate([pixels, np.zeros_like(pixels[..., :1])], -1)
    for r in range(rows):
        for c in range(columns):
            y, x = r * (height + gap), c * (width + gap)
            sheet[y : y + height, x : x + width] = pixels[r, c]
    return sheet


def png(picture: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def inline(picture: NDArray[np.uint8]) -> str:
    """A picture as an address that holds it whole."""
    return f"data:image/png;base64,{base64.b64encode(png(picture)).decode()}"


def curves(x: Sequence[float], lines: dict[str, Sequence[float]]) -> str:
    """One small chart per line, side by side, as SVG in the page's own text colour."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "untwine",
        "font.family": "sans-serif",
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 9,
    }
    with rc_context(style):
        across = min(4, len(lines))
        down = -(-len(lines) // across)
        figure = Figure(figsize=(2.9 * across, 2.1 * down), layout="constrained")
        axes = np.atleast_1d(figure.subplots(down, across)).ravel()
        for axis, (name, y) in zip(axes, lines.items(), strict=False):
            axis.plot(x, y, color="#3b7dd8", linewidth=1.4)
            axis.set_title(name, fontsize=10, loc="left")
            axis.margins(x=0.01)
            axis.set_ylim(*_span(y))
            axis.ticklabel_format(axis="y", useOffset=False)
            axis.xaxis.set_major_formatter(lambda step, _: _short(step))
        for axis in axes[len(lines) :]:
            axis.remove()
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    svg = stream.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


def _short(step: float) -> str:
    """A number of steps: 500, 2k."""
    return f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"


def _span(y: Sequence[float]) -> tuple[float, float]:
    """The range of a curve without its first steep tenth, where that would hide the rest."""
    settled = np.asarray(y)[len(y) // 10 :]
    low, high = float(np.min(y)), float(np.max(settled))
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin
