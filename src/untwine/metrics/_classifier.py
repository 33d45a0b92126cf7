"""What metrics of images share: checks, smaller images, and a classifier of the factors."""

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
from untwine.guards import computing_threads
from untwine.progress import progress
from untwine.vae import evaluation, forked

FEATURES = 64
WIDEST = 128  # channels of the last convolution; each one before has half of the next
EPOCHS = 2, 30  # at least and at most
BATCH = 64
DROPOUT = 0.3
HELD = 5  # one image in so many is held back from training
TOLERANCE = 1e-4  # pixels may leave [0, 1] by this much
CHUNK = 512
KEPT = 2  # results of each kind that stay in memory

Images = NDArray[np.float32]  # (M, C, H, W)
Levels = NDArray[np.int64]  # (M, K)
Kept = TypeVar("Kept")


def check_pair(samples: ArrayLike, images: ArrayLike) -> tuple[Images, Images]:
    """Samples and images (or other data) as float32 arrays of one shape but for their number."""
    made, real = _floats("samples", samples), _floats("images", images)
    if made.shape[1:] != real.shape[1:]:
        raise DataError(
            f"samples and images must have one shape, not {made.shape[1:]} and {real.shape[1:]}"
        )
    return made, real


def check_images(samples: ArrayLike, images: ArrayLike) -> tuple[Images, Images]:
    """Samples and images (M, C, H, W) as float32 in [0, 1]; samples are clipped to it."""
    made, real = check_pair(samples, images)
    if real.ndim != 4:
        raise DataError(f"a network for images needs (M, C, H, W), not {real.shape}")
    if real.min() < -TOLERANCE or real.max() > 1 + TOLERANCE:
        raise DataError("images must lie between 0 and 1; divide bytes by 255")
    return _clipped(made), _clipped(real)


def _floats(what: str, values: ArrayLike) -> Images:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be real numbers, not {array.dtype}")
    if array.ndim < 2 or 0 in array.shape or len(array) < 2:
        raise DataError(f"{what} must be at least 2 images (M, C, H, W), not {array.shape}")
    array = np.asarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise DataError(f"the {what} hold NaN or infinity; find out where they come from first")
    return array


def _clipped(images: Images) -> Images:
    return images if images.min() >= 0 and images.max() <= 1 else images.clip(0, 1)


def check_factors(factors: ArrayLike | None, rows: int) -> Levels:
    """Factors (N, K) as whole numbers, one row for each image and perhaps more."""
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


