"""Codes of examples as dots: their places, colours and images, and what distinguishes some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from untwine.explore import spaces
from untwine.explore.answers import Colouring, Numbers, Selection, Space
from untwine.explore.constants import SHEET_COLUMNS
from untwine.explore.measuring import MEASURES, Measure, Measures
from untwine.explore.model import Index
from untwine.explore.rows import RunRows
from untwine.explore.sample import check_count, require
from untwine.latents import MAX_PIXELS
from untwine.records import ACTIVE_NATS
from untwine.tools.images import data_url, sheet_png, tiles_png, to_bytes

By = Literal["latents", "pca", "tsne"]
ColourBy = Literal["latent", "log_likelihood", "kl", "error", "distance"]
MIN_TSNE_EXAMPLES, MAX_TSNE_EXAMPLES = 5, 3000
MAX_DOTS = 20_000
MAX_SHEET_TILE = 48  # pixels on the longer side of an image of the sheet
MAX_AVERAGED = 1000  # images in a mean image


@dataclass(frozen=True)
class Points:
    """Examples that are dots, with their codes."""

    index: Index  # (N,)
    codes: NDArray[np.floating]  # (N, D)
    clusters: Index | None  # (N,)


class RunPoints(RunRows):
    """A run and the codes of its examples in two dimensions."""

    @property
    def measures(self) -> Measures:
        """The likelihood, KL, error and distance of examples."""
        raise NotImplementedError

    def points(self, dots: int | None = None) -> Points:
        """The examples that are dots: the sample, and others where more are asked for.

        Where examples of a batch share latents, the sample alone has codes.
        """
        base = self.statistics()
        count = min(dots or 0, MAX_DOTS, len(self.data), MAX_PIXELS // self.shape.numel())
        if count <= len(self.index) or self.shared_model.layout.shared:
            count = max(1, min(count or len(self.index), len(self.index)))
            clusters = None if base.clusters is None else base.clusters[:count]
            return Points(self.index[:count], base.codes[:count], clusters)
        return self.memo(("points", count), lambda: self._more_points(count))

    def _more_points(self, count: int) -> Points:
        base, rest = self.statistics(), np.ones(len(self.data), bool)
        rest[self.index] = False
        others = np.random.default_rng(1).permutation(np.flatnonzero(rest))
        added = others[: count - len(self.index)].astype(np.int64)
        more = self.shared_model.measure(added)
        clusters = None
        if base.clusters is not None and more.clusters is not None:
            clusters = np.concatenate([base.clusters, more.clusters])
        index = np.concatenate([self.index, added])
        return Points(index, np.concatenate([base.codes, more.codes]), clusters)

    def space(self, by: By, x: int, y: int, dots: int | None = None) -> Space:
        """Codes of examples in two dimensions.

        Args:
            by: two latents, two main directions (both counted from 0), or t-SNE, which ignores x
                and y, as do the main directions of a single latent.
            x: number of the latent or direction on the horizontal axis.
            y: number on the vertical axis.
            dots: number of examples; the sample by default. t-SNE shows at most 3,000.
        """
        if dots is not None:
            check_count(dots, "dots")
        if by == "tsne":
            dots = min(dots or len(self.index), MAX_TSNE_EXAMPLES)
        chosen = self.points(dots)
        places, across, up = self._coordinates(chosen, by, x, y)
        named = bool(self.data.example_names)
        return Space(
            across=across,
            up=up,
            index=chosen.index.tolist(),
            x=_round_to_range(places[:, 0]),
            y=_round_to_range(places[:, 1]),
            names=[self.data.example_name(int(i)) for i in chosen.index] if named else [],
            colourings=self._colourings(chosen),
            total=len(self.data),
        )

    def _coordinates(
        self, chosen: Points, by: By, x: int, y: int
    ) -> tuple[NDArray[np.floating], str, str]:
        """(N, 2) coordinates of points, and the labels of the axes."""
        codes, count = chosen.codes, len(chosen.index)
        if by == "tsne":
            enough = count >= MIN_TSNE_EXAMPLES
            require(enough, f"t-SNE needs at least {MIN_TSNE_EXAMPLES} examples")
            nats = self.statistics().nats
            places = self.memo(
                ("tsne", count), lambda: spaces.tsne_coordinates(codes, nats, ACTIVE_NATS)
            )
            return places, "t-SNE 1", "t-SNE 2"
        if by == "latents":
            for number in (x, y):
                self.require_latent(number)
            return codes[:, [x, y]], f"latent {x}", f"latent {y}"
        require(by == "pca", f"codes are shown by latents, pca or tsne, not by {by}")
        if len(self.shared_model.layout.parts) == 1:
            heights = np.random.default_rng(0).random((count, 1))  # so that points do not overlap
            places = np.concatenate([codes, heights], 1)
            return places, "latent 0", "at random: there is only one latent"
        places, share = self.memo(("pca", count), lambda: spaces.principal_coordinates(codes))
        for number in (x, y):
            require(
                0 <= number < len(share),
                f"main directions are 0 to {len(share) - 1}; there is no {number}",
            )
        labels = [f"main direction {d + 1} ({100 * share[d]:.0f} % of variance)" for d in (x, y)]
        return places[:, [x, y]], labels[0], labels[1]

    def _colourings(self, chosen: Points) -> list[Colouring]:
        """Colourings by every factor, and by cluster."""
        colourings: list[Colouring] = []
        factors = self.data.factors
        if factors is not None:
            levels = factors.levels_at(chosen.index)
            for k, (name, size) in enumerate(zip(factors.names, factors.sizes, strict=True)):
                column = levels[:, k].tolist()
                ordered = name not in factors.unordered
                colourings.append(Colouring(name=name, levels=column, count=size, ordered=ordered))
        count = self.shared_model.layout.clusters
        if chosen.clusters is not None and count:
            taken = any(one.name == "cluster" for one in colourings)
            name = "cluster found by the model" if taken else "cluster"
            levels = chosen.clusters.tolist()
            colourings.append(Colouring(name=name, levels=levels, count=count, ordered=False))
        return colourings

    def colour(self, by: ColourBy, number: int = 0, dots: int | None = None) -> Numbers:
        """A number for each dot, to colour it by: a latent, or what the model says of the example.

        Examples that are not measured yet have none; asking starts the measuring.
        """
        chosen = self.points(dots)
        if by == "latent":
            self.require_latent(number)
            return Numbers(values=_round_to_range(chosen.codes[:, number]), running=False)
        require(by in MEASURES, f"dots are coloured by latent, {', '.join(MEASURES)}, not by {by}")
        name: Measure = by
        measures = self.measures
        measures.start()
        values = measures.values[name][chosen.index]
        known = [None if math.isnan(one) else float(f"{one:.5g}") for one in values.tolist()]
        return Numbers(values=known, running=measures.is_running)

    def sheet(self, dots: int | None = None) -> bytes:
        """The images of the dots in the order of `Space.index`, 32 to a row; large ones shrunk."""
        self.require_pictures()
        index = self.points(dots).index
        return self.memo(("sheet", len(index)), lambda: self._sheet(index))

    def _sheet(self, index: Index) -> bytes:
        taken = self.shared_model.each_taken(index)
        return sheet_png(
            np.concatenate([shrink(self.as_images(x.numpy()), MAX_SHEET_TILE) for x in taken]),
            SHEET_COLUMNS,
        )

    def select(self, indices: Sequence[int], dots: int | None = None) -> Selection:
        """What distinguishes some of the dots from all."""
        require(bool(len(indices)), "no point is selected; name at least one index of the space")
        every = self.points(dots)
        row_of = {int(index): row for row, index in enumerate(every.index)}
        for index in indices:
            require(index in row_of, f"example {index} is not among the points of the space")
        rows = np.array(sorted({row_of[index] for index in indices}))
        factors, differences = self.data.factors, []
        if factors is not None:
            levels = factors.levels_at(every.index)
            differences = spaces.factor_differences(factors, levels[rows], levels)
        return Selection(
            count=len(rows),
            picture=self._mean_picture(every.index[rows]) if self.has_pictures else "",
            factors=differences,
            latents=spaces.latent_differences(every.codes[rows], every.codes),
            columns=self.column_differences(every.index, rows) if self.has_rows else [],
        )

    def _mean_picture(self, index: Index) -> str:
        """The mean image of examples, of at most 1,000 of them, as a data: URL."""
        some = index[:: -(-len(index) // MAX_AVERAGED)]
        sums = [
            self.as_images(x.numpy()).sum(0, dtype=np.float64)
            for x in self.shared_model.each_taken(some)
        ]
        mean = to_bytes(np.sum(sums, axis=0) / len(some) / 255)
        return data_url(tiles_png(mean[None, None]))


def shrink(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """(N, C, H, W) images whose longer side is at most `side`, each pixel the mean of a block.

    >>> shrink(np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4), 2).tolist()
    [[[[2, 4], [10, 12]]]]
    """
    *_, height, width = images.shape
    block = -(-max(height, width) // side)
    if block == 1:
        return images
    rows, columns = max(1, height // block), max(1, width // block)
    whole = images[..., : rows * block, : columns * block]
    split = whole.reshape(*images.shape[:2], rows, min(block, height), columns, min(block, width))
    return split.mean((3, 5)).astype(np.uint8)


def _round_to_range(values: NDArray[np.floating]) -> list[float]:
    """Round numbers to about a hundred-thousandth of the largest.

    >>> _round_to_range(np.array([1234.56789, 1.23456789]))
    [1234.57, 1.23]
    """
    largest = float(np.abs(values).max()) or 1.0
    return values.astype(float).round(max(0, 5 - math.floor(math.log10(largest)))).tolist()
