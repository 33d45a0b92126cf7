"""Datasets from arrays in memory, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset, Factors, Pixels, Vectors
from untwine.errors import DataError
from untwine.registry import Choice
from untwine.schema import MAX_COUNT


def from_arrays(
    images: NDArray[Any],
    factors: NDArray[Any] | None = None,
    *,
    names: tuple[str, ...] | None = None,
    unordered: tuple[str, ...] = (),
    level_names: Mapping[str, tuple[str, ...]] | None = None,
    groups: NDArray[Any] | None = None,
) -> Dataset:
    """A dataset from arrays in memory.

    Args:
        images: (N, H, W) or (N, H, W, C) bytes, booleans or floats in [0, 1], which are stored as
            bytes; or (N, D) numbers.
        factors: (N, K) integers from 0, the level of every factor in each example.
        names: of the K factors.
        unordered: names of the factors whose levels have no order, such as shapes or classes.
        level_names: what the levels of a factor are called, by the name of the factor.
        groups: (N,) integers, the group of each example, for models whose groups share latents.

    >>> data = from_arrays(np.zeros((100, 32, 32), np.uint8), np.zeros((100, 1), int))
    >>> len(data), tuple(data.shape), data.factors.names
    (100, (1, 32, 32), ('factor 1',))
    """
    images = np.asarray(images)
    table = None
    if factors is not None:
        table = factor_table(np.asarray(factors), len(images), names, unordered, level_names or {})
    elif names or unordered or level_names:
        raise DataError("names of factors and levels are for data with factors; give factors too")
    ids = None if groups is None else group_ids(np.asarray(groups), len(images))
    if images.ndim == 2:
        real = Choice("gaussian", {"squash": False})
        return Dataset(Vectors(as_vectors(images)), table, real, in_unit_interval=False, groups=ids)
    return Dataset(Pixels(torch.from_numpy(as_bytes(images))), table, groups=ids)


def group_ids(groups: NDArray[Any], n: int) -> Tensor:
    """(n,) the groups of n examples, checked."""
    if groups.shape != (n,) or groups.dtype.kind not in "iu":
        raise DataError(f"groups must be {n} integers, not {groups.dtype} {groups.shape}")
    return torch.from_numpy(groups.astype(np.int64))


def as_vectors(values: NDArray[Any]) -> Tensor:
    """(N, D) numbers as float32, checked."""
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
    """(N, H, W) or (N, H, W, C) bytes, booleans or floats as (N, H, W, C) bytes."""
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
        raise DataError(
            f"float images must lie in [0, 1], not [{low:.3g}, {high:.3g}]{_rescaling(low, high)}"
        )
    raise DataError(f"images must be bytes, booleans or floats, not {images.dtype}")


def _rescaling(low: float, high: float) -> str:
    """What to type for images of a range that is often met."""
    if -1 <= low < 0 and high <= 1:
        return "; rescale them with (images + 1) / 2"
    return "; rescale them with images / 255" if 0 <= low and 1 < high <= 255 else ""


def factor_table(
    table: NDArray[Any],
    n: int,
    names: tuple[str, ...] | None = None,
    unordered: tuple[str, ...] = (),
    level_names: Mapping[str, tuple[str, ...]] | None = None,
) -> Factors:
    """The factors of n examples from a table (N, K) or (N,), checked."""
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n or not table.shape[1]:
        raise DataError(f"factors must have shape ({n}, K), not {table.shape}")
    if not np.issubdtype(table.dtype, np.integer) or table.min() < 0:
        raise DataError("factors must be integers from 0, one level per number")
    if int(table.max()) >= MAX_COUNT:
        raise DataError(f"a factor has at most {MAX_COUNT:,} levels; number them from 0")
    names = names or tuple(f"factor {k + 1}" for k in range(table.shape[1]))
    if len(names) != table.shape[1]:
        raise DataError(f"there are {table.shape[1]} factors but {len(names)} names")
    named = {name: tuple(levels) for name, levels in (level_names or {}).items()}
    sizes = (  # a level that no example has may still have a name
        max(int(top) + 1, len(named.get(name, ())))
        for name, top in zip(names, table.max(0), strict=True)
    )
    return Factors(tuple(names), tuple(sizes), table, tuple(unordered), named)
