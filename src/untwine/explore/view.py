"""Views of one run, computed on first use; no web code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.errors import IncompatibleError, RunError
from untwine.explore import spaces
from untwine.explore.answers import (
    Cluster,
    Colouring,
    Example,
    FactorTable,
    Reconstruction,
    RunSummary,
    ScoreLine,
    Selection,
    Space,
    Start,
)
from untwine.explore.constants import SHEET_COLUMNS
from untwine.explore.model import TORCH_LOCK
from untwine.explore.sample import RunSample, check_count, check_seed, require
from untwine.explore.summaries import describe_clusters, run_summary, score_lines
from untwine.explore.uploads import fit_to_model
from untwine.records import ACTIVE_NATS
from untwine.tools.compute import seeded
from untwine.tools.images import data_url, sheet_png, tiles_png, to_bytes

Order = Literal["worst", "best", "random"]
By = Literal["latents", "pca", "tsne"]
N_PRIOR_CODES = 1024  # drawn from the prior to show those assigned to a cluster
MIN_TSNE_EXAMPLES = 5


class RunView(RunSample):
    """Views of a finished run. All methods may be called from any thread.

    A code is z, before the mapping. Pictures are PNG without gaps between images. An image has the
    size of the data's images, or that of a small plane for data of two numbers
    (`RunSummary.tile`).

    Args:
        trained: the run.
        name: the run's name in the explorer.
        examples: number of examples in the sample of the data.
        seed: for choosing the examples.
    """

    def summary(self) -> RunSummary:
        """The description of the run that every view needs."""
        return self.memo("summary", lambda: run_summary(self))

    def examples(self, count: int, seed: int) -> list[Example]:
        """Examples chosen at random from the sample."""
        return [Example(index=i, levels=self.levels(i)) for i in self.choose_examples(count, seed)]

    def image(self, index: int) -> bytes:
        """An example of the data."""
        return self.row(self.shared_model.take([self.check_index(index)]).numpy())

    def sheet(self) -> bytes:
        """The images of the sample in the order of `Space.index`, 32 to a row."""
        self.require_pictures()
        self.require_examples()
        return self.memo("sheet", self._sheet)

    def _sheet(self) -> bytes:
        parts = [self.as_images(x.numpy()) for x in self.shared_model.each_taken(self.index)]
        return sheet_png(np.concatenate(parts), SHEET_COLUMNS)

    # Codes to start from

    def start_from(self, index: int) -> Start:
        """The code of an example."""
        code, picture = self.code(self.check_index(index)), ""
        if self.has_pictures:
            picture = data_url(self.image(index))
        return Start(code=code.tolist(), picture=picture, note="")

    def start_from_prior(self, seed: int) -> Start:
        """A code drawn from the model's prior."""
        code = self.shared_model.sample_codes(1, check_seed(seed))[0].tolist()
        levels = [seed % len(names) for names in self.shared_model.labels.values()]
        return Start(code=[*code, *levels], picture="", note="")

    def start_from_upload(self, content: bytes, levels: Sequence[int] = ()) -> Start:
        """The code of a picture file, cropped and resized to fit the model.

        Without levels of its labels, a conditional model takes the first of each.
        """
        if not self.shared_model.has_images:
            raise IncompatibleError(
                "this model takes vectors, not pictures; start from an example or from the prior"
            )
        x, note = fit_to_model(content, self.shape)
        chosen = self.check_levels(levels or [0] * len(self.shared_model.labels))
        code = self.shared_model.encode(x, self._companions, chosen)
        return Start(code=code.tolist(), picture=data_url(self.row(x[None].numpy())), note=note)

    # Pictures of codes

    def decode(self, code: Sequence[float]) -> bytes:
        """The decoded image of a code."""
        self.require_pictures()
        return self.row(self.shared_model.decode(self.check_code(code)[None]))

    def traversals(self, code: Sequence[float], latents: Sequence[int], steps: int) -> bytes:
        """One row per latent, in which it moves from its lowest to its highest value."""
        self.require_pictures()
        start = self.check_code(code)
        summaries = {one.number: one for one in self.summary().latents}
        require(2 <= steps, f"a traversal needs at least 2 steps, not {steps}")
        require(bool(len(latents)), "no latent is named; name those to show, such as 0,3")
        for number in latents:
            self.require_latent(number)
        rows = len(latents)
        require(rows <= len(start), f"{rows} are too many; this model has {len(start)} latents")
        self.require_room(rows * steps)
        codes = np.tile(start, (rows, steps, 1))
        for row, number in enumerate(latents):
            codes[row, :, number] = np.linspace(
                summaries[number].low, summaries[number].high, steps
            )
        return self.grid(codes)

    def between(self, start: int, end: int, steps: int) -> bytes:
        """One row from an example to another along the straight line between their codes."""
        self.require_pictures()
        require(2 <= steps, f"a path between two images needs at least 2 steps, not {steps}")
        self.require_room(steps)
        ends = [self.code(self.check_index(index)) for index in (start, end)]
        return self.grid(np.linspace(ends[0], ends[1], steps)[None])

    def groups(self, cluster: int, seed: int, rows: int, columns: int) -> bytes:
        """A grid: each row draws the shared latents anew, each column an example's own latents.

        Own codes keep their position relative to their cluster, which moves with the shared code.
        """
        self.require_pictures()
        shared = self.shared_model.layout.shared
        if not shared:
            raise IncompatibleError(
                "this model has no latents that a group shares; open one that has, such as ug-vae "
                "or ml-vae"
            )
        self.require_room(check_count(rows, "rows") * check_count(columns, "columns"))
        own = len(self.shared_model.layout.parts) - shared
        with TORCH_LOCK, seeded(check_seed(seed)):
            beta, noise = torch.randn(rows, shared), torch.randn(columns, own)
            prior = self.shared_model.model.latents.own_prior(beta)
        require(
            0 <= cluster < prior.mean.shape[1],
            f"own codes have {prior.mean.shape[1]} clusters, counted from 0; there is no {cluster}",
        )
        codes = prior.mean[:, cluster, None] + prior.std[:, cluster, None] * noise
        z = torch.cat([codes, beta[:, None].expand(-1, columns, -1)], -1)
        return self.grid(z.numpy())

    # Reconstructions

    def reconstructions(self, count: int, order: Order, seed: int) -> list[Reconstruction]:
        """Examples of the sample with their reconstruction errors."""
        errors = self.memo("errors", self._errors)
        if order == "random":
            rows = [self.row_of[index] for index in self.choose_examples(count, seed)]
        else:
            check_count(count, "images")
            signed = -errors if order == "worst" else errors
            rows = np.argsort(signed, kind="stable")[:count].tolist()
        pairs = [(int(self.index[row]), float(errors[row])) for row in rows]
        return [Reconstruction(index=i, levels=self.levels(i), error=e) for i, e in pairs]

    def reconstruction(self, index: int) -> bytes:
        """The reconstruction of an example."""
        self.require_pictures()
        return self.grid(self.code(self.check_index(index))[None, None])

    def _errors(self) -> NDArray[np.float64]:
        """(N,) squared errors, summed over pixels."""
        codes = self.shared_model.add_labels(self.statistics().codes, self.index)
        decoded = self.shared_model.each_decoded(codes)
        pairs = zip(decoded, self.shared_model.each_taken(self.index), strict=True)
        gaps = [(y - x.numpy()).astype(np.float64).reshape(len(x), -1) for y, x in pairs]
        return np.concatenate([(gap**2).sum(1) for gap in gaps])

    # Clusters

    def clusters(self) -> list[Cluster]:
        """The clusters of the model with their members in the sample."""
        self.require_clusters()
        if self.has_examples:
            return self.memo("clusters", lambda: describe_clusters(self))
        _, assigned = self.memo_draws(0, lambda: self._sample_clusters(0))
        return [
            Cluster(number=number, share=float((assigned == number).mean()), members=[], most=[])
            for number in range(self.shared_model.layout.clusters)
        ]

    def cluster(self, number: int, seed: int, count: int) -> bytes:
        """One row of images drawn from the prior that the model assigns to a cluster.

        The row is shorter than `count` if the model assigns fewer of its draws to the cluster.
        """
        self.require_pictures()
        clusters = self.require_clusters()
        require(0 <= number < clusters, f"clusters are 0 to {clusters - 1}; there is no {number}")
        self.require_room(check_count(count, "images"))
        codes, assigned = self.memo_draws(check_seed(seed), lambda: self._sample_clusters(seed))
        chosen = codes[assigned == number][:count]
        if not len(chosen):
            raise IncompatibleError(
                f"the model assigns none of {len(codes)} draws from its prior to cluster {number}; "
                "see its members instead"
            )
        return self.grid(chosen[None])

    def _sample_clusters(self, seed: int) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """(n, D) codes from the prior, and (n,) the clusters assigned to their images."""
        codes = self.shared_model.sample_codes(N_PRIOR_CODES, seed)
        images = map(torch.from_numpy, self.shared_model.each_decoded(codes))
        return codes, np.concatenate([self.shared_model.assign(x) for x in images])

    # Space

    def space(self, by: By, x: int, y: int) -> Space:
        """The sample in two dimensions.

        Args:
            by: two latents, two main directions (both counted from 0), or t-SNE, which ignores x
                and y, as do the main directions of a single latent.
            x: number of the latent or direction on the horizontal axis.
            y: number on the vertical axis.
        """
        points, across, up = self._coordinates(by, x, y)
        return Space(
            across=across,
            up=up,
            index=self.index.tolist(),
            x=_round_to_range(points[:, 0]),
            y=_round_to_range(points[:, 1]),
            colourings=self._colourings(),
        )

    def _coordinates(self, by: By, x: int, y: int) -> tuple[NDArray[np.floating], str, str]:
        """(N, 2) coordinates of the sample, and the labels of the axes."""
        if by == "tsne":
            enough = len(self.index) >= MIN_TSNE_EXAMPLES
            require(enough, f"t-SNE needs at least {MIN_TSNE_EXAMPLES} examples")
            return self.memo("tsne", self._tsne), "t-SNE 1", "t-SNE 2"
        if by == "latents":
            for number in (x, y):
                self.require_latent(number)
            return self.statistics().codes[:, [x, y]], f"latent {x}", f"latent {y}"
        require(by == "pca", f"codes are shown by latents, pca or tsne, not by {by}")
        if len(self.shared_model.layout.parts) == 1:
            return self._jittered(), "latent 0", "at random: there is only one latent"
        codes, share = self.memo(
            "pca", lambda: spaces.principal_coordinates(self.statistics().codes)
        )
        for number in (x, y):
            require(
                0 <= number < len(share),
                f"main directions are 0 to {len(share) - 1}; there is no {number}",
            )
        labels = [f"main direction {d + 1} ({100 * share[d]:.0f} % of variance)" for d in (x, y)]
        return codes[:, [x, y]], labels[0], labels[1]

    def _jittered(self) -> NDArray[np.floating]:
        """(N, 2) a single latent with random heights, so that points do not overlap."""
        heights = np.random.default_rng(0).random((len(self.index), 1))
        return np.concatenate([self.statistics().codes, heights], 1)

    def _tsne(self) -> NDArray[np.floating]:
        return spaces.tsne_coordinates(self.statistics().codes, self.statistics().nats, ACTIVE_NATS)

    def _colourings(self) -> list[Colouring]:
        """Colourings by every factor, and by cluster."""
        colourings: list[Colouring] = []
        if self.data.factors is not None:
            columns = zip(self.data.factors.names, self.data.factors.sizes, strict=True)
            for k, (name, size) in enumerate(columns):
                levels = self.sampled_levels()[:, k].tolist()
                colourings.append(Colouring(name=name, levels=levels, count=size))
        clusters = self.statistics().clusters
        if clusters is not None and self.shared_model.layout.clusters:
            taken = any(one.name == "cluster" for one in colourings)
            name = "cluster found by the model" if taken else "cluster"
            count = self.shared_model.layout.clusters
            colourings.append(Colouring(name=name, levels=clusters.tolist(), count=count))
        return colourings

    def select(self, indices: Sequence[int]) -> Selection:
        """What distinguishes points of the space."""
        self.require_examples()
        require(bool(len(indices)), "no point is selected; name at least one index of the space")
        for index in indices:
            require(index in self.row_of, f"example {index} is not among the points of the space")
        rows = np.array(sorted({self.row_of[index] for index in indices}))
        picture, factors = "", self.data.factors
        if self.has_pictures:
            sums = [
                self.as_images(x.numpy()).sum(0, dtype=np.float64)
                for x in self.shared_model.each_taken(self.index[rows])
            ]
            mean = to_bytes(np.sum(sums, axis=0) / len(rows) / 255)
            picture = data_url(tiles_png(mean[None, None]))
        levels = self.sampled_levels()
        return Selection(
            count=len(rows),
            picture=picture,
            factors=[]
            if factors is None
            else spaces.factor_differences(factors, levels[rows], levels),
            latents=spaces.latent_differences(
                self.statistics().codes[rows], self.statistics().codes
            ),
        )

    # Factors

    def factors(self) -> FactorTable:
        """What latents know of factors, and the stored scores of the run."""
        latents = [one.number for one in self.summary().latents]
        factors, (scores, score_notes) = self.factors_of_data, self._scores()
        notes: list[str] = []
        if not self.has_examples:
            notes.append(f"{self.missing[0].upper()}{self.missing[1:]}.")
        elif factors is None:
            notes.append("This dataset has no factors to compare latents with.")
        elif self.trained.model.has_mapping:
            notes.append(
                "The table shows latents before the model's mapping, which the sliders move. "
                "Scores use the code after it."
            )
        return FactorTable(
            factors=[] if factors is None else list(factors.names),
            latents=latents,
            matrix=[] if factors is None else self.factor_shares()[latents].round(4).tolist(),
            scores=scores,
            note=" ".join([*notes, *score_notes]),
        )

    def _scores(self) -> tuple[list[ScoreLine], list[str]]:
        """The stored scores, and notes on missing ones."""
        try:
            scores = score_lines(self.trained.path)
        except RunError as error:
            return [], [f"The scores cannot be read: {error}."]
        missing = f"No scores are stored; compute them with untwine evaluate {self.name}."
        return scores, [] if scores else [missing]


def _round_to_range(values: NDArray[np.floating]) -> list[float]:
    """Round numbers to about a hundred-thousandth of the largest.

    >>> _round_to_range(np.array([1234.56789, 1.23456789]))
    [1234.57, 1.23]
    """
    largest = float(np.abs(values).max()) or 1.0
    return values.astype(float).round(max(0, 5 - math.floor(math.log10(largest)))).tolist()
