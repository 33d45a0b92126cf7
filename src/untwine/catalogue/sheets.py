"""Contact sheets: examples and one row per factor, or the columns of a table, in one picture."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors
from untwine.errors import DataError
from untwine.tools.compute import seeded
from untwine.tools.images import encode_png, image_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

COLUMNS, ROWS = 12, 4
SIDE = 56  # pixels that a small image is enlarged to, about
POINTS = 5000  # of a scatter plot or a histogram
MAX_HISTOGRAMS, HISTOGRAM_COLUMNS, BINS = 60, 6, 30
MAX_GROUPS = 8  # levels with a histogram each
MARGIN, TEXT = 16, 15  # pixels
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Strip:
    """Rows of examples with a label."""

    label: str
    index: NDArray[np.int64]  # (rows, columns) positions


def contact_sheet(data: Dataset, title: str, *, seed: int = 0) -> bytes:
    """A PNG of random examples, with a row for each factor; of a table, a histogram per column."""
    if tuple(data.shape) == (2,):
        return _scatter(data, title, seed)
    if len(data.shape) != 3:
        return _histograms(data, title, seed)
    strips = [_example_strip(data, seed)]
    if data.factors:
        base = _base_levels(data.factors, np.random.default_rng(seed))
        strips += [_factor_strip(data.factors, k, base) for k in range(len(data.factors.names))]
    with seeded(seed):
        return _compose(data, title, strips)


def _example_strip(data: Dataset, seed: int) -> Strip:
    """Random examples, or one training batch if the data has its own order of batches."""
    n = min(ROWS * COLUMNS, len(data))
    rows = max(1, n // COLUMNS)
    label, index = "examples", np.random.default_rng(seed).permutation(len(data))[:n]
    if data.batch_order is not None:
        try:
            label, index = "one batch", data.batches(n, seed, CPU).at(0).numpy()
        except DataError:  # no batches of that size
            pass
    return Strip(label, index[: rows * min(n, COLUMNS)].reshape(rows, -1).astype(np.int64))


def _base_levels(factors: Factors, rng: np.random.Generator) -> NDArray[np.int64]:
    """(K,) levels shared by all rows, except for the factor of the row."""
    if factors.table is None:
        return np.array(factors.sizes, dtype=np.int64) // 2
    return factors.levels_at(rng.integers(len(factors.table), size=1))[0]


def _factor_strip(factors: Factors, k: int, base: NDArray[np.int64]) -> Strip:
    """A row that varies factor k and fixes the others, as far as the data allows."""
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
    """For each level that occurs, the example closest to the base in the other factors."""
    others = (table != base).sum(1) - (table[:, k] != base[k])
    closest: list[int] = []
    for level in levels:
        candidates = np.flatnonzero(table[:, k] == level)
        if len(candidates):
            closest.append(int(candidates[others[candidates].argmin()]))
    index = np.array(closest, dtype=np.int64)
    return index, bool((others[index] == 0).all())


def _compose(data: Dataset, title: str, strips: list[Strip]) -> bytes:
    """A PNG of the strips below each other, with labels to the left and the title on top."""
    from PIL import Image, ImageDraw, ImageFont

    title_font, font = ImageFont.load_default(TEXT + 4), ImageFont.load_default(TEXT)
    pictures = [_picture(data, strip) for strip in strips]
    pen = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    left = 2 * MARGIN + math.ceil(
        max(pen.multiline_textbbox((0, 0), s.label, font)[2] for s in strips)
    )
    top = 2 * MARGIN + TEXT
    heading = f"{title}: {len(data):,} images of {_describe_size(data)}"
    width = max(left + max(p.width for p in pictures), MARGIN + pen.textlength(heading, title_font))
    height = top + sum(p.height + MARGIN for p in pictures)
    canvas = Image.new("RGB", (math.ceil(width) + MARGIN, height), "white")
    pen = ImageDraw.Draw(canvas)
    pen.text((MARGIN, MARGIN // 2), heading, "black", title_font)
    for strip, picture in zip(strips, pictures, strict=True):
        pen.multiline_text((MARGIN, top), strip.label, "black", font)
        canvas.paste(picture, (left, top))
        top += picture.height + MARGIN
    return encode_png(np.asarray(canvas))


def _describe_size(data: Dataset) -> str:
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
    picture = Image.fromarray(image_grid(images.reshape(rows, columns, *images.shape[1:])))
    if picture.mode != "RGBA":
        return picture
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")


def _scatter(data: Dataset, title: str, seed: int) -> bytes:
    """A scatter plot of points in the plane, coloured by the first factor, if any."""
    from matplotlib.figure import Figure

    rng = np.random.default_rng(seed)
    index = rng.permutation(len(data))[:POINTS]
    with seeded(seed):
        points = data.take(index).numpy()
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    for label, keep in _groups_by_level(data.factors, index):
        axes.scatter(points[keep, 0], points[keep, 1], s=4, alpha=0.6, linewidths=0, label=label)
    if data.factors:
        axes.legend(markerscale=3, frameon=False)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(f"{title}: {len(data):,} points, {len(index):,} shown", loc="left")
    return _figure_png(figure)


def _figure_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return stream.getvalue()


def _histograms(data: Dataset, title: str, seed: int) -> bytes:
    """A histogram of each column in its own unit, by the levels of the first factor, if any."""
    from matplotlib.figure import Figure

    index = np.sort(np.random.default_rng(seed).permutation(len(data))[:POINTS])
    with seeded(seed):
        values = data.take(index).flatten(1).numpy()
    width = values.shape[1]
    names = [f"column {k + 1}" for k in range(width)]
    if data.columns is not None:
        names, values = list(data.columns.names), data.columns.restore(values)
    count = min(width, MAX_HISTOGRAMS)
    across = min(HISTOGRAM_COLUMNS, count)
    down = -(-count // across)
    groups = _groups_by_level(data.factors, index)
    groups = groups if len(groups) <= MAX_GROUPS else [("", np.ones(len(index), bool))]
    figure = Figure(figsize=(max(6.0, 2.1 * across), 1.5 * down + 1), layout="constrained")
    axes = np.atleast_1d(figure.subplots(down, across)).ravel()
    for axis, name, column in zip(axes, names, values.T, strict=False):
        bins = np.histogram_bin_edges(column, BINS)
        for label, keep in groups:
            axis.hist(column[keep], bins, alpha=0.6, label=label)
        axis.set_title(name, fontsize=8, loc="left")
        axis.tick_params(labelsize=7)
        axis.set_yticks([])
    for axis in axes[count:]:
        axis.remove()
    if groups[0][0]:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)
    more = f", {count} shown" if count < width else ""
    figure.suptitle(f"{title}: {len(data):,} rows of {width} columns{more}", x=0.01, ha="left")
    return _figure_png(figure)


def _groups_by_level(
    factors: Factors | None, index: NDArray[np.int64]
) -> list[tuple[str, NDArray[np.bool_]]]:
    """The points of each level of the first factor, with a label."""
    if factors is None:
        return [("", np.ones(len(index), bool))]
    level = factors.levels_at(index)[:, 0]
    name = factors.names[0]
    return [(f"{name} {factors.level_name(0, int(one))}", level == one) for one in np.unique(level)]
