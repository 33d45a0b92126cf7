"""Datasets: examples drawn by index, with factors, groups and a likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.errors import DataError
from untwine.records import Batch, Columns, columns_of
from untwine.registry import Choice
from untwine.schema import unknown_name
from untwine.tools.compute import derive_seed, seeded
from untwine.tools.images import data_url, encode_png, image_grid
from untwine.tools.notebook import card_html

BERNOULLI = Choice("bernoulli")
PREVIEW, PREVIEW_SIDE = 8, 64  # examples shown in notebooks, and their largest side in pixels
PRESENCE = ("absent", "present")  # levels of an attribute


class Source(Protocol):
    """Examples that can be drawn by index on the device where they are."""

    @property
    def shape(self) -> torch.Size:
        """Of one example: (C, H, W) for images, (D,) for vectors."""
        ...

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Tensor:
        """(B,) indices to (B, *shape) float32; images in [0, 1].

        Randomness in an image, such as noise, comes from torch's global generator, whose state is
        part of a checkpoint.
        """
        ...

    def to(self, device: torch.device) -> Self: ...


@dataclass(frozen=True)
class Pixels:
    """Images stored as bytes."""

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
    """Black and white images stored as bits, eight pixels of a row in a byte."""

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
    """Vectors of numbers."""

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
    """The factors of variation: their names, sizes, and the levels of every example.

    Without a table the data is the full grid: example i has the digits of i in the mixed radix
    `sizes`, the last factor fastest.

    >>> grid = Factors(("shape", "scale"), (3, 6))
    >>> grid.levels_at(np.array([0, 7])).tolist()
    [[0, 0], [1, 1]]
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    table: NDArray[np.integer] | None = None  # (N, K)
    unordered: tuple[str, ...] = ()  # names of factors whose levels have no order, such as shapes
    level_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __post_init__(self) -> None:
        for name in (*self.unordered, *self.level_names):
            if name not in self.names:
                raise DataError(unknown_name("factor", name, self.names))
        for name, levels in self.level_names.items():
            size = self.sizes[self.names.index(name)]
            if len(levels) != size:
                raise DataError(f"{name} has {size} levels but {len(levels)} names of levels")

    @property
    def unordered_columns(self) -> tuple[int, ...]:
        """The positions of the factors whose levels have no order."""
        return tuple(k for k, name in enumerate(self.names) if name in self.unordered)

    def level_name(self, k: int, level: int) -> str:
        """What a level of the k-th factor is called; its number, if it has no name.

        >>> shapes = {"shape": ("square", "ellipse", "heart")}
        >>> grid = Factors(("shape", "scale"), (3, 6), level_names=shapes)
        >>> grid.level_name(0, 2), grid.level_name(1, 5)
        ('heart', '5')
        """
        levels = self.level_names.get(self.names[k])
        return levels[level] if levels else str(level)

    def levels_at(self, index: NDArray[np.integer]) -> NDArray[np.int64]:
        """(B,) examples to (B, K) levels."""
        if self.table is not None:
            return self.table[index].astype(np.int64)
        return np.stack(np.unravel_index(index, self.sizes), axis=-1).astype(np.int64)

    def sample_indices(
        self, n: int, rng: np.random.Generator, fixed: Mapping[int, int] | None = None
    ) -> NDArray[np.int64]:
        """(n,) positions of random examples, with the factors in `fixed` at these levels.

        The other factors are uniform on a grid; with a table, they follow the data.
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


@runtime_checkable
class DivisibleOrdering(Protocol):
    """An order of batches that a part of the examples can keep."""

    def restricted(self, index: NDArray[np.integer]) -> BatchOrdering:
        """The order of batches of the examples at these positions."""
        ...


class BatchOrder(Protocol):
    """The examples of every batch; a function of the seed and the step alone."""

    def at(self, step: int) -> Tensor:
        """(batch,) positions."""
        ...


BatchOrdering = Callable[[int, int, torch.device], BatchOrder]  # of batch size, seed and device


@dataclass(frozen=True)
class Dataset:
    """Examples, with their factors, groups and likelihood.

    Made by `untwine.dataset`; for your own arrays see `untwine.from_arrays`.
    """

    source: Source
    factors: Factors | None = None
    likelihood: Choice = BERNOULLI
    in_unit_interval: bool = True  # whether all values lie in [0, 1]
    groups: Tensor | None = None  # (N,) the group of each example, for models that share latents
    labels: Tensor | None = None  # (N, F) for a conditional model, which sets them in training
    batch_order: BatchOrdering | None = None  # how batches are drawn; shuffled if None
    evaluation: Dataset | None = None  # what models are scored on, where it is not this itself
    example_names: Sequence[str] = ()  # of all examples, such as their files, where they have names
    digest: str = ""  # of the files behind it, for data without a version
    former_digest: str = ""  # that version 0.1 recorded, where it was another
    name: str = ""  # as a person writes it, where it was opened by name
    preparation: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How examples are made from the user's files (size, resize filter, scaling): a saved model
    keeps it, so that new files can be prepared alike. Values for JSON."""

    @property
    def shape(self) -> torch.Size:
        return self.source.shape

    def __repr__(self) -> str:
        factors = f", factors: {text}" if (text := self._factor_text()) else ""
        return f"<{self.name or 'Dataset'}: {self._extent()}{factors}>"

    def _extent(self) -> str:
        """What there is: `178 vectors of 13`."""
        kind = "images" if len(self.shape) == 3 else "vectors"
        return f"{len(self):,} {kind} of {'x'.join(map(str, self.shape))}"

    def _factor_text(self) -> str:
        """The factors with their numbers of levels: `shape (3), scale (6)`."""
        factors = zip(self.factors.names, self.factors.sizes, strict=True) if self.factors else ()
        return ", ".join(f"{name} ({size})" for name, size in factors)

    def _repr_html_(self) -> str:
        """The data as a card for notebooks, with eight examples if they are images."""
        rows = {
            "examples": self._extent(),
            "factors": self._factor_text(),
            "columns": ", ".join(self.columns.names) if self.columns else "",
            "likelihood": str(self.likelihood),
        }
        picture = data_url(self._preview()) if len(self.shape) == 3 and len(self) else ""
        shown = [row for row in rows.items() if row[1]]
        return card_html(self.name or "Dataset", shown, picture=picture)

    def _preview(self) -> bytes:
        """A PNG of eight examples, each about 64 pixels wide."""
        index = np.linspace(0, len(self) - 1, min(PREVIEW, len(self))).astype(np.int64)
        images = self.take_repeatably(index)
        step = -(-max(images.shape[2:]) // PREVIEW_SIDE)
        times = max(1, PREVIEW_SIDE // max(images.shape[2:]))
        small = images[None, :, :, ::step, ::step].numpy()
        return encode_png(image_grid(small.repeat(times, 3).repeat(times, 4)))

    def __len__(self) -> int:
        return len(self.source)

    @property
    def columns(self) -> Columns | None:
        """The columns of a table; None for other data."""
        return columns_of(self.preparation)

    def example_name(self, position: int) -> str:
        """What an example is called: its file or name, or else its position."""
        return self.example_names[position] if self.example_names else str(position)

    def take(self, index: Tensor | NDArray[np.integer] | list[int]) -> Tensor:
        """(B, *shape) examples at these positions."""
        return self.source.take(torch.as_tensor(index, dtype=torch.long))

    def take_repeatably(self, index: Sequence[int] | NDArray[np.integer]) -> Tensor:
        """(B, *shape) examples whose randomness, if any, depends on their position alone."""
        index = np.asarray(index, np.int64)
        with seeded(0):
            before = torch.get_rng_state()
            examples = self.take(index)
            if torch.equal(before, torch.get_rng_state()):
                return examples
            return torch.cat([self._take_one(int(position)) for position in index])

    def _take_one(self, position: int) -> Tensor:
        torch.default_generator.manual_seed(derive_seed(position))
        return self.take([position])

    def batch(self, index: Tensor, step: Tensor) -> Batch:
        """The examples at these positions as a training batch."""
        group = None if self.groups is None else self.groups[index]
        labels = None if self.labels is None else self.labels[index]
        return Batch(self.source.take(index), group, step, labels)

    def batches(self, batch: int, seed: int, device: torch.device) -> BatchOrder:
        """The order in which batches of this size are drawn."""
        return (self.batch_order or partial(Shuffle, len(self)))(batch, seed, device)

    def sample_indices(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """(n,) positions of random examples, with replacement."""
        if self.factors is None:
            return rng.integers(len(self), size=n)
        return self.factors.sample_indices(n, rng)

    def example_drawer(self, seed: int) -> Callable[[int], Tensor]:
        """Return a function that draws n examples, deterministic in the seed."""
        return lambda n: self.take(np.random.default_rng(seed).integers(len(self), size=n))

    def to(self, device: torch.device) -> Dataset:
        groups = None if self.groups is None else self.groups.to(device)
        labels = None if self.labels is None else self.labels.to(device)
        return replace(self, source=self.source.to(device), groups=groups, labels=labels)


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
        epoch, number = divmod(step, self.n // self.batch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
            self._order = torch.randperm(self.n, generator=generator).to(self.device)
            self._epoch = epoch
        return self._order[number * self.batch : (number + 1) * self.batch]
