"""What metrics may ask for: of a model on its data, or of codes from anywhere.

The attributes have the names of the metrics' positional arguments. A method takes those of a
metric's parameters that it names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.dataset import Dataset
from untwine.errors import DataError, IncompatibleError
from untwine.estimators.arrays import largest_code
from untwine.latents import BatchStatistics, LatentStatistics, batch_statistics, combine
from untwine.records import Batch, Sampler
from untwine.schema import require_count
from untwine.tools.compute import derive_seed, pick_device, retain_freed_memory, seeded
from untwine.tools.deprecated import renamed_keywords
from untwine.tools.progress import progress
from untwine.vae import VAE

N_EXAMPLES = 10_000  # to score on by default
ENCODE_CHUNK = 512  # examples encoded at a time; a run is scored in batches as it was trained
MAX_PIXELS = 2**26  # of images kept in memory for one metric
MIN_EXAMPLES = 3  # two to learn from and one to test on
MAX_WEIGHTED = 512  # examples whose likelihood is estimated by importance sampling
GROUP_SIZE = 128  # images in a batch that shares a level, and
GROUPS_PER_FACTOR = 100  # batches for each factor, as in Peis et al., 2020
Floats = NDArray[np.floating]
Levels = NDArray[np.int64]


def split_indices(
    data: Dataset, n: int, held: int, seed: int, *, repeat: bool = False
) -> tuple[Levels, Levels]:
    """Positions of n random examples, and of others to test on: none is in both.

    Of data with many more examples than that, both are drawn anew, and what was drawn for both is
    drawn again. Of less, a third is set apart first, no example comes twice, and where the data
    has fewer examples than are asked for, there are only as many. With `repeat` it has as many
    as are asked for, and some come twice.
    """
    if len(data) < MIN_EXAMPLES:
        raise DataError(
            f"an evaluation needs data of at least {MIN_EXAMPLES} examples, not {len(data)}"
        )
    rng = np.random.default_rng(seed)
    if len(data) >= 10 * (n + held):
        first = data.sample_indices(n, rng)
        others = data.sample_indices(2 * held, np.random.default_rng(derive_seed(seed, 1)))
        return first, others[~np.isin(others, first)][:held]
    apart = np.random.default_rng(derive_seed(seed, 1)).permutation(len(data))
    third = max(1, len(data) // 3)
    if repeat:
        return rng.choice(apart[third:], n), rng.choice(apart[:third], held)
    return rng.permutation(apart[third:])[:n], rng.permutation(apart[:third])[:held]


def _finite(codes: Floats) -> Floats:
    largest_code(codes)
    return codes


class Representation:
    """A model on a sample of its data. Everything is computed on first use and kept.

    The sample is of the data that is held out for scores, if the dataset has such. No example of
    small data comes twice, unless with `repeat`.
    """

    @renamed_keywords(n="n_examples")
    def __init__(
        self,
        model: VAE,
        data: Dataset,
        *,
        n_examples: int = N_EXAMPLES,
        seed: int = 0,
        device: str = "auto",
        quiet: bool = True,
        chunk: int = ENCODE_CHUNK,
        repeat: bool = False,
    ) -> None:
        require_count("examples", n_examples, 2)
        retain_freed_memory()
        self.device = pick_device(device)
        self.model = model.to(self.device)
        self.data = (data.evaluation or data).to(self.device)
        self.seed, self.quiet, self.chunk = seed, quiet, chunk
        held = max(2, n_examples // 2)
        self.n_asked = n_examples
        self.index, self.test_index = split_indices(
            self.data, n_examples, held, seed, repeat=repeat
        )

    def has(self, need: str) -> bool:
        """Whether a metric that asks for this can be computed."""
        of_factors = need in {"factors", "test_factors", "batch_codes", "batch_levels"}
        return hasattr(type(self), need) and not (of_factors and self.data.factors is None)

    @functools.cached_property
    def codes(self) -> Floats:
        """(N, D') the representation of every example."""
        return self._encode(self.index)

    @functools.cached_property
    def test_codes(self) -> Floats:
        """(N / 2, D') the representation of other examples."""
        return self._encode(self.test_index)

    @functools.cached_property
    def sampled_codes(self) -> Floats:
        """(N, D') a draw from the posterior of every example, through the mapping."""
        with seeded(derive_seed(self.seed, 2)):
            return _finite(
                self._each(self.index, "sampling codes", lambda model, x: model.sample_codes(x))
            )

    @functools.cached_property
    def factors(self) -> Levels:
        """(N, K) the levels of every example's factors."""
        return self._levels(self.index)

    @functools.cached_property
    def test_factors(self) -> Levels:
        return self._levels(self.test_index)

    @property
    def unordered(self) -> tuple[int, ...]:
        """The positions of the factors whose levels have no order."""
        return self.data.factors.unordered_columns if self.data.factors else ()

    @functools.cached_property
    def images(self) -> Floats:
        """(M, *shape) the first examples, as many as fit in memory."""
        return self._each(self._some, "drawing", lambda _, x: x)

    @functools.cached_property
    def reconstructions(self) -> Floats:
        """(M, *shape) what the model makes of `images`."""
        if len(self._some) < len(self.index):  # a code may depend on what it is encoded with
            return self._each(self._some, "decoding", lambda model, x: model.reconstruct(x))
        codes = torch.from_numpy(self.codes)
        return self._chunks(
            len(codes),
            "decoding",
            lambda rows, _: self._model_for(self.index[rows]).decode(codes[rows]),
        )

    @functools.cached_property
    def samples(self) -> Floats:
        """(M, *shape) what the model draws from its own prior."""
        return self._samples("own")

    @functools.cached_property
    def normal_samples(self) -> Floats:
        """(M, *shape) what the model makes of codes from N(0, I), whatever its prior."""
        return self._samples("normal")

    def _samples(self, sampler: Sampler) -> Floats:
        parts: list[Floats] = []
        for start in range(0, len(self._some), self.chunk):
            model = self._model_for(np.resize(self._some[start:], self.chunk))
            seed = derive_seed(self.seed, start)
            parts.append(model.sample(self.chunk, sampler=sampler, seed=seed).cpu().numpy())
        return np.concatenate(parts)[: len(self._some)]

    @functools.cached_property
    def assignments(self) -> Levels:
        """(N,) the cluster of every example, for models that have clusters."""
        return self._each(self.index, "assigning", lambda model, x: model.assign(x)).astype(
            np.int64
        )

    @property
    def dimensions(self) -> int:
        """The numbers of one example."""
        return self.data.shape.numel()

    @functools.cached_property
    def elbos(self) -> Floats:
        """(M // chunk,) the evidence lower bound in nats, averaged over each whole chunk.

        No two share an example, so that their spread tells the error of their mean.
        """
        index = self._some[: len(self._some) // self.chunk * self.chunk or len(self._some)]
        with seeded(derive_seed(self.seed, 3)):
            each = self._each(index, "bounding", lambda model, x: model.elbo(x).expand(len(x)))
        return each[:: self.chunk]

    def log_weights(self, draws: int) -> Floats:
        """(M, draws) logarithms of importance weights, whose mean estimates the likelihood."""
        index = self._some[:MAX_WEIGHTED]
        with seeded(derive_seed(self.seed, 4)):
            return self._each(index, "weighing", lambda model, x: model.log_weights(x, draws))

    @property
    def batch_codes(self) -> Floats:
        """(K, M, D) what M batches, each of one level of a factor, share, for every factor."""
        return self._batches[0]

    @property
    def batch_levels(self) -> Levels:
        """(K, M) the level of each batch."""
        return self._batches[1]

    @functools.cached_property
    def latents(self) -> LatentStatistics:
        """How much each latent says of the first examples, as many as fit in memory."""
        index, parts = self._some, list[BatchStatistics]()
        with progress(len(index), "measuring", quiet=self.quiet) as show:
            for first, start, stop in self._spans(len(index)):
                batch = Batch(self._take(index[first:stop], start))
                with seeded(derive_seed(self.seed, 5, start)):
                    part = batch_statistics(self._model_for(index[first:stop]), batch)
                parts.append(part.without_first(start - first))
                show(stop, "")
        return combine(parts)

    @property
    def kl(self) -> Floats:
        """(D,) how much each latent says, in nats; see `scoring.latents`."""
        return self.latents.nats

    def encode_levels(self, levels: Levels) -> Floats:
        """(n, K) levels of all factors to the (n, D') codes of images that have them."""
        if self.data.factors is None or self.data.factors.table is not None:
            raise IncompatibleError("fresh draws need data in which every combination occurs once")
        index = np.asarray(np.ravel_multi_index(tuple(levels.T), self.data.factors.sizes))
        return self._encode(index.astype(np.int64))

    @property
    def _some(self) -> Levels:
        return self.index[: max(2, MAX_PIXELS // self.data.shape.numel())]

    def _levels(self, index: Levels) -> Levels:
        if self.data.factors is None:
            raise DataError("this data has no factors to score against")
        return self.data.factors.levels_at(index)

    @functools.cached_property
    def _batches(self) -> tuple[Floats, Levels]:
        factors = self.data.factors
        if factors is None:
            raise DataError("this data has no factors that batches could share")
        rng = np.random.default_rng(self.seed)
        levels = rng.permuted(
            np.stack([np.arange(GROUPS_PER_FACTOR) % size for size in factors.sizes]), axis=1
        )
        index = np.stack(
            [
                factors.sample_indices(GROUP_SIZE, rng, fixed={k: int(level)})
                for k, row in enumerate(levels)
                for level in row
            ]
        )
        codes = [
            self._model_for(batch).encode_group(self._take(batch, position)).cpu().numpy()
            for position, batch in enumerate(index)
        ]
        return _finite(np.stack(codes).reshape(*levels.shape, -1)), levels

    def _encode(self, index: Levels) -> Floats:
        return _finite(self._each(index, "encoding", lambda model, x: model.encode(x)))

    def _model_for(self, index: Levels) -> VAE:
        """The model for the labels of examples, where it needs them."""
        return self.model.given_data(self.data, index)

    def _take(self, index: Levels, position: int) -> torch.Tensor:
        """Images; what is random in them depends on the position alone, so they are the same."""
        with seeded(derive_seed(self.seed, position)):
            return self.data.take(torch.from_numpy(index).to(self.device))

    def _each(
        self, index: Levels, label: str, function: Callable[[VAE, torch.Tensor], torch.Tensor]
    ) -> NDArray[Any]:
        """A function of the model and the examples at these positions."""
        return self._chunks(
            len(index),
            label,
            lambda rows, start: function(
                self._model_for(index[rows]), self._take(index[rows], start)
            ),
        )

    @torch.no_grad()
    def _chunks(
        self, n: int, label: str, function: Callable[[slice, int], torch.Tensor]
    ) -> NDArray[Any]:
        """A function of rows, and of where they begin, for n rows in chunks of one size.

        The last chunk reaches back for that, as some codes depend on it.
        """
        parts: list[NDArray[Any]] = []
        with progress(n, label, quiet=self.quiet) as show:
            for first, start, stop in self._spans(n):
                made = function(slice(first, stop), start)
                parts.append(made.cpu().numpy()[start - first :])
                show(stop, "")
        return np.concatenate(parts)

    def _spans(self, n: int) -> Iterator[tuple[int, int, int]]:
        """(first, start, stop) of chunks of one size; the last reaches back before its start."""
        for start in range(0, n, self.chunk):
            stop = min(start + self.chunk, n)
            yield max(0, stop - self.chunk), start, stop
