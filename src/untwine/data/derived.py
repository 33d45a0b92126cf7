"""Datasets made from other datasets: subsets, unions, selections by factor."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine import schema
from untwine.data.cache import check_digest, matching_digest
from untwine.data.dataset import Dataset, DivisibleOrdering, Factors, Source
from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.tools.compute import derive_seed

Levels = NDArray[np.integer[Any]]
LABEL_FACTORS = ("digit", "class")  # names of the factor that holds the class


@dataclass(frozen=True)
class Subset:
    """Some examples of a source, by position; the examples are not copied."""

    source: Source
    index: Tensor  # (N,) int32

    @property
    def shape(self) -> torch.Size:
        return self.source.shape

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Tensor) -> Tensor:
        return self.source.take(self.index[index].long())

    def to(self, device: torch.device) -> Self:
        return replace(self, source=self.source.to(device), index=self.index.to(device))


@dataclass(frozen=True)
class Joined:
    """The examples of one source followed by those of another."""

    first: Source
    second: Source

    @property
    def shape(self) -> torch.Size:
        return self.first.shape

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def take(self, index: Tensor) -> Tensor:
        late = index >= len(self.first)
        parts = self.first.take(index[~late]), self.second.take(index[late] - len(self.first))
        both = torch.cat(parts)
        order = late.to(both.device).argsort(stable=True)
        return torch.empty_like(both).index_copy_(0, order, both)

    def to(self, device: torch.device) -> Self:
        return replace(self, first=self.first.to(device), second=self.second.to(device))


def open_dataset(text: str, digest: str = "") -> Dataset:
    """The dataset that an expression such as `sprites(size=32)` names, or a folder or file.

    Refuse data whose digest differs from that of an earlier run.
    """
    from untwine.data.opening import dataset  # which imports the registry that lists this file

    data = dataset(text)
    if data.evaluation is not None:
        raise DataError(
            f"{text} has examples of its own to be scored on, so no other dataset can be made of "
            "it; write held-out around the others"
        )
    expected = matching_digest(digest, data.digest, data.former_digest)
    return replace(data, digest=check_digest(text, digest, expected))


def open_with_factors(text: str, digest: str) -> tuple[Dataset, Factors]:
    """A dataset with factors, checked against the digest of an earlier run."""
    data = open_dataset(text, digest)
    if data.factors is None:
        raise DataError(f"{text} has no factors; choose data that has, such as sprites")
    return data, data.factors


def column(factors: Factors, name: str) -> int:
    """The index of the factor of this name; a hyphen may stand for a space.

    >>> column(Factors(("shape", "position x"), (3, 32)), "position-x")
    1
    """
    names = [normalise_name(each) for each in factors.names]
    if normalise_name(name) not in names:
        raise UnknownNameError(schema.unknown_name("factor", name.strip(), factors.names))
    return names.index(normalise_name(name))


def normalise_name(name: str) -> str:
    """The name of a factor in lower case, with spaces for hyphens and underscores."""
    return re.sub(r"[-_\s]+", " ", name.strip().lower())


def columns(factors: Factors, text: str) -> list[int]:
    """The indices of the factors in `shape+scale`, each named once."""
    indices = [column(factors, name) for name in text.split("+")]
    if len(set(indices)) < len(indices):
        raise ParameterError(f"{text!r} names a factor twice; name it once")
    return indices


def levels(data: Dataset, factors: Factors) -> Levels:
    """(N, K) levels of every example, in the smallest integer type."""
    if factors.table is not None:
        return factors.table
    small = np.min_scalar_type(max(factors.sizes))
    grid = np.unravel_index(np.arange(len(data)), factors.sizes)
    return np.stack([level.astype(small) for level in grid], axis=-1)


def cell_numbers(data: Dataset, factors: Factors, which: list[int]) -> NDArray[np.int64]:
    """(N,) the levels of several factors as one number, the last factor fastest."""
    sizes = tuple(factors.sizes[k] for k in which)
    chosen = [levels(data, factors)[:, k] for k in which]
    return np.asarray(np.ravel_multi_index(chosen, sizes), dtype=np.int64)


def subset(data: Dataset, keep: NDArray[np.integer[Any]]) -> Dataset:
    """The dataset restricted to these positions, with shuffled batches."""
    index = torch.from_numpy(keep.astype(np.int32))
    factors = data.factors
    return replace(
        data,
        source=Subset(data.source, index),
        factors=factors and replace(factors, table=levels(data, factors)[keep]),
        groups=None if data.groups is None else data.groups[index.long()],
        batch_order=None,
        example_names=[data.example_names[i] for i in keep] if data.example_names else (),
    )


def split_randomly(data: Dataset, share: float, *, seed: int = 0) -> tuple[Dataset, Dataset]:
    """The data without a random share, and that share; examples of one group stay together.

    >>> import untwine
    >>> [len(part) for part in split_randomly(untwine.dataset("digits"), 0.1)]
    [1350, 150]
    """
    if not 0 < share < 1:
        raise ParameterError(f"the share to hold out must lie between 0 and 1, not {share}")
    ordering = data.batch_order
    if ordering is not None and not isinstance(ordering, DivisibleOrdering):
        raise DataError(
            f"{data.name or 'this data'} draws its batches in its own way, which a part of it "
            "cannot keep; validate on a split of it or on other data"
        )
    rng = np.random.default_rng(derive_seed(seed, 5))
    units = np.arange(len(data)) if data.groups is None else data.groups.cpu().numpy()
    kinds = np.unique(units)
    n = max(1, round(share * len(kinds)))
    if n >= len(kinds):
        what = "example" if data.groups is None else "group"
        raise DataError(
            f"{share:g} of {len(kinds)} {what}{'s' * (len(kinds) > 1)} cannot be held out; "
            "hold out less, or take more data"
        )
    held = np.isin(units, rng.choice(kinds, n, replace=False))
    rest, apart = np.flatnonzero(~held), np.flatnonzero(held)
    return _divide(data, rest), _divide(data, apart)


def _divide(data: Dataset, keep: NDArray[np.integer[Any]]) -> Dataset:
    """A part of a dataset, with the order of batches restricted to it."""
    ordering = data.batch_order
    restricted = ordering.restricted(keep) if isinstance(ordering, DivisibleOrdering) else None
    return replace(subset(data, keep), batch_order=restricted, evaluation=None)


def require_shuffled(text: str, data: Dataset) -> None:
    """Refuse data with an order of batches of its own, which a subset could not preserve."""
    if data.batch_order is not None:
        raise DataError(
            f"{text} draws its batches in its own way, which a part of it cannot keep; "
            "take the part first, as in mixed(first=held-out(...), second=...)"
        )


def labels(data: Dataset, of: str) -> tuple[str, int, NDArray[np.int64]]:
    """The name of the factor that holds the class, its size, and (N,) levels."""
    names = data.factors.names if data.factors else ()
    for name in LABEL_FACTORS:
        if data.factors and name in names:
            k = names.index(name)
            return name, data.factors.sizes[k], data.factors.levels_at(np.arange(len(data)))[:, k]
    raise DataError(f"{of} has no factor named digit or class; choose mnist, digits or the like")
