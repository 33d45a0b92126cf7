"""Kinds of batches: how they are drawn, their shared codes, and telling them apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.data.derived import column, labels, levels
from untwine.datasets.digit_series import digit_stream, window
from untwine.datasets.mixed import MixedOrdering
from untwine.errors import DataError, IncompatibleError, ParameterError, UnknownNameError
from untwine.records import Batch
from untwine.reproduce.registry import measure
from untwine.runs.directory import TrainedRun
from untwine.tools.compute import derive_seed, eval_mode, frozen_statistics, seeded
from untwine.vae import VAE

RANDOM = "random"
SERIES_PREFIX = "series "
TEST_SHARE = 0.2  # share of the images that test batches are drawn from
KERNELS = ("linear", "rbf")
ENCODE_CHUNK = 256  # images per batch
Positions = NDArray[np.int64]
GroupCodes = NDArray[np.float64]
BatchKind = str | Sequence[str]
Statistics = Literal["running", "batch"]


class BatchSource(NamedTuple):
    """The source of a batch: pools of images, and the ring in which a batch visits them.

    With a mixture, a batch has as many images of each of two pools as a batch of training.
    """

    pools: list[Positions]
    ring: Positions
    mixture: MixedOrdering | None = None

    def batch(self, size: int, rng: np.random.Generator) -> Positions:
        """Draw (size,) indices; from a pool without repeats, if it is large enough."""
        if self.mixture or len(self.pools) == 1:
            counts = self.mixture.counts(size, rng) if self.mixture else (size,)
            return np.concatenate(
                [
                    rng.choice(pool, n, replace=len(pool) < n)
                    for pool, n in zip(self.pools, counts, strict=True)
                ]
            )
        visited = window(self.ring, int(rng.integers(len(self.ring))), size)
        return np.array([rng.choice(self.pools[pool]) for pool in visited])

    def batches(self, count: int, size: int, rng: np.random.Generator) -> list[Positions]:
        """Draw several batches."""
        return [self.batch(size, rng) for _ in range(count)]


def batch_source(data: Dataset, kind: BatchKind, among: Positions | None = None) -> BatchSource:
    """Return the source of a kind of batch, from some of the images or all.

    Args:
        data: the images.
        kind: `random`, as batches are drawn in training, each dataset of a mixture with its share;
            `FACTOR=LEVEL`, images that share a level; or `series NAME`, a stretch of
            the digits of even or odd numbers, primes or Fibonacci numbers. Of several, the first
            whose factor the data has.
        among: indices that may be drawn.
    """
    among = np.arange(len(data)) if among is None else among
    if kind == RANDOM:
        mixture = data.batch_order if isinstance(data.batch_order, MixedOrdering) else None
        late = among >= len(mixture.first) if mixture else np.zeros(len(among), bool)
        pools = [among[~late], among[late]] if mixture else [among]
        return BatchSource(pools, np.zeros(1, np.int64), mixture)
    if isinstance(kind, str) and kind.startswith(SERIES_PREFIX):
        return _series_source(data, kind.removeprefix(SERIES_PREFIX), among)
    has_level = _has_level(data, [kind] if isinstance(kind, str) else kind)
    pool = among[has_level[among]]
    if not len(pool):
        raise DataError(f"no images for batches of {kind}; choose another level or more data")
    return BatchSource([pool], np.zeros(1, np.int64))


def _series_source(data: Dataset, name: str, among: Positions) -> BatchSource:
    digit = labels(data, "this data")[2][among]
    pools = [among[digit == d] for d in range(10)]
    stream = digit_stream(name)
    missing = [d for d in np.unique(stream) if not len(pools[d])]
    if missing:
        raise DataError(
            f"no images of the digit {missing[0]}, which the series needs; use more data"
        )
    return BatchSource(pools, stream)


def _has_level(data: Dataset, kinds: Sequence[str]) -> NDArray[np.bool_]:
    """Return (N,) whether images have the level; of several kinds, the first the data has."""
    if data.factors is None:
        raise DataError("kinds of batches need data with factors, which this has not")
    unknown: UnknownNameError | None = None
    for text in kinds:
        name, equals, level = text.partition("=")
        if not equals or not level.strip().isdigit():
            raise ParameterError(
                f"a kind of batch is `random`, `FACTOR=LEVEL` or `series NAME`, not {text!r}"
            )
        try:
            return levels(data, data.factors)[:, column(data.factors, name)] == int(level)
        except UnknownNameError as error:
            unknown = error
    raise unknown or ParameterError("a kind of batch is missing; write one, such as `random`")


@measure
def batch_kinds(
    run: TrainedRun,
    *,
    kinds: Mapping[str, BatchKind],
    learn: int = 80,
    test: int = 20,
    times: int = 0,
    untrained: bool = False,
    sampled: bool = False,
    statistics: Statistics = "running",
    splits: int = 1,
    seed: int = 0,
) -> dict[str, float]:
    """Accuracy of support vector machines that classify batches by their shared code.

    As in the code of Peis et al., 2020: posterior means, standardised, a linear and a Gaussian
    kernel of width 1 / D, four fifths of the batches for training. Unlike there, no image is in
    both a training and a test batch, and batches have the size of the run's. The paper says samples
    of the posterior: `sampled`. Its code takes means and normalises each batch by its own
    statistics: `statistics: batch`.

    Args:
        run: the trained run.
        kinds: kinds of batches by name, see `batch_source`.
        learn: training batches of each kind.
        test: test batches of each kind.
        times: random batches as a further kind, this many times as many; 0 for none.
        untrained: use the model before its first step, to see the effect of training.
        sampled: take one sample of the shared code of each batch instead of its mean.
        statistics: what batch norms use: the running statistics, or those of the batch itself.
        splits: divide the images into training and test images this many times, and average.
        seed: of the batches and samples, together with the run's own.

    Returns:
        `linear` and `rbf`, `linear_train` and `rbf_train`, and `base_rate`, the accuracy of the
        majority kind; the same with `_with_random` if random batches are a kind.
    """
    model = fresh_model(run) if untrained else run.model
    data, size = run.data, run.spec.batch
    cut = round((1 - TEST_SHARE) * len(data))
    counts = [(kinds[name], 1) for name in kinds] + [(RANDOM, times)] * (times > 0)
    drawn: list[list[Positions]] = []  # by split and kind, for training and for test
    for split in range(splits):
        rng = np.random.default_rng((seed, run.spec.seed, split))
        order = rng.permutation(len(data))
        drawn += [
            batch_source(data, kind, part).batches(n * count, size, rng)
            for kind, n in counts
            for part, count in zip((order[:cut], order[cut:]), (learn, test), strict=True)
        ]
    codes = group_codes(
        model,
        data,
        [batch for batches in drawn for batch in batches],
        sampled=sampled,
        statistics=statistics,
        seed=derive_seed(seed, run.spec.seed),
    )
    blocks = iter(np.split(codes, np.cumsum([len(batches) for batches in drawn])[:-1]))
    each: list[dict[str, float]] = []
    for _ in range(splits):
        parts = [[next(blocks), next(blocks)] for _ in counts]
        scores = svm_accuracies(parts[: len(kinds)])
        if times:
            scores |= {f"{key}_with_random": value for key, value in svm_accuracies(parts).items()}
        each.append(scores)
    return {key: float(np.mean([scores[key] for scores in each])) for key in each[0]}


@measure
def random_between(
    run: TrainedRun,
    *,
    kinds: Mapping[str, BatchKind],
    batches: int = 60,
    seed: int = 0,
) -> dict[str, float]:
    """Where random batches lie on the line between two kinds of batches, in the shared space.

    Posterior means are standardised, and the line goes through the means of both kinds.

    Args:
        run: the trained run.
        kinds: two kinds of batches, see `batch_source`.
        batches: number of batches of each kind.
        seed: of the batches, together with the run's own.

    Returns:
        `position`, the mean of random batches, 0 at the first kind and 1 at the second.
    """
    data, size = run.data, run.spec.batch
    rng = np.random.default_rng((seed, run.spec.seed))
    first, second, between = (
        group_codes(run.model, data, batch_source(data, kind).batches(batches, size, rng))
        for kind in (*kinds.values(), RANDOM)
    )
    spread = np.concatenate([first, second, between]).std(0)
    start, end = first.mean(0), second.mean(0)
    direction = (end - start) / np.where(spread > 0, spread, np.inf) ** 2
    return {"position": float((between.mean(0) - start) @ direction / ((end - start) @ direction))}


def fresh_model(run: TrainedRun) -> VAE:
    """Build the model of a run as it was before its first step."""
    from untwine.spec import build_model

    spec = run.spec
    return build_model(spec, run.data, latent=spec.latent, seed=spec.seed, batch=spec.batch)


@torch.no_grad()
def group_codes(
    model: VAE,
    data: Dataset,
    batches: Sequence[Positions],
    *,
    sampled: bool = False,
    statistics: Statistics = "running",
    seed: int = 0,
) -> GroupCodes:
    """Return (M, D) the shared codes of batches: posterior means, as `encode_group`, or samples.

    With running statistics each image is encoded once, even if it is in several batches.
    """
    with eval_mode(model), seeded(seed):
        features = _features_of_batches(model, data, batches, statistics)
        codes = [_shared_code(model, h, sampled) for h in features]
    return torch.stack(codes).double().numpy()


def _features_of_batches(
    model: VAE, data: Dataset, batches: Sequence[Positions], statistics: Statistics
) -> Iterator[Tensor]:
    """Yield (B, F) the encoder's features of each batch."""
    if statistics == "batch":
        for batch in batches:
            with frozen_statistics(model), training_mode(model):
                h = model.features(data.take(batch))
            yield h
        return
    index, inverse = np.unique(np.concatenate(batches), return_inverse=True)
    rows = np.split(inverse.reshape(-1), np.cumsum([len(batch) for batch in batches])[:-1])
    parts = torch.from_numpy(index).split(ENCODE_CHUNK)
    h = torch.cat([model.features(data.take(part)) for part in parts])
    for row in rows:
        yield h[torch.from_numpy(row)]


