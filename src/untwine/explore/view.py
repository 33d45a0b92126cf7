"""Views of one run, computed on first use; no web code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.errors import IncompatibleError, RunError
from untwine.explore.answers import (
    Cluster,
    Example,
    FactorTable,
    Matches,
    Progress,
    Reconstruction,
    Reconstructions,
    RunSummary,
    ScoreLine,
    Start,
)
from untwine.explore.measuring import Measure, Measures
from untwine.explore.model import TORCH_LOCK, Index
from untwine.explore.points import RunPoints
from untwine.explore.sample import check_count, check_seed, require
from untwine.explore.summaries import describe_clusters, run_summary, score_lines
from untwine.explore.uploads import fit_to_model
from untwine.tools.compute import seeded
from untwine.tools.images import data_url

Order = Literal[
    "unlikely",
    "likely",
    "worst",
    "best",
    "informative",
    "uninformative",
    "far",
    "near",
    "data",
    "random",
]
ORDERS: dict[Order, tuple[Measure | None, int]] = {  # by a measure, from its small end or large
    "unlikely": ("log_likelihood", 1),
    "likely": ("log_likelihood", -1),
    "worst": ("error", -1),
    "best": ("error", 1),
    "informative": ("kl", -1),
    "uninformative": ("kl", 1),
    "far": ("distance", -1),
    "near": ("distance", 1),
    "data": (None, 1),
    "random": (None, 1),
}
N_PRIOR_CODES = 1024  # drawn from the prior to show those assigned to a cluster


class RunView(RunPoints):
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
        return [self._example(i) for i in self.choose_examples(count, seed)]

    def find(self, text: str, count: int) -> Matches:
        """The examples of all the data whose file or name contains a text, in any case."""
        wanted = text.lower()
        named = enumerate(self.data.example_names)
        matching = [index for index, name in named if wanted in name.lower()]
        first = matching[: check_count(count, "examples")]
        return Matches(count=len(matching), examples=[self._example(index) for index in first])

    def _example(self, index: int) -> Example:
        return Example(index=index, name=self.example_name(index), levels=self.levels(index))

    def image(self, index: int) -> bytes:
        """An example of the data."""
        return self.row(self.shared_model.take([self.check_index(index)]).numpy())

    # Codes to start from

    def start_from(self, index: int) -> Start:
        """The code of an example."""
        code, picture = self.code(self.check_index(index)), ""
        if self.has_pictures:
            picture = data_url(self.image(index))
        row = self.row_values(index) if self.has_rows else None
        name = self.example_name(index)
        return Start(code=code.tolist(), picture=picture, note="", name=name, row=row)

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
        codes = self._traversal_codes(code, latents, steps)
        self.require_room(codes.shape[0] * steps)
        return self.grid(codes)

    def traversal_rows(
        self, code: Sequence[float], latents: Sequence[int], steps: int
    ) -> list[list[list[float]]]:
        """The same for a table: for each latent the rows of numbers of its steps."""
        return self.decode_rows(self._traversal_codes(code, latents, steps))

    def _traversal_codes(
        self, code: Sequence[float], latents: Sequence[int], steps: int
    ) -> NDArray[np.floating]:
        """(R, S, D) a code in which one latent moves."""
        start = self.check_code(code)
        summaries = {one.number: one for one in self.summary().latents}
        require(2 <= steps, f"a traversal needs at least 2 steps, not {steps}")
        require(bool(len(latents)), "no latent is named; name those to show, such as 0,3")
        for number in latents:
            self.require_latent(number)
        rows = len(latents)
        require(rows <= len(start), f"{rows} are too many; this model has {len(start)} latents")
        codes = np.tile(start, (rows, steps, 1))
        for row, number in enumerate(latents):
            codes[row, :, number] = np.linspace(
                summaries[number].low, summaries[number].high, steps
            )
        return codes

    def between(self, start: int, end: int, steps: int) -> bytes:
        """One row from an example to another along the straight line between their codes."""
        self.require_pictures()
        self.require_room(steps)
        return self.grid(self._path_codes(start, end, steps))

    def between_rows(self, start: int, end: int, steps: int) -> list[list[float]]:
        """The same for a table: rows of numbers."""
        return self.decode_rows(self._path_codes(start, end, steps))[0]

    def _path_codes(self, start: int, end: int, steps: int) -> NDArray[np.floating]:
        """(1, S, D) codes on the line between those of two examples.

        Labels have no line between them: they change in the middle.
        """
        require(2 <= steps, f"a path between two examples needs at least 2 steps, not {steps}")
        ends = [self.code(self.check_index(index)) for index in (start, end)]
        codes, latents = np.linspace(ends[0], ends[1], steps), len(self.shared_model.layout.parts)
        half = steps // 2
        codes[:half, latents:], codes[half:, latents:] = ends[0][latents:], ends[1][latents:]
        return codes[None]

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

    @property
    def measures(self) -> Measures:
        """The likelihood, KL, error and distance of examples, measured in the background."""
        self.require_examples()
        return self.memo("measures", self._measures)

    def _measures(self) -> Measures:
        key = self.trained.record["weights"] if self.trained.has_own_data else ""
        return Measures(self.shared_model, self.index, self.statistics(), key)

    def reconstructions(
        self, count: int, order: Order, seed: int = 0, start: int = 0
    ) -> Reconstructions:
        """Examples of the data in an order, from a rank on; what is measured so far is ordered.

        Args:
            count: of the examples.
            order: by likelihood, KL, error or distance, as the data has them, or at random.
            seed: for a random order.
            start: the rank of the first example.
        """
        check_count(count, "images")
        self.measures.wait_for_some()
        ranked = self._ranked(order, check_seed(seed))
        return Reconstructions(
            examples=[self._reconstruction(int(i)) for i in ranked[start : start + count]],
            count=len(ranked),
            progress=self.progress(),
        )

    def progress(self) -> Progress:
        """How many examples are measured."""
        measures = self.measures
        return Progress(
            done=measures.done,
            target=measures.target,
            total=measures.total,
            running=measures.is_running,
            seconds=measures.seconds_left,
            problem=measures.problem,
        )

    def measure_all(self) -> Progress:
        """Measure all examples in the background."""
        self.measures.start(everything=True)
        return self.progress()

    def _ranked(self, order: Order, seed: int) -> Index:
        """Examples in an order; those that are not measured yet are left out."""
        require(order in ORDERS, f"examples are ordered by {', '.join(ORDERS)}, not by {order}")
        measures, (name, sign) = self.measures, ORDERS[order]
        if name is None:
            examples = np.sort(measures.order)
            return (
                examples if order == "data" else np.random.default_rng(seed).permutation(examples)
            )
        values = measures.values[name]
        measured = np.flatnonzero(~np.isnan(values))
        return measured[np.argsort(sign * values[measured], kind="stable")]

    def _reconstruction(self, index: int) -> Reconstruction:
        values = {name: float(values[index]) for name, values in self.measures.values.items()}
        finite = {name: None if math.isnan(value) else value for name, value in values.items()}
        row = self.row_values(index) if self.has_rows else None
        return Reconstruction(
            index=index, name=self.example_name(index), levels=self.levels(index), row=row, **finite
        )

    def reconstruction(self, index: int) -> bytes:
        """The reconstruction of an example."""
        self.require_pictures()
        return self.grid(self.code(self.check_index(index))[None, None])

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

    # Factors

    def factors(self) -> FactorTable:
        """What latents know of factors, and the stored scores of the run."""
        latents = [one.number for one in self.summary().latents]
        factors, (scores, problem) = self.factors_of_data, self._scores()
        notes = [problem] if problem else []
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
            note=" ".join(notes),
        )

    def _scores(self) -> tuple[list[ScoreLine], str]:
        """The stored scores, and why they cannot be read."""
        try:
            return score_lines(self.trained.path), ""
        except RunError as error:
            return [], f"The scores cannot be read: {error}."
