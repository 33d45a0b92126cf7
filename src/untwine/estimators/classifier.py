"""Metrics of images: checks, smaller images, and a classifier of the factors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from untwine.errors import DataError
from untwine.tools.compute import eval_mode, limit_threads, seeded
from untwine.tools.progress import progress

SMALL_FEATURES = 64
MAX_CHANNELS = 128  # channels of the last convolution; each one before has half of the next
EPOCH_RANGE = 2, 30  # at least and at most
BATCH_SIZE = 64
DROPOUT = 0.3
VALIDATION_SHARE = 5  # one image in this many is held out
RANGE_TOLERANCE = 1e-4  # by which pixels may lie outside [0, 1]
PREDICT_CHUNK = 512
MAX_CLASSIFIERS = 2  # results of each kind that stay in memory
ImageArray = NDArray[np.float32]  # (M, C, H, W)
LevelArray = NDArray[np.int64]  # (M, K)
Remembered = TypeVar("Remembered")


def check_pair(samples: ArrayLike, images: ArrayLike) -> tuple[ImageArray, ImageArray]:
    """Return samples and images (or other data) as float32 arrays; shapes agree but for M."""
    made, real = _check_floats("samples", samples), _check_floats("images", images)
    if made.shape[1:] != real.shape[1:]:
        raise DataError(
            f"samples and images must have one shape, not {made.shape[1:]} and {real.shape[1:]}"
        )
    return made, real


def check_images(samples: ArrayLike, images: ArrayLike) -> tuple[ImageArray, ImageArray]:
    """Return samples and images (M, C, H, W) as float32 in [0, 1]; samples are clipped to it."""
    made, real = check_pair(samples, images)
    if real.ndim != 4:
        raise DataError(f"a network for images needs (M, C, H, W), not {real.shape}")
    if real.min() < -RANGE_TOLERANCE or real.max() > 1 + RANGE_TOLERANCE:
        raise DataError("images must lie between 0 and 1; divide bytes by 255")
    return _clip(made), _clip(real)


def stretch_images(samples: ArrayLike, images: ArrayLike) -> ImageArray:
    """Bring each sample to full contrast: its least value to 0, its largest to 1.

    A sample of one value becomes black. Nothing is clipped before, as decoders without a sigmoid
    leave [0, 1].

    >>> stretch_images([[[[0.2, 0.4]]], [[[0.7, 0.7]]]], np.zeros((2, 1, 1, 2))).tolist()
    [[[[0.0, 1.0]]], [[[0.0, 0.0]]]]
    """
    made, _ = check_pair(samples, images)
    axes = tuple(range(1, made.ndim))
    low, high = made.min(axes, keepdims=True), made.max(axes, keepdims=True)
    return (made - low) / np.where(high > low, high - low, 1)


def _check_floats(what: str, values: ArrayLike) -> ImageArray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be real numbers, not {array.dtype}")
    if array.ndim < 2 or 0 in array.shape or len(array) < 2:
        raise DataError(f"{what} must be at least 2 images (M, C, H, W), not {array.shape}")
    array = np.asarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise DataError(f"the {what} hold NaN or infinity; find out where they come from first")
    return array


def _clip(images: ImageArray) -> ImageArray:
    return images if images.min() >= 0 and images.max() <= 1 else images.clip(0, 1)


def check_factors(factors: ArrayLike | None, rows: int) -> LevelArray:
    """Return factors (N, K) as integers; at least one row for each image."""
    f = np.asarray(factors)
    f = f[:, None] if f.ndim == 1 else f
    if f.ndim != 2 or 0 in f.shape or len(f) < rows:
        raise DataError(
            f"factors must have shape (N, K) with N of at least {rows}, the number of images, "
            f"not {f.shape}"
        )
    if f.dtype.kind not in "biuf" or not (np.isfinite(f).all() and (f == np.round(f)).all()):
        raise DataError("factors must be whole numbers, one per level")
    return f.astype(np.int64)


def split_validation(rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return indices of training rows, and of a fifth to test on, chosen by the seed."""
    if rows < 2 * VALIDATION_SHARE:
        raise DataError(f"{rows} images are too few to hold a fifth back for testing")
    order = np.random.default_rng(seed).permutation(rows)
    return order[rows // VALIDATION_SHARE :], order[: rows // VALIDATION_SHARE]


def shrink_images(images: ImageArray, side: int) -> ImageArray:
    """Average images (M, C, H, W) down to at most `side` pixels a side; return other data as is."""
    if images.ndim != 4 or max(images.shape[2:]) <= side:
        return images
    size = (min(images.shape[2], side), min(images.shape[3], side))
    return map_chunks(images, lambda x: nn.functional.adaptive_avg_pool2d(x, size))


@torch.no_grad()
def map_chunks(inputs: NDArray[np.float32], function: Callable[[Tensor], Tensor]) -> NDArray[Any]:
    """Apply a function to all rows, `PREDICT_CHUNK` at a time."""
    starts = range(0, len(inputs), PREDICT_CHUNK)
    return np.concatenate(
        [function(torch.tensor(inputs[i : i + PREDICT_CHUNK])).numpy() for i in starts]
    )


def array_digest(*parts: object) -> str:
    """Return a digest of arrays and other values that determine a result."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).data)
        else:
            total.update(f"{part}\0".encode())
    return total.hexdigest()[:32]


def remember(
    memory: dict[str, Remembered], name: str, make: Callable[[], Remembered]
) -> Remembered:
    """Return the result stored under this name, made on first use; the oldest are dropped."""
    if name not in memory:
        memory[name] = make()
        while len(memory) > MAX_CLASSIFIERS:
            del memory[next(iter(memory))]
    return memory[name]


class ClassifierSpec(NamedTuple):
    """A network from images of a shape to features, and how it is trained."""

    name: str
    body: Callable[[tuple[int, ...]], nn.Module]
    features: int
    side: int  # in pixels, at most; larger images are averaged down
    images_seen: int  # in all epochs together
    rate: float


class Classifier(NamedTuple):
    """A body (B, ...) -> (B, F) and one head for each of K factors, all in one layer."""

    body: nn.Module
    heads: nn.Linear
    levels: Tensor  # (K,)
    side: int

    def features(self, images: ImageArray) -> NDArray[np.float32]:
        """(M, F) inputs of the heads."""
        with eval_mode(self.body):
            return map_chunks(shrink_images(images, self.side), self.body)

    def predict(self, images: ImageArray) -> LevelArray:
        """(M, K) most likely level of each factor."""
        with eval_mode(self.body):
            return map_chunks(shrink_images(images, self.side), lambda x: self.scores(x).argmax(-1))

    def probabilities(self, images: ImageArray) -> NDArray[np.float32]:
        """(M, K, L) probability of each level of each factor; 0 for levels it does not have."""
        with eval_mode(self.body):
            return map_chunks(
                shrink_images(images, self.side), lambda x: self.scores(x).softmax(-1)
            )

    def scores(self, x: Tensor) -> Tensor:
        """(B, ...) to (B, K, L) log-odds; minus infinity for levels that a factor does not have."""
        scores = self.heads(self.body(x)).unflatten(1, (len(self.levels), -1))
        missing = torch.arange(scores.shape[2]) >= self.levels[:, None]  # (K, L)
        return scores.masked_fill(missing, -torch.inf)


def _convolutions(shape: tuple[int, ...]) -> nn.Module:
    """(B, C, H, W) to (B, 64): convolutions that halve down to about 4 pixels, then one layer."""
    channels, *sides = shape
    halvings = max(0, math.ceil(math.log2(min(sides) / 4)))
    widths = [channels, *(MAX_CHANNELS >> i for i in reversed(range(halvings)))]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        convolution = nn.Conv2d(before, after, 3, 2, 1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
    flat = widths[-1] * math.prod(math.ceil(side / 2**halvings) for side in sides)
    layers += [nn.Flatten(), nn.Dropout(DROPOUT), nn.Linear(flat, SMALL_FEATURES), nn.ReLU()]
    return nn.Sequential(*layers)


# Trains in about a minute at 64 x 64.
SMALL_CLASSIFIER = ClassifierSpec(
    "small", _convolutions, SMALL_FEATURES, side=64, images_seen=100_000, rate=3e-3
)
_classifiers: dict[str, Classifier] = {}


def train_classifier(
    images: ImageArray, factors: LevelArray, seed: int, spec: ClassifierSpec = SMALL_CLASSIFIER
) -> Classifier:
    """Train a classifier of factors (M, K), levels counted from 0, on images (M, C, H, W).

    The number of epochs depends on M alone; the seed fixes the weights and the order of images.
    The last results are remembered.
    """
    name = array_digest(images, factors, seed, spec.name)
    return remember(_classifiers, name, lambda: _train_classifier(images, factors, seed, spec))


def _train_classifier(
    images: ImageArray, factors: LevelArray, seed: int, spec: ClassifierSpec
) -> Classifier:
    images = shrink_images(images, spec.side)
    levels = torch.tensor(factors.max(0) + 1)
    # With one thread, the order of summation does not depend on the machine.
    with seeded(seed), limit_threads(1):
        body = spec.body(images.shape[1:]).train()
        heads = nn.Linear(spec.features, int(len(levels) * levels.max()))
        classifier = Classifier(body, heads, levels, spec.side)
        batches = list(_batches(len(images), spec.images_seen))
        _train(classifier, images, factors, batches, spec.rate)
    return classifier


def _batches(rows: int, images_seen: int) -> Iterator[Tensor]:
    """Batches of one size, in a new order every epoch; the remainder of an epoch is left out."""
    batch = min(BATCH_SIZE, rows)
    for _ in range(int(np.clip(images_seen // rows, *EPOCH_RANGE))):
        yield from torch.randperm(rows)[: rows - rows % batch].split(batch)


@torch.enable_grad()
def _train(
    classifier: Classifier,
    images: ImageArray,
    factors: LevelArray,
    batches: list[Tensor],
    rate: float,
) -> None:
    parameters = [*classifier.body.parameters(), *classifier.heads.parameters()]
    optimiser = torch.optim.Adam(parameters)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=len(batches))
    with progress(len(batches), "classifier") as show:
        for step, batch in enumerate(batches, 1):
            x, y = torch.tensor(images[batch]), torch.tensor(factors[batch])
            loss = nn.functional.cross_entropy(classifier.scores(x).mT, y, reduction="sum")
            optimiser.zero_grad()
            (loss / len(batch)).backward()
            optimiser.step()
            schedule.step()
            show(step, "")