@contextmanager
def training_mode(model: VAE) -> Iterator[None]:
    """Put a model into training mode inside a `with` block."""
    before = model.training
    model.train()
    try:
        yield
    finally:
        model.train(before)


def _shared_code(model: VAE, h: Tensor, sampled: bool) -> Tensor:
    """Return (D,) the shared code of one group of examples with these features."""
    together = Batch(h, torch.zeros(len(h), dtype=torch.long))
    latents = model.infer(together, mean=not sampled, features=h).latents.values()
    shared = [latent.draw for latent in latents if latent.rows is not None]
    if not shared:
        raise IncompatibleError("this model has no latent that a group shares")
    return torch.cat([draw.z[0] if sampled else draw.mean[0] for draw in shared])


def svm_accuracies(parts: Sequence[Sequence[GroupCodes]]) -> dict[str, float]:
    """Return the accuracy of classifiers of kinds, from training and test codes of each.

    >>> one, other = np.zeros((4, 2)), np.ones((4, 2))
    >>> scores = svm_accuracies([[one, one], [other, other[:2]]])
    >>> scores["linear"], scores["rbf_train"], round(scores["base_rate"], 3)
    (1.0, 1.0, 0.667)
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    codes = [np.concatenate([kind[part] for kind in parts]) for part in (0, 1)]
    labels = [
        np.repeat(np.arange(len(parts)), [len(kind[part]) for kind in parts]) for part in (0, 1)
    ]
    scores: dict[str, float] = {}
    for kernel in KERNELS:
        machine = make_pipeline(StandardScaler(), SVC(kernel=kernel, gamma="auto"))
        machine.fit(codes[0], labels[0])
        scores[f"{kernel}_train"], scores[kernel] = (
            float(machine.score(z, y)) for z, y in zip(codes, labels, strict=True)
        )
    return {**scores, "base_rate": float(np.bincount(labels[1]).max() / len(labels[1]))}
