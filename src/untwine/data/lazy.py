"""Examples that are read when they are drawn: memory-mapped, sparse, or item by item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.arrays import as_bytes, as_vectors
from untwine.errors import DataError

CPU = torch.device("cpu")
N_CHECKED = 64  # examples that are looked at before training begins
Fetch = Callable[[NDArray[np.int64]], NDArray[Any]]  # of positions, the rows there
Arrange = Callable[[NDArray[Any]], NDArray[Any]]  # of rows, (B, H, W, C) images or (B, D) vectors


@dataclass(frozen=True)
class Lazy:
    """Rows that are fetched, checked and converted whenever they are drawn."""

    fetch: Fetch
    arrange: Arrange
    length: int
    shape: torch.Size
    device: torch.device = CPU

    def __len__(self) -> int:
        return self.length

    def take(self, index: Tensor) -> Tensor:
        positions = index.cpu().numpy()
        if not len(positions):
            return torch.empty((0, *self.shape), device=self.device)
        try:
            examples = as_examples(self.arrange(self.fetch(positions)))
        except DataError as error:
            raise DataError(f"{error} (in the examples {_span(positions)})") from None
        return examples.to(self.device)

    def to(self, device: torch.device) -> Self:
        return replace(self, device=device)


def as_examples(rows: NDArray[Any]) -> Tensor:
    """(B, H, W, C) images as (B, C, H, W) floats on the grid of bytes; (B, D) vectors as floats."""
    if rows.ndim == 2:
        return as_vectors(rows)
    pixels = torch.from_numpy(as_bytes(rows))
    return pixels.permute(0, 3, 1, 2).float().div_(255)


def _span(positions: NDArray[np.int64]) -> str:
    return f"{positions.min()} to {positions.max()}" if len(positions) > 1 else f"{positions[0]}"


def lazy_source(fetch: Fetch, arrange: Arrange, length: int) -> Lazy:
    """A lazy source whose shape is that of its first example; some examples are checked now."""
    first = as_examples(arrange(fetch(np.zeros(1, np.int64))))
    source = Lazy(fetch, arrange, length, first.shape[1:])
    source.take(torch.from_numpy(np.unique(np.linspace(0, length - 1, N_CHECKED).astype(np.int64))))
    return source
