"""What can be seen of one run. Knows nothing of the web; everything is computed on first use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.errors import IncompatibleError, RunError
from untwine.explore import spaces, tiles
from untwine.explore.answers import (
    Cluster,
    Colouring,
    Example,
    FactorTable,
    Facts,
    Reconstruction,
    ScoreLine,
    Selection,
    Space,
    Start,
)
from untwine.explore.facts import clusters_of, facts_of, score_lines
from untwine.explore.handle import TORCH
from untwine.explore.subject import Subject, counted, require, seeded
from untwine.explore.uploads import fitted
from untwine.measures.shared import own_prior
from untwine.parts.latents import IdentityMapping
from untwine.report import ACTIVE
from untwine.vae import forked

Order = Literal["worst", "best", "random"]
By = Literal["latents", "pca", "tsne"]

COLUMNS = 32  # of the sheet of all examples
DRAWN = 1024  # codes from the prior, of which a cluster shows those that belong to it
FEWEST = 5  # examples that t-SNE needs


class Look(Subject):
    """Everything of one finished run. All methods may be called from any thread.

    A code is z, before the mapping. Pictures are PNG without gaps between images; an image has the
    size of the data's, or that of a small plane for data of two numbers (`Facts.tile`).

    Args:
        finished: the run.
        name: what it is called.
        examples: in the sample of the data that is looked at.
        seed: of their choice.
    """

    def facts(self) -> Facts:
        """What must be known before anything is shown."""
        return self.kept("facts", lambda: facts_of(self))

    def examples(self, count: int, seed: int) -> list[Example]:
        """Some examples of the sample."""
        return [Example(index=i, levels=self.levels(i)) for i in self.some(count, seed)]

    def image(self, index: int) -> bytes:
        """An example of the data."""
        return self.row(self.handle.take([self.checked(index)]).numpy())

    def sheet(self) -> bytes:
        """The images of the sample in the order of `Space.index`, in rows of 32."""
        self.need_pictures()
        return self.kept("sheet", self._sheet)

    def _sheet(self) -> bytes:
        parts = [self.shown(x.numpy()) for x in self.handle.each_taken(self.index)]
        return tiles.sheet(np.concatenate(parts), COLUMNS)

    # Codes to start from

    def start_from(self, index: int) -> Start:
        """The code of an example."""
        code, picture = self.code(self.checked(index)), ""
        if self.pictured:
            picture = tiles.address(self.image(index))
        return Start(code=code.tolist(), picture=picture, note="")

    def start_from_prior(self, seed: int) -> Start:
        """A code that the model draws itself."""
        return Start(code=self.handle.draw(1, seeded(seed))[0].tolist(), picture="", note="")

    def start_from_upload(self, content: bytes) -> Start:
        """The code of a picture file, which is made to fit."""
        if not self.handle.image:
            raise IncompatibleError(
                "this model takes vectors, not pictures; start from an example or from the prior"
            )
        x, note = fitted(content, self.data.shape)
        code = self.handle.encode(x, self._companions)
        return Start(
            code=code.tolist(), picture=tiles.address(self.row(x[None].numpy())), note=note
        )

    # Pictures of codes

    def decode(self, code: Sequence[float]) -> bytes:
        """The expected image of a code."""
        self.need_pictures()
        return self.row(self.handle.decode(self.checked_code(code)[None]))

    def traversals(self, code: Sequence[float], latents: Sequence[int], steps: int) -> bytes:
        """A row for each latent, in which it goes from its lowest to its highest value."""
        self.need_pictures()
        start, facts = self.checked_code(code), {one.number: one for one in self.facts().latents}
        require(2 <= steps, f"a traversal needs at least 2 steps, not {steps}")
        require(bool(len(latents)), "no latent is named; name those to show, such as 0,3")
        for number in latents:
            self.need_latent(number)
        rows = len(latents)
        require(rows <= len(start), f"{rows} are too many; this model has {len(start)} latents")
        self.need_room(rows * steps)
        codes = np.tile(start, (rows, steps, 1))
        for row, number in enumerate(latents):
            codes[row, :, number] = np.linspace(facts[number].low, facts[number].high, steps)
        return self.grid(codes)

    def between(self, start: int, end: int, steps: int) -> bytes:
        """One row from an example to another, their codes interpolated in a straight line."""
        self.need_pictures()
        require(2 <= steps, f"the way between two images needs at least 2 steps, not {steps}")
        self.need_room(steps)
        ends = [self.code(self.checked(index)) for index in (start, end)]
        return self.grid(np.linspace(ends[0], ends[1], steps)[None])

    def groups(self, cluster: int, seed: int, rows: int, columns: int) -> bytes:
        """What a group shares, drawn anew in each row; what is each example's own, in each column.

        Own codes keep their place in the cluster: they move with it as the shared code does.
        """
        self.need_pictures()
        shared = self.handle.layout.shared
        if not shared:
            raise IncompatibleError(
                "this model has no latents that a group shares; look at one such as ug-vae or "
                "ml-vae"
            )
        self.need_room(counted(rows, "rows") * counted(columns, "columns"))
        own = len(self.handle.layout.parts) - shared
        with TORCH, forked(seeded(seed)):
            beta, noise = torch.randn(rows, shared), torch.randn(columns, own)
            prior = own_prior(self.handle.model, beta)
        require(
            0 <= cluster < prior.mean.shape[1],
            f"own codes have {prior.mean.shape[1]} clusters, counted from 0; there is no {cluster}",
        )
        codes = prior.mean[:, cluster, None] + prior.std[:, cluster, None] * noise
        z = torch.cat([codes, beta[:, None].expand(-1, columns, -1)], -1)
        return self.grid(z.numpy())

    # Reconstructions

    def reconstructions(self, count: int, order: Order, seed: int) -> list[Reconstruction]:
        """Examples of the sample with how far off the model is."""
        errors = self.kept("errors", self._errors)
        if order == "random":
            places = [self.place[index] for index in self.some(count, seed)]
        else:
            counted(count, "images")
            signed = -errors if order == "worst" else errors
            places = np.argsort(signed, kind="stable")[:count].tolist()
        found = [(int(self.index[place]), float(errors[place])) for place in places]
        return [Reconstruction(index=i, levels=self.levels(i), error=e) for i, e in found]

    def reconstruction(self, index: int) -> bytes:
        """What the model makes of an example."""
        self.need_pictures()
        return self.grid(self.code(self.checked(index))[None, None])

    def _errors(self) -> NDArray[np.float64]:
        """(N,) squared errors, summed over pixels."""
        made = self.handle.each_decoded(self.encoded().codes)
        pairs = zip(made, self.handle.each_taken(self.index), strict=True)
        gaps = [(found - x.numpy()).astype(np.float64).reshape(len(x), -1) for found, x in pairs]
        return np.concatenate([(gap**2).sum(1) for gap in gaps])

    # Clusters

    def clusters(self) -> list[Cluster]:
        """What is in each cluster."""
        self.need_clusters()
        return self.kept("clusters", lambda: clusters_of(self))

    def cluster(self, number: int, seed: int, count: int) -> bytes:
        """One row of images from the prior that the model itself assigns to a cluster.

        Fewer than asked for, where fewer are found among many.
        """
        self.need_pictures()
        clusters = self.need_clusters()
        require(0 <= number < clusters, f"clusters are 0 to {clusters - 1}; there is no {number}")
        self.need_room(counted(count, "images"))
        codes, assigned = self.kept_draws(seeded(seed), lambda: self._drawn(seed))
        chosen = codes[assigned == number][:count]
        if not len(chosen):
            raise IncompatibleError(
                f"the model assigns none of {len(codes)} draws from its prior to cluster {number}; "
                "look at its members instead"
            )
        return self.grid(chosen[None])

    def _drawn(self, seed: int) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Codes from the prior, and to which cluster the model assigns their images."""
        codes = self.handle.draw(DRAWN, seed)
        images = map(torch.from_numpy, self.handle.each_decoded(codes))
        return codes, np.concatenate([self.handle.assign(x) for x in images])

    # Space

    def space(self, by: By, x: int, y: int) -> Space:
        """The sample in two dimensions.

        Args:
            by: two latents, two of the main directions (both counted from 0), or t-SNE, which has
                only one picture, as have the directions of a single latent.
            x: which latent or direction goes across.
            y: which goes up.
        """
        places, across, up = self._places(by, x, y)
        return Space(
            across=across,
            up=up,
            index=self.index.tolist(),
            x=_short(places[:, 0]),
            y=_short(places[:, 1]),
            colourings=self._colourings(),
        )

    def _places(self, by: By, x: int, y: int) -> tuple[NDArray[np.floating], str, str]:
        if by == "tsne":
            require(len(self.index) >= FEWEST, f"t-SNE needs at least {FEWEST} examples")
            return self.kept("tsne", self._neighbourhoods), "t-SNE 1", "t-SNE 2"
        if by == "latents":
            for number in (x, y):
                self.need_latent(number)
            return self.encoded().codes[:, [x, y]], f"latent {x}", f"latent {y}"
        require(by == "pca", f"codes are shown by latents, pca or tsne, not by {by}")
        if len(self.handle.layout.parts) == 1:
            return self._beside(), "latent 0", "at random: there is only one latent"
        codes, share = self.kept("pca", lambda: spaces.main_directions(self.encoded().codes))
        for number in (x, y):
            require(
                0 <= number < len(share),
                f"main directions are 0 to {len(share) - 1}; there is no {number}",
            )
        named = [f"main direction {d + 1} ({100 * share[d]:.0f} % of the variance)" for d in (x, y)]
        return codes[:, [x, y]], named[0], named[1]

    def _beside(self) -> NDArray[np.floating]:
        """A single latent, with heights so that dots do not lie on each other."""
        heights = np.random.default_rng(0).random((len(self.index), 1))
        return np.concatenate([self.encoded().codes, heights], 1)

    def _neighbourhoods(self) -> NDArray[np.floating]:
        return spaces.neighbourhoods(self.encoded().codes, self.encoded().nats, ACTIVE)

    def _colourings(self) -> list[Colouring]:
        """By every factor, and by cluster."""
        found: list[Colouring] = []
        if self.data.factors is not None:
            columns = zip(self.data.factors.names, self.data.factors.sizes, strict=True)
            for k, (name, size) in enumerate(columns):
                levels = self.sampled_levels()[:, k].tolist()
                found.append(Colouring(name=name, levels=levels, count=size))
        clusters = self.encoded().clusters
        if clusters is not None and self.handle.layout.clusters:
            taken = any(one.name == "cluster" for one in found)
            name = "cluster found by the model" if taken else "cluster"
            count = self.handle.layout.clusters
            found.append(Colouring(name=name, levels=clusters.tolist(), count=count))
        return found

    def select(self, indices: Sequence[int]) -> Selection:
        """What points of the space have in common."""
        require(bool(len(indices)), "no point is selected; name at least one index of the space")
        for index in indices:
            require(index in self.place, f"example {index} is not among the points of the space")
        places = np.array(sorted({self.place[index] for index in indices}))
        picture, factors = "", self.data.factors
        if self.pictured:
            sums = [
                self.shown(x.numpy()).sum(0, dtype=np.float64)
                for x in self.handle.each_taken(self.index[places])
            ]
            mean = tiles.as_bytes(np.sum(sums, axis=0) / len(places) / 255)
            picture = tiles.address(tiles.png(mean[None, None]))
        every = self.sampled_levels()
        return Selection(
            count=len(places),
            picture=picture,
            factors=[]
            if factors is None
            else spaces.factor_differences(factors, every[places], every),
            latents=spaces.latent_differences(self.encoded().codes[places], self.encoded().codes),
        )

    # Factors

    def factors(self) -> FactorTable:
        """What latents know of factors, and the scores that the run keeps."""
        latents = [one.number for one in self.facts().latents]
        factors, (scores, told) = self.data.factors, self._scores()
        notes: list[str] = []
        if factors is None:
            notes.append("This data has no factors that latents could be compared with.")
        elif not isinstance(self.finished.model.mapping, IdentityMapping):
            notes.append(
                "The table is of latents before the model's mapping, which sliders move; scores "
                "are of the code after it."
            )
        return FactorTable(
            factors=[] if factors is None else list(factors.names),
            latents=latents,
            matrix=[] if factors is None else self.knowledge()[latents].round(4).tolist(),
            scores=scores,
            note=" ".join([*notes, *told]),
        )

    def _scores(self) -> tuple[list[ScoreLine], list[str]]:
        """The scores that are kept, and what is to be said where there are none."""
        try:
            scores = score_lines(self.finished.path)
        except RunError as error:
            return [], [f"The scores cannot be read: {error}."]
        absent = f"No scores are kept; untwine evaluate {self.name} computes them."
        return scores, [] if scores else [absent]


def _short(values: NDArray[np.floating]) -> list[float]:
    """Numbers to a hundred-thousandth of the largest.

    >>> _short(np.array([1234.56789, 1.23456789]))
    [1234.57, 1.23]
    """
    largest = float(np.abs(values).max()) or 1.0
    return values.astype(float).round(max(0, 5 - math.floor(math.log10(largest)))).tolist()
