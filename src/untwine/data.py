"""Data is arrays: images drawn by index where the model is, factors beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.errors import DataError
from untwine.records import Batch
from untwine.registry import Choice

BERNOULLI = Choice("bernoulli")


class Source(Protocol):
    """Examples that can be drawn by index on the device where they are."""

    @property
    def shape(self) -> torch.Size:
        """Of one example: (C, H, W) for images, (D,) for vectors."""
        ...

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Tensor:
        """(B,) indices to (B, *shape) float32; images in [0, 1].

        What is random in an image, such as noise, comes from torch's own random numbers, whose
        state a run keeps.
        """
        ...

    def to(self, device: torch.device) -> Self: ...


@dataclass(frozen=True)
class Pixels:
    """Images held as bytes."""

    values: Tensor  # (N, H, W, C) uint8

    @property
    def shape(self) -> torch.Size:
        _, height, width, channels = self.values.shape
        return torch.Size((channels, height, width))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Tensor) -> Tensor:
        return self.values[index].permute(0, 3, 1, 2).float().div_(255)

    def to(self, device: torch.device) -> Self:
        return replace(self, values=self.values.to(device))


@dataclass(frozen=True)
class Bits:
    """Black and white images held as bits, eight pixels of a row in a byte."""

    values: Tensor  # (N, H, W // 8) uint8, as from np.packbits along the last axis

    @property
    def shape(self) -> torch.Size:
        _, height, width = self.values.shape
        return torch.Size((1, height, 8 * width))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Tensor) -> Tensor:
        shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=self.values.device)
        bits = (self.values[index][..., None] >> shifts) & 1  # (B, H, W // 8, 8)
        return bits.float().view(len(index), *self.shape)

    def to(self, device: torch.device) -> Self:
        return replace(self, values=self.values.to(device))


@dataclass(frozen=True)
class Vectors:
    """Plain numbers."""

    values: Tensor  # (N, D) float32

    @property
    def shape(self) -> torch.Size:
        return self.values.shape[1:]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Tensor) -> Tensor:
        return self.values[index]

    def to(self, device: torch.device) -> Self:
        return replace(self, values=self.values.to(device))


@dataclass(frozen=True)
class Factors:
    """What varies in the data: names, number of levels, and the levels of every example.

    Without a table the data is the full grid: example i has the digits of i in the mixed radix
    `sizes`, the last factor fastest.

    >>> grid = Factors(("shape", "scale"), (3, 6))
    >>> grid.of(np.array([0, 7])).tolist()
    [[0, 0], [1, 1]]
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    table: NDArray[np.integer] | None = None  # (N, K)

    def of(self, index: NDArray[np.integer]) -> NDArray[np.int64]:
        """(B,) examples to (B, K) levels."""
        if self.table is not None:
            return self.table[index].astype(np.int64)
        return np.stack(np.unravel_index(index, self.sizes), axis=-1).astype(np.int64)

    def draw(
        self, n: int, rng: np.random.Generator, fixed: Mapping[int, int] | None = None
    ) -> NDArray[np.int64]:
        """(n,) random examples, the factors in `fixed` at the given level.

        The others are uniform on a grid, and as frequent as in the data with a table.
        """
        fixed = fixed or {}
        if self.table is None:
            levels = [
                np.full(n, fixed[k]) if k in fixed else rng.integers(size, size=n)
                for k, size in enumerate(self.sizes)
            ]
            return np.ravel_multi_index(levels, self.sizes).astype(np.int64)
        keep = np.ones(len(self.table), dtype=bool)
        for k, level in fixed.items():
            keep &= self.table[:, k] == level
        if not keep.any():
            levels = ", ".join(f"{self.names[k]} = {level}" for k, level in fixed.items())
            raise DataError(f"no example has {levels}")
        return rng.choice(np.flatnonzero(keep), size=n)


class Order(Protocol):
    """Which examples make a batch; a function of the seed and the step alone."""

    def at(self, step: int) -> Tensor:
        """(batch,) positions."""
        ...


Ordering = Callable[[int, int, torch.device], Order]  # of batch size, seed and device


@dataclass(frozen=True)
class Dataset:
    """Examples with what is known about them.

    Made by `untwine.dataset`; for your own arrays see `untwine.from_arrays`.
    """

    source: Source
    factors: Factors | None = None
    likelihood: Choice = BERNOULLI
    bounded: bool = True  # whether all values lie in [0, 1]
    groups: Tensor | None = None  # (N,) the group of each example, for models that share latents
    order: Ordering | None = None  # how batches are drawn; shuffled where it is not said
    digest: str = ""  # of the files behind it, for data that has no version

    @property
    def shape(self) -> torch.Size:
        return self.source.shape

    def __len__(self) -> int:
        return len(self.source)

    def take(self, index: Tensor | NDArray[np.integer] | list[int]) -> Tensor:
        """(B, *shape) the examples at these positions."""
        return self.source.take(torch.as_tensor(index, dtype=torch.long))

    def batch(self, index: Tensor, step: Tensor) -> Batch:
        """The examples at these positions as the training loop wants them."""
        group = None if self.groups is None else self.groups[index]
        return Batch(self.source.take(index), group, step)

    def batches(self, batch: int, seed: int, device: torch.device) -> Order:
        """The order in which batches of this size are drawn."""
        return (self.order or partial(Shuffle, len(self)))(batch, seed, device)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """(n,) positions of random examples, with replacement."""
        if self.factors is None:
            return rng.integers(len(self), size=n)
        return self.factors.draw(n, rng)

    def some(self, seed: int) -> Callable[[int], Tensor]:
        """A function that gives n examples, the same for the same seed."""
        return lambda n: self.take(np.random.default_rng(seed).integers(len(self), size=n))

    def to(self, device: torch.device) -> Dataset:
        groups = None if self.groups is None else self.groups.to(device)
        return replace(self, source=self.source.to(device), groups=groups)


