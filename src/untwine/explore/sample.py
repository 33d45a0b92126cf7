"""A run with a sample of its data, which every view is made of."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors
from untwine.errors import DataError, IncompatibleError, ParameterError, RunError, UntwineError
from untwine.explore.constants import MAX_CODE_VALUE
from untwine.explore.memo import Memo
from untwine.explore.model import TORCH_LOCK, Index, SharedModel
from untwine.explore.plane import DOT_SIDE, Plane
from untwine.latents import (
    MAX_PIXELS,
    SAMPLE_SIZE,
    LatentStatistics,
    sample_examples,
    summarise_latents,
)
from untwine.records import LatentProfile
from untwine.runs.directory import TrainedRun
from untwine.scoring.codes import measure_of
from untwine.scoring.latents import (
    N_RANGE_CODES,
    LatentDescription,
    describe_latents,
    factor_shares,
    film_changes,
)
from untwine.tools.compute import seeded
from untwine.tools.images import tiles_png, to_bytes

MAX_MEMOS = 40  # results of a run that are memoised: more than one visitor asks for
N_SAMPLES = 200  # of the model, that stand for its data where this is not here
MAX_MEMO_SEEDS = 4  # seeds whose draws from the prior are memoised


class RunSample:
    """A finished run and a sample of its data; results are computed on first use and memoised.

    Without its data a run still has latents, samples and scores; `missing` says why there are no
    examples, and what to type to have them.
    """

    def __init__(
        self, trained: TrainedRun, *, name: str, examples: int = SAMPLE_SIZE, seed: int = 0
    ) -> None:
        self.trained, self.name = trained, name
        self.shape = trained.model.sizes.shape
        data, self.missing = _open_data(trained)
        self.shared_model = SharedModel(trained, data)
        self.index = (
            np.zeros(0, np.int64) if data is None else sample_examples(data, examples, seed)
        )
        self.row_of = {int(index): row for row, index in enumerate(self.index)}
        self.memo, self.memo_draws = Memo(MAX_MEMOS), Memo(MAX_MEMO_SEEDS)
        self._plane = Plane(self._points()) if tuple(self.shape) == (2,) else None

    def _points(self) -> NDArray[np.floating]:
        """(N, 2) the points over which others are drawn: those of the data, or else samples."""
        if self.has_examples:
            return self.shared_model.take(self.index).numpy()
        return self.shared_model.decode(self.shared_model.sample_codes(N_SAMPLES, 0))

    @property
    def has_examples(self) -> bool:
        """Whether the data of the run is here."""
        return self.shared_model.data is not None

    @property
    def data(self) -> Dataset:
        """The data of the run; a sentence where it is not here."""
        if self.shared_model.data is None:
            raise RunError(self.missing)
        return self.shared_model.data

    def require_examples(self) -> None:
        """Refuse a view of examples where there are none."""
        _ = self.data

    @property
    def factors_of_data(self) -> Factors | None:
        """The factors of the data, if it is here and has some."""
        return self.data.factors if self.has_examples else None

    def code(self, index: int) -> NDArray[np.floating]:
        """(D,) the code of an example, encoded with its batch of the sample if it is one group."""
        if self.shared_model.layout.whole_batch and index in self.row_of:
            code = self.statistics().codes[[self.row_of[index]]]
            return self.shared_model.add_labels(code, [index])[0]
        levels = self.shared_model.add_labels(np.zeros((1, 0)), [index])[0].astype(int).tolist()
        x = self.shared_model.take([index])[0]
        return self.shared_model.encode(x, self._companions, levels)

    def _companions(self, count: int) -> Index:
        """Positions of examples that stand for the rest of a batch."""
        self.require_examples()
        return np.resize(self.index, count)

    def statistics(self) -> LatentStatistics:
        """The codes, nats and clusters of the sample."""
        self.require_examples()
        return self.memo("statistics", lambda: self.shared_model.measure(self.index))

    def profiles(self) -> Sequence[LatentProfile]:
        """How much every latent says, and its range: of the sample, or as training stored it.

        Runs of version 0.1 stored nothing; without their data, samples of the model are measured.
        """
        if self.has_examples:
            return self.memo("profiles", lambda: summarise_latents(self.statistics()))
        card = self.trained.model.card
        if card and card.latents:
            return card.latents
        return self.memo(
            "profiles", lambda: summarise_latents(self.shared_model.measure_samples(N_SAMPLES))
        )

    def measured_names(self) -> list[str]:
        """What the model says of each example: "log_likelihood", "kl", "error", "distance".

        Examples that share latents have no KL and no likelihood of their own, and some models have
        no likelihood at all.
        """
        if not self.has_examples:
            return []
        return self.memo("measured names", self._measured_names)

    def _measured_names(self) -> list[str]:
        columns: Iterable[str] = ["error"]
        if not self.shared_model.layout.shared:
            with TORCH_LOCK, seeded(0):
                x = self.shared_model.take(self.index[:1])
                model = self.shared_model.model.given_data(self.data, self.index[:1])
                columns = measure_of(False, 1)(model, x)
        return [name for name in ("log_likelihood", "kl", "error") if name in columns] + [
            "distance"
        ]

    def factor_shares(self) -> NDArray[np.float64]:
        """(D, K) shares of the factors' entropies that latents know; (D, 0) without factors."""
        if self.factors_of_data is None:
            return np.zeros((len(self.shared_model.layout.parts), 0))
        return self.memo(
            "factor shares", lambda: factor_shares(self.statistics().codes, self.sampled_levels())
        )

    def describe_latents(self) -> list[LatentDescription]:
        """Every latent, the most informative first."""
        factors = self.factors_of_data
        parts, names = self.shared_model.layout.parts, factors.names if factors else ()
        codes = self.shared_model.sample_codes(N_RANGE_CODES, 0)
        changes = film_changes(self.shared_model.decode, codes, self.profiles())
        return describe_latents(self.profiles(), parts, self.factor_shares(), names, changes)

    def sampled_levels(self) -> NDArray[np.int64]:
        """(N, K) the factor levels of the sample."""
        factors = self.factors_of_data
        if factors is None:
            return np.zeros((len(self.index), 0), np.int64)
        return factors.levels_at(self.index)

    def levels(self, index: int) -> dict[str, int]:
        """The factor levels of an example, by factor."""
        if self.data.factors is None:
            return {}
        levels = self.data.factors.levels_at(np.array([index]))[0].tolist()
        return dict(zip(self.data.factors.names, levels, strict=True))

    def example_name(self, index: int) -> str:
        """The file or name of an example; empty if it has none."""
        return self.data.example_name(index) if self.data.example_names else ""

    @property
    def has_pictures(self) -> bool:
        """Whether examples can be drawn as pictures."""
        return self.shared_model.has_images or self._plane is not None

    @property
    def tile(self) -> list[int]:
        """Height and width of an image in pictures; empty if there are no pictures."""
        if self.shared_model.has_images:
            return list(self.shape[1:])
        return [DOT_SIDE, DOT_SIDE] if self.has_pictures else []

    def choose_examples(self, count: int, seed: int) -> list[int]:
        """Indices of distinct examples, chosen at random from the sample."""
        rng = np.random.default_rng(check_seed(seed))
        n = min(check_count(count, "examples"), len(self.index))
        return rng.choice(self.index, n, replace=False).tolist()

    def as_images(self, examples: NDArray[np.floating]) -> NDArray[np.uint8]:
        """(N, *shape) examples as images (N, C, H, W)."""
        return to_bytes(examples if self._plane is None else self._plane.dots(examples))

    def row(self, examples: NDArray[np.floating]) -> bytes:
        """(N, *shape) examples as a picture of one row."""
        self.require_pictures()
        return tiles_png(self.as_images(examples)[None])

    def grid(self, codes: NDArray[np.floating]) -> bytes:
        """(R, C, D) codes as a picture of R rows and C columns."""
        parts = self.shared_model.each_decoded(codes.reshape(-1, codes.shape[-1]))
        images = np.concatenate([self.as_images(part) for part in parts])
        return tiles_png(images.reshape(*codes.shape[:2], *images.shape[1:]))

    # Checks

    def require_usable(self) -> None:
        """Refuse a model whose codes or images are not finite numbers."""
        codes = [self.shared_model.sample_codes(1, 0)]
        try:
            codes += [self.statistics().codes[:1]] if self.has_examples else []
        except DataError as error:
            raise RunError(f"{self.name} is unusable: {error}") from error
        if not np.isfinite(self.shared_model.decode(np.concatenate(codes))).all():
            raise RunError(f"{self.name} is unusable: its images hold NaN or infinity")

    def check_index(self, index: int) -> int:
        """Return an index, if the data has it."""
        require(
            0 <= index < len(self.data),
            f"the examples of this data are 0 to {len(self.data) - 1}; there is no {index}",
        )
        return index

    def check_code(self, code: Sequence[float]) -> NDArray[np.float32]:
        """Return (D,) a code as an array, if it fits the model."""
        latents = len(self.shared_model.layout.parts)
        numbers = latents + len(self.shared_model.labels)
        require(
            len(code) == numbers, f"a code of this model has {numbers} numbers, not {len(code)}"
        )
        self.check_levels(code[latents:])
        fits = all(math.isfinite(value) and abs(value) <= MAX_CODE_VALUE for value in code)
        require(
            fits, f"the numbers of a code lie between -{MAX_CODE_VALUE:g} and {MAX_CODE_VALUE:g}"
        )
        return np.array(code, np.float32)

    def check_levels(self, levels: Sequence[float]) -> list[int]:
        """Return a level of each label, if the labels have them."""
        labels = self.shared_model.labels
        require(len(levels) == len(labels), f"this model has {len(labels)} labels; give them all")
        for level, (name, names) in zip(levels, labels.items(), strict=True):
            known = level in range(len(names))
            require(known, f"the levels of {name} are 0 to {len(names) - 1}; there is no {level:g}")
        return [int(level) for level in levels]

    def require_latent(self, number: int) -> None:
        """Refuse a number that is not of a latent."""
        latents = len(self.shared_model.layout.parts)
        require(0 <= number < latents, f"latents are 0 to {latents - 1}; there is no {number}")

    def require_pictures(self) -> None:
        """Refuse data that cannot be drawn."""
        if not self.has_pictures:
            raise IncompatibleError(
                f"the examples of this data are {self.shape.numel()} numbers, which have no "
                "picture; ask for .json instead of .png"
            )

    def require_clusters(self) -> int:
        """Return the number of clusters; refuse a model without."""
        if not self.shared_model.layout.clusters:
            raise IncompatibleError("this model has no clusters; open one that has, such as gm-vae")
        return self.shared_model.layout.clusters

    def require_room(self, images: int) -> None:
        """Refuse a picture of too many images."""
        per_image = self.shape.numel() if self.shared_model.has_images else DOT_SIDE**2
        require(
            images * per_image <= MAX_PIXELS,
            f"{images} images are too many for one picture; ask for fewer",
        )


def _open_data(trained: TrainedRun) -> tuple[Dataset | None, str]:
    """The data of a run, or why it is not here and what to type."""
    try:
        return trained.data, ""
    except UntwineError as error:
        command = f"untwine explore {shlex.quote(trained.path.name)} --data PLACE"
        return None, f"there are no examples to show: {error}. Start the explorer with {command}"


def check_count(count: int, what: str) -> int:
    """Return a count, if it is positive."""
    require(count >= 1, f"the number of {what} must be at least 1, not {count}")
    return count


def check_seed(seed: int) -> int:
    """Return a seed, if it is in range."""
    require(0 <= seed < 2**63, f"a seed must be from 0 to {2**63 - 1}, not {seed}")
    return seed


def require(condition: bool, message: str) -> None:
    """Raise a `ParameterError` unless a condition holds."""
    if not condition:
        raise ParameterError(message)
