"""Datasets made of other datasets: a part of one, or two of them in a row."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine import schema
from untwine.data import Dataset, Factors, Source
from untwine.datasets._files import check_digest
from untwine.errors import DataError, ParameterError, UnknownNameError

Levels = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Subset:
    """Some examples of a source; nothing is copied but their positions."""

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
    """The examples of one source and then those of another."""

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


def opened(text: str, digest: str = "") -> Dataset:
    """The dataset that an expression such as `sprites(size=32)` names, or a folder or file.

    With the digest of an earlier run, only if it is what that run was made with.
    """
    from untwine.spec import dataset  # which imports the registry that lists this file

    data = dataset(text)
    check_digest(text, digest, data.digest)
    return data


def with_factors(text: str, digest: str) -> tuple[Dataset, Factors]:
    """A dataset whose factors are known, checked against the digest of an earlier run."""
    data = opened(text, digest)
    if data.factors is None:
        raise DataError(f"{text} has no factors to go by; choose data that has, such as sprites")
    return data, data.factors


def column(factors: Factors, name: str) -> int:
    """Which factor has this name; a hyphen may stand for a space.

    >>> column(Factors(("shape", "position x"), (3, 32)), "position-x")
    1
    """
    known = [_plain(each) for each in factors.names]
    if _plain(name) not in known:
        raise UnknownNameError(schema.unknown("factor", name.strip(), factors.names))
    return known.index(_plain(name))


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]+", " ", name.strip().lower())


def columns(factors: Factors, text: str) -> list[int]:
    """The factors of `shape+scale`, each once."""
    found = [column(factors, name) for name in text.split("+")]
    if len(set(found)) < len(found):
        raise ParameterError(f"{text!r} names a factor twice; name it once")
    return found


def levels(data: Dataset, factors: Factors) -> Levels:
    """(N, K) the levels of every example, in few bytes."""
    if factors.table is not None:
        return factors.table
    small = np.min_scalar_type(max(factors.sizes))
    grid = np.unravel_index(np.arange(len(data)), factors.sizes)
    return np.stack([level.astype(small) for level in grid], axis=-1)


def cells(data: Dataset, factors: Factors, which: list[int]) -> NDArray[np.int64]:
    """(N,) one number for the levels of several factors, the last of them fastest."""
    sizes = tuple(factors.sizes[k] for k in which)
    chosen = [levels(data, factors)[:, k] for k in which]
    return np.asarray(np.ravel_multi_index(chosen, sizes), dtype=np.int64)


def subset(data: Dataset, keep: NDArray[np.integer[Any]]) -> Dataset:
    """The examples at these positions; their batches are shuffled."""
    index = torch.from_numpy(keep.astype(np.int32))
    known = data.factors
    return replace(
        data,
        source=Subset(data.source, index),
        factors=known and replace(known, table=levels(data, known)[keep]),
        groups=None if data.groups is None else data.groups[index.long()],
        order=None,
    )


def require_shuffled(text: str, data: Dataset) -> None:
    """Refuse data that draws batches in its own way, which a part of it could not keep."""
    if data.order is not None:
        raise DataError(
            f"{text} draws its batches in its own way, which a part of it cannot keep; "
            "take the part first, as in mixed(first=held-out(...), second=...)"
        )