def mix(*numbers: int) -> int:
    """One seed from several numbers; other numbers give an unrelated seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Shuffle:
    """Positions of the examples of every batch: each epoch a permutation, its remainder dropped.

    A batch is a function of (seed, step) alone, so training resumes anywhere.
    """

    def __init__(self, n: int, batch: int, seed: int, device: torch.device) -> None:
        if not 1 <= batch <= n:
            raise DataError(
                f"a batch of {batch} cannot be drawn from {n} examples; choose 1 to {n}"
            )
        self.n, self.batch, self.seed, self.device = n, batch, seed, device
        self._epoch = -1

    def at(self, step: int) -> Tensor:
        """(batch,) positions."""
        epoch, place = divmod(step, self.n // self.batch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(mix(self.seed, epoch))
            self._order = torch.randperm(self.n, generator=generator).to(self.device)
            self._epoch = epoch
        return self._order[place * self.batch : (place + 1) * self.batch]


def from_arrays(
    images: NDArray[Any],
    factors: NDArray[Any] | None = None,
    *,
    names: tuple[str, ...] | None = None,
    groups: NDArray[Any] | None = None,
) -> Dataset:
    """A dataset from arrays in memory.

    Args:
        images: (N, H, W) or (N, H, W, C) bytes, booleans or floats in [0, 1], which are kept as
            bytes; or (N, D) numbers.
        factors: (N, K) integers from 0, what varies in each example.
        names: of the K factors.
        groups: (N,) integers, the group of each example, for models whose groups share latents.

    >>> data = from_arrays(np.zeros((100, 32, 32), np.uint8), np.zeros((100, 1), int))
    >>> len(data), tuple(data.shape), data.factors.names
    (100, (1, 32, 32), ('factor 1',))
    """
    images = np.asarray(images)
    known = None if factors is None else factor_table(np.asarray(factors), len(images), names)
    ids = None if groups is None else group_ids(np.asarray(groups), len(images))
    if images.ndim == 2:
        real = Choice("gaussian", {"squash": False})
        return Dataset(Vectors(as_vectors(images)), known, real, bounded=False, groups=ids)
    return Dataset(Pixels(torch.from_numpy(as_bytes(images))), known, groups=ids)


def group_ids(groups: NDArray[Any], n: int) -> Tensor:
    """Checked groups of n examples."""
    if groups.shape != (n,) or groups.dtype.kind not in "iu":
        raise DataError(f"groups must be {n} integers, not {groups.dtype} {groups.shape}")
    return torch.from_numpy(groups.astype(np.int64))


def as_vectors(values: NDArray[Any]) -> Tensor:
    """(N, D) numbers as float32."""
    if 0 in values.shape or values.dtype.kind not in "biuf":
        raise DataError(
            f"vectors must be numbers of shape (N, D), not {values.dtype} {values.shape}"
        )
    with np.errstate(over="ignore"):
        vectors = values.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise DataError("vectors must be finite numbers in single precision; mend or rescale them")
    return torch.from_numpy(vectors)


def as_bytes(images: NDArray[Any]) -> NDArray[np.uint8]:
    """(N, H, W) or (N, H, W, C) images of any usual type as (N, H, W, C) bytes."""
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or not 1 <= images.shape[-1] <= 4 or 0 in images.shape:
        hint = ""
        if images.ndim == 4 and 1 <= images.shape[1] <= 4:
            hint = "; np.moveaxis(images, 1, -1) puts the channels last"
        raise DataError(
            "images must have shape (N, H, W) or (N, H, W, C) with 1 to 4 channels, "
            f"not {images.shape}{hint}"
        )
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images)
    if images.dtype == bool:
        return np.ascontiguousarray(images.astype(np.uint8) * 255)
    if np.issubdtype(images.dtype, np.floating):
        low, high = float(images.min()), float(images.max())
        if 0 <= low and high <= 1:
            return np.round(images * 255).astype(np.uint8)
        raise DataError(f"float images must lie in [0, 1], not [{low:.3g}, {high:.3g}]")
    raise DataError(f"images must be bytes, booleans or floats, not {images.dtype}")


def factor_table(table: NDArray[Any], n: int, names: tuple[str, ...] | None = None) -> Factors:
    """Checked factors of n examples from a table (N, K) or (N,)."""
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n or not table.shape[1]:
        raise DataError(f"factors must have shape ({n}, K), not {table.shape}")
    if not np.issubdtype(table.dtype, np.integer) or table.min() < 0:
        raise DataError("factors must be integers from 0, one level per number")
    names = names or tuple(f"factor {k + 1}" for k in range(table.shape[1]))
    if len(names) != table.shape[1]:
        raise DataError(f"there are {table.shape[1]} factors but {len(names)} names")
    return Factors(names, tuple(int(top) + 1 for top in table.max(0)), table)