def held_back(rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows to learn from, and a fifth to test on, chosen by the seed."""
    if rows < 2 * HELD:
        raise DataError(f"{rows} images are too few to hold a fifth back for testing")
    order = np.random.default_rng(seed).permutation(rows)
    return order[rows // HELD :], order[: rows // HELD]


def shrunk(images: Images, side: int) -> Images:
    """Images (M, C, H, W) averaged down to at most `side` pixels a side; other data as it is."""
    if images.ndim != 4 or max(images.shape[2:]) <= side:
        return images
    size = (min(images.shape[2], side), min(images.shape[3], side))
    return in_chunks(images, lambda x: nn.functional.adaptive_avg_pool2d(x, size))


@torch.no_grad()
def in_chunks(inputs: NDArray[np.float32], see: Callable[[Tensor], Tensor]) -> NDArray[Any]:
    """A function of each row, some rows at a time."""
    starts = range(0, len(inputs), CHUNK)
    return np.concatenate([see(torch.tensor(inputs[i : i + CHUNK])).numpy() for i in starts])


def digest(*parts: object) -> str:
    """A name for the content of arrays and what else tells results apart."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).data)
        else:
            total.update(f"{part}\0".encode())
    return total.hexdigest()[:32]


def kept(memory: dict[str, Kept], name: str, make: Callable[[], Kept]) -> Kept:
    """What is remembered under this name, made on first use; the oldest are forgotten."""
    if name not in memory:
        memory[name] = make()
        while len(memory) > KEPT:
            del memory[next(iter(memory))]
    return memory[name]


class Design(NamedTuple):
    """A network that turns images of a shape into features, and how it is trained."""

    name: str
    body: Callable[[tuple[int, ...]], nn.Module]
    features: int
    side: int  # in pixels, at most; larger images are averaged down
    shown: int  # images in all, over as many epochs as that takes
    rate: float


class Classifier(NamedTuple):
    """A body (B, ...) -> (B, F) and one head for each of K factors, all in one layer."""

    body: nn.Module
    heads: nn.Linear
    levels: Tensor  # (K,)
    side: int

    def features(self, images: Images) -> NDArray[np.float32]:
        """(M, F) what the heads see."""
        with evaluation(self.body):
            return in_chunks(shrunk(images, self.side), self.body)

    def predict(self, images: Images) -> Levels:
        """(M, K) the most likely level of each factor."""
        with evaluation(self.body):
            return in_chunks(shrunk(images, self.side), lambda x: self.scores(x).argmax(-1))

    def scores(self, x: Tensor) -> Tensor:
        """(B, ...) to (B, K, L) log-odds; minus infinity for levels that a factor does not have."""
        scores = self.heads(self.body(x)).unflatten(1, (len(self.levels), -1))
        missing = torch.arange(scores.shape[2]) >= self.levels[:, None]  # (K, L)
        return scores.masked_fill(missing, -torch.inf)


def _convolutions(shape: tuple[int, ...]) -> nn.Module:
    """(B, C, H, W) to (B, 64): convolutions that halve down to about 4 pixels, then one layer."""
    channels, *sides = shape
    halvings = max(0, math.ceil(math.log2(min(sides) / 4)))
    widths = [channels, *(WIDEST >> i for i in reversed(range(halvings)))]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        convolution = nn.Conv2d(before, after, 3, 2, 1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
    flat = widths[-1] * math.prod(math.ceil(side / 2**halvings) for side in sides)
    layers += [nn.Flatten(), nn.Dropout(DROPOUT), nn.Linear(flat, FEATURES), nn.ReLU()]
    return nn.Sequential(*layers)


# About a minute at 64 x 64.
SMALL = Design("small", _convolutions, FEATURES, side=64, shown=100_000, rate=3e-3)

_classifiers: dict[str, Classifier] = {}


def learn(images: Images, factors: Levels, seed: int, design: Design = SMALL) -> Classifier:
    """A classifier of images (M, C, H, W) by factors (M, K), levels counted from 0.

    The number of epochs depends on M alone; the seed fixes the weights and the order of images.
    """
    name = digest(images, factors, seed, design.name)
    return kept(_classifiers, name, lambda: _learn(images, factors, seed, design))


def _learn(images: Images, factors: Levels, seed: int, design: Design) -> Classifier:
    images = shrunk(images, design.side)
    levels = torch.tensor(factors.max(0) + 1)
    # With one thread, sums are taken in one order, whatever the machine.
    with forked(seed), computing_threads(1):
        body = design.body(images.shape[1:]).train()
        heads = nn.Linear(design.features, int(len(levels) * levels.max()))
        classifier = Classifier(body, heads, levels, design.side)
        batches = list(_batches(len(images), design.shown))
        _train(classifier, images, factors, batches, design.rate)
    return classifier


def _batches(rows: int, shown: int) -> Iterator[Tensor]:
    """Batches of one size, in a new order every epoch; the odd rows of an epoch are left out."""
    batch = min(BATCH, rows)
    for _ in range(int(np.clip(shown // rows, *EPOCHS))):
        yield from torch.randperm(rows)[: rows - rows % batch].split(batch)


@torch.enable_grad()
def _train(
    classifier: Classifier, images: Images, factors: Levels, batches: list[Tensor], rate: float
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
