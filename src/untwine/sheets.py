"""Contact sheets: what a dataset looks like, on one picture."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data import Dataset, Factors
from untwine.errors import DataError
from untwine.pictures import grid, png
from untwine.vae import forked

if TYPE_CHECKING:
    from PIL.Image import Image

COLUMNS, ROWS = 12, 4
SIDE = 56  # pixels that a small image is enlarged to, about
POINTS = 5000  # of a scatter plot
MARGIN, TEXT = 16, 15  # pixels
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Strip:
    """Examples in rows, and what to write beside them."""

    label: str
    index: NDArray[np.int64]  # (rows, columns) positions


def sheet(data: Dataset, title: str, *, seed: int = 0) -> bytes:
    """A PNG of random examples and, where factors are known, a row for each of them."""
    if tuple(data.shape) == (2,):
        return _scatter(data, title, seed)
    if len(data.shape) != 3:
        raise DataError(
            f"{title} has vectors of {data.shape.numel()} numbers, which cannot be shown; only "
            "images and points of the plane can"
        )
    strips = [_examples(data, seed)]
    if data.factors:
        base = _base(data.factors, np.random.default_rng(seed))
        strips += [_variation(data.factors, k, base) for k in range(len(data.factors.names))]
    with forked(seed):
        return _compose(data, title, strips)


def _examples(data: Dataset, seed: int) -> Strip:
    """Random examples; where the data says how batches are drawn, a batch as training gets it."""
    n = min(ROWS * COLUMNS, len(data))
    rows = max(1, n // COLUMNS)
    label, index = "examples", np.random.default_rng(seed).permutation(len(data))[:n]
    if data.order is not None:
        try:
            label, index = "one batch", data.batches(n, seed, CPU).at(0).numpy()
        except DataError:  # batches of that size cannot be had
            pass
    return Strip(label, index[: rows * min(n, COLUMNS)].reshape(rows, -1).astype(np.int64))


def _base(factors: Factors, rng: np.random.Generator) -> NDArray[np.int64]:
    """(K,) the levels from which each row departs."""
    if factors.table is None:
        return np.array(factors.sizes, dtype=np.int64) // 2
    return factors.of(rng.integers(len(factors.table), size=1))[0]


def _variation(factors: Factors, k: int, base: NDArray[np.int64]) -> Strip:
    """A row in which factor k takes its levels and the others stay, as far as the data allows."""
    size = factors.sizes[k]
    levels = np.unique(np.linspace(0, size - 1, min(size, COLUMNS)).round().astype(int))
    name = f"{factors.names[k]} ({size})"
    if factors.table is None:
        rows = np.tile(base, (len(levels), 1))
        rows[:, k] = levels
        return Strip(name, np.atleast_2d(np.ravel_multi_index(list(rows.T), factors.sizes)))
    index, pure = _nearest(factors.table, k, levels, base)
    return Strip(name if pure else f"{name}\nothers vary too", index[None])


def _nearest(
    table: NDArray[np.integer], k: int, levels: NDArray[np.int64], base: NDArray[np.int64]
) -> tuple[NDArray[np.int64], bool]:
    """For each level that occurs, the example that departs least from the base in other factors."""
    others = (table != base).sum(1) - (table[:, k] != base[k])
    found: list[int] = []
    for level in levels:
        here = np.flatnonzero(table[:, k] == level)
        found += [int(here[others[here].argmin()])] if len(here) else []
    index = np.array(found, dtype=np.int64)
    return index, bool((others[index] == 0).all())


def _compose(data: Dataset, title: str, strips: list[Strip]) -> bytes:
    """The strips below each other, their labels to the left, the title above."""
    from PIL import Image, ImageDraw, ImageFont

    title_font, font = ImageFont.load_default(TEXT + 4), ImageFont.load_default(TEXT)
    pictures = [_picture(data, strip) for strip in strips]
    pen = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    left = 2 * MARGIN + math.ceil(
        max(pen.multiline_textbbox((0, 0), s.label, font)[2] for s in strips)
    )
    top = 2 * MARGIN + TEXT
    heading = f"{title}: {len(data):,} images of {_size(data)}"
    width = max(left + max(p.width for p in pictures), MARGIN + pen.textlength(heading, title_font))
    height = top + sum(p.height + MARGIN for p in pictures)
    canvas = Image.new("RGB", (math.ceil(width) + MARGIN, height), "white")
    pen = ImageDraw.Draw(canvas)
    pen.text((MARGIN, MARGIN // 2), heading, "black", title_font)
    for strip, picture in zip(strips, pictures, strict=True):
        pen.multiline_text((MARGIN, top), strip.label, "black", font)
        canvas.paste(picture, (left, top))
        top += picture.height + MARGIN
    return png(np.asarray(canvas))


def _size(data: Dataset) -> str:
    channels, height, width = data.shape
    kinds = {1: "grey", 3: "colour", 4: "colour and transparency"}
    return f"{width} x {height} pixels, {kinds.get(channels, f'{channels} channels')}"


def _picture(data: Dataset, strip: Strip) -> Image:
    """The images of a strip, small ones enlarged by a whole number, on white."""
    from PIL import Image

    rows, columns = strip.index.shape
    images = data.take(strip.index.ravel()).numpy()
    times = max(1, round(SIDE / max(images.shape[2:])))
    images = images.repeat(times, 2).repeat(times, 3)
    picture = Image.fromarray(grid(images.reshape(rows, columns, *images.shape[1:])))
    if picture.mode != "RGBA":
        return picture
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")


def _scatter(data: Dataset, title: str, seed: int) -> bytes:
    """Points of the plane, coloured by the first factor if there is one."""
    from matplotlib.figure import Figure

    rng = np.random.default_rng(seed)
    index = rng.permutation(len(data))[:POINTS]
    with forked(seed):
        points = data.take(index).numpy()
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    for label, keep in _kinds(data.factors, index):
        axes.scatter(points[keep, 0], points[keep, 1], s=4, alpha=0.6, linewidths=0, label=label)
    if data.factors:
        axes.legend(markerscale=3, frameon=False)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(f"{title}: {len(data):,} points, {len(index):,} shown", loc="left")
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return stream.getvalue()


def _kinds(
    factors: Factors | None, index: NDArray[np.int64]
) -> list[tuple[str, NDArray[np.bool_]]]:
    """The points of each level of the first factor, with a label."""
    if factors is None:
        return [("", np.ones(len(index), bool))]
    level = factors.of(index)[:, 0]
    return [(f"{factors.names[0]} {one}", level == one) for one in np.unique(level)]
