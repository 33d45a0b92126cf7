"""Datasets from objects in memory: arrays, tensors, frames, sparse matrices, other datasets.

Kinds are told apart by what they can do, so that no library is imported to recognise its objects.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.arrays import factor_table, from_arrays, group_ids
from untwine.data.dataset import BERNOULLI, Dataset
from untwine.data.lazy import Arrange, Fetch, lazy_source
from untwine.data.opening import dataset
from untwine.data.tables import REAL, Table, as_table, match_columns, table_dataset
from untwine.errors import DataError
from untwine.records import Columns

CHUNK = 256  # examples encoded at a time
ITEM_KEYS = ("image", "img", "images", "pixel_values", "x", "data")
LABEL_KEYS = ("label", "labels", "y", "target")
TAKEN = (
    "an array, a tensor, a data frame, a sparse matrix, AnnData, a map-style torch dataset or a "
    "Hugging Face dataset"
)
Shape = Sequence[int]


def as_dataset(
    x: Any,
    factors: Any = None,
    *,
    names: tuple[str, ...] | None = None,
    groups: Any = None,
    shape: Shape | None = None,
    bounded: bool = False,
    standardise: bool | None = None,
    like: Columns | None = None,
) -> Dataset:
    """A dataset from whatever holds examples.

    Takes NumPy arrays and tensors (channels first or last), memory-mapped arrays, which stay on
    disk, pandas and polars frames, scipy's sparse matrices, AnnData, torch's map-style datasets and
    Hugging Face datasets; a name, file or folder is opened as by `untwine.dataset`. A dataset
    comes back as it is.

    Args:
        x: the examples.
        factors: (N, K) integers from 0, the level of every factor in each example.
        names: of the K factors.
        groups: (N,) integers, the group of each example.
        shape: of one example, where it is in doubt: `(C, H, W)` for images, `(D,)` for vectors.
        bounded: whether vectors lie in [0, 1], so that likelihoods for such data fit.
        standardise: whether columns get mean 0 and deviation 1; by default those of frames do.
        like: the columns of a model; tables get their order and are standardised by their numbers,
            and so are arrays. Tensors are taken as the model sees them.

    >>> data = as_dataset(torch.rand(100, 3, 32, 32))
    >>> len(data), tuple(data.shape)
    (100, (3, 32, 32))
    """
    refuse_stream(x)
    data = _convert(x, shape, bounded, standardise, like)
    if factors is not None:
        data = replace(data, factors=factor_table(np.asarray(factors), len(data), names))
    if groups is not None:
        data = replace(data, groups=group_ids(np.asarray(groups), len(data)))
    return data if like is None else match_columns(data, like)


def refuse_stream(x: Any) -> None:
    """Refuse what only gives batches one after the other."""
    if hasattr(x, "batch_sampler") and hasattr(x, "dataset"):
        raise DataError(
            f"give the dataset, not the {type(x).__name__}: write loader.dataset. Batches are "
            "drawn by seed, so that training can be resumed"
        )
    by_position = hasattr(x, "__len__") and hasattr(x, "__getitem__")
    if hasattr(x, "__iter__") and not by_position and not hasattr(x, "tocsr"):
        raise DataError(
            f"a {type(x).__name__} is a stream, whose examples cannot be drawn by position; "
            "batches are drawn by seed, so that training can be resumed. Store it as an array or "
            "as a map-style dataset first"
        )


def _convert(
    x: Any,
    shape: Shape | None,
    bounded: bool,
    standardise: bool | None,
    like: Columns | None = None,
) -> Dataset:
    if isinstance(x, Dataset):
        return x
    if isinstance(x, str | Path):
        return dataset(str(x))
    if hasattr(x, "obs_names") and hasattr(x, "var_names"):
        return _from_anndata(x, bounded, standardise)
    if isinstance(x, dict) or (hasattr(x, "columns") and hasattr(x, "to_numpy")):
        scaled = standardise is not False
        return table_dataset(as_table(x), standardise=scaled, bounded=bounded, like=like)
    if hasattr(x, "tocsr"):
        rows = x.tocsr()
        return _lazy(lambda index: rows[index].toarray(), lambda row: row, rows.shape[0], bounded)
    if hasattr(x, "tensors") and hasattr(x, "__getitem__"):
        return _from_tensors(x.tensors, shape, bounded)
    if hasattr(x, "column_names") and hasattr(x, "features"):
        return _from_hugging_face(x, shape, bounded, standardise)
    if isinstance(x, np.ndarray | Tensor | list | tuple):
        return _from_array(x, shape, bounded, like)
    if hasattr(x, "__getitem__") and hasattr(x, "__len__"):
        return _from_items(x, shape, bounded)
    raise DataError(f"a {type(x).__name__} cannot become a dataset; give {TAKEN}")


def _from_array(x: Any, shape: Shape | None, bounded: bool, like: Columns | None = None) -> Dataset:
    tensor = isinstance(x, Tensor)
    array = x.detach().cpu().numpy() if tensor else np.asanyarray(x)
    if array.dtype.kind not in "biuf":
        raise DataError(f"examples must be numbers, not {array.dtype}")
    if not tensor and like is not None and array.shape[1:] == (len(like.names),):
        return table_dataset(Table(like.names, np.asarray(array, np.float64)), like=like)
    arrange = arrangement(array.shape[1:], shape, first=tensor)
    if isinstance(array, np.memmap):
        return _lazy(array.__getitem__, arrange, len(array), bounded)
    arranged = arrange(array)
    data = from_arrays(arranged)
    return _bounded(data) if bounded and arranged.ndim == 2 else data


def _lazy(fetch: Fetch, arrange: Arrange, length: int, bounded: bool) -> Dataset:
    if not length:
        raise DataError("there are no examples")
    source = lazy_source(fetch, arrange, length)
    if len(source.shape) == 3:
        return Dataset(source)
    data = Dataset(source, likelihood=REAL, in_unit_interval=False)
    return _bounded(data) if bounded else data


def _bounded(data: Dataset) -> Dataset:
    """Vectors as data in [0, 1], checked on the examples at hand."""
    some = data.take(np.unique(np.linspace(0, len(data) - 1, 1000).astype(int)))
    low, high = float(some.min()), float(some.max())
    if low < 0 or high > 1:
        raise DataError(f"bounded data must lie in [0, 1], not [{low:.3g}, {high:.3g}]")
    return replace(data, likelihood=BERNOULLI, in_unit_interval=True)


def arrangement(row: Shape, shape: Shape | None, *, first: bool = False) -> Arrange:
    """How rows of this shape become (B, H, W, C) images or (B, D) vectors.

    Args:
        row: the shape of a row.
        shape: of an example, as the user says; None to tell from the row.
        first: whether channels come first where both ends could be channels.
    """
    row = tuple(row)
    if shape is not None:
        return _as_told(row, tuple(shape))
    if len(row) == 3 and _is_channels(row[0]) and (first or not _is_channels(row[2])):
        return lambda rows: np.moveaxis(rows, 1, -1)
    if len(row) == 2 and is_series(row):
        flat, image = math.prod(row), (1, *row)
        raise DataError(
            f"examples of shape {row} look like series of {min(row)} channels, not like images; "
            f"flatten them with x.reshape(len(x), {flat}), or say shape={image} if they are images"
        )
    if not row:
        raise DataError("examples are single numbers; x.reshape(-1, 1) makes them vectors")
    return lambda rows: rows


def _as_told(row: tuple[int, ...], shape: tuple[int, ...]) -> Arrange:
    """How rows become examples of the shape that the user says."""
    if math.prod(row) != math.prod(shape) or len(shape) not in (1, 3):
        raise DataError(
            f"examples of shape {row} cannot have shape={shape}; write (C, H, W) or (D,)"
        )
    if len(shape) == 1:
        return lambda rows: rows.reshape(len(rows), -1)
    channels, height, width = shape
    if row == (height, width, channels):
        return lambda rows: rows
    if row in (shape, (math.prod(shape),), (height, width)):
        return lambda rows: np.moveaxis(rows.reshape(len(rows), *shape), 1, -1)
    raise DataError(f"examples of shape {row} cannot have shape={shape}; their axes differ")


def _is_channels(size: int) -> bool:
    return 1 <= size <= 4


def is_series(row: tuple[int, ...]) -> bool:
    """Whether rows (H, W) are rather several channels over time than images."""
    short, long = sorted(row)
    return short != long and (short <= 4 or long >= 3 * short)


def _from_anndata(x: Any, bounded: bool, standardise: bool | None) -> Dataset:
    names, columns = tuple(map(str, x.obs_names)), tuple(map(str, x.var_names))
    if standardise:
        values = x.X.toarray() if hasattr(x.X, "toarray") else np.asarray(x.X)
        table = as_table({name: values[:, k] for k, name in enumerate(columns)})
        return replace(table_dataset(table), example_names=names)
    data = _convert(x.X, None, bounded, None)
    plain = Columns(columns, (0.0,) * len(columns), (1.0,) * len(columns))
    return replace(data, preparation={"columns": plain.to_json()}, example_names=names)


def _from_tensors(tensors: Sequence[Tensor], shape: Shape | None, bounded: bool) -> Dataset:
    """A torch TensorDataset: examples, and a label where the second tensor is one."""
    data = _from_array(tensors[0], shape, bounded)
    labels = tensors[1] if len(tensors) == 2 else None
    if labels is None or labels.is_floating_point() or labels.dim() != 1 or labels.min() < 0:
        return data
    return replace(data, factors=factor_table(labels.numpy(), len(data), ("label",)))


def _from_hugging_face(
    x: Any, shape: Shape | None, bounded: bool, standardise: bool | None
) -> Dataset:
    key = next((key for key in ITEM_KEYS if key in x.column_names), None)
    if key is None:
        return _convert(x.to_pandas(), shape, bounded, standardise)
    data = _from_items(x, shape, bounded)
    label = next((key for key in LABEL_KEYS if key in x.column_names), None)
    if label is None:
        return data
    names = getattr(x.features[label], "names", None)
    levels = {label: tuple(names)} if names else {}
    table = factor_table(np.asarray(x[label]), len(data), (label,), (label,), levels)
    return replace(data, factors=table)


def _from_items(x: Any, shape: Shape | None, bounded: bool) -> Dataset:
    """A map-style dataset; items are arrays, tensors or pictures, or hold one."""
    if not len(x):
        raise DataError("there are no examples")

    def fetch(index: NDArray[np.int64]) -> NDArray[Any]:
        many = getattr(x, "__getitems__", None)
        items = many(index.tolist()) if many else [x[int(i)] for i in index]
        return np.stack([_example(item) for item in items])

    first = x[0]
    row = _example(first).shape
    tensor = isinstance(_content(first), Tensor)
    return _lazy(fetch, arrangement(row, shape, first=tensor), len(x), bounded)


def _content(item: Any) -> Any:
    """The example in an item: the first of a tuple, the image of a dictionary."""
    if isinstance(item, dict):
        key = next((key for key in ITEM_KEYS if key in item), None)
        if key is None:
            raise DataError(
                f"items hold {', '.join(map(str, item))}; name the example one of: "
                f"{', '.join(ITEM_KEYS)}"
            )
        return item[key]
    return item[0] if isinstance(item, tuple | list) else item


def _example(item: Any) -> NDArray[Any]:
    content = _content(item)
    array = content.detach().cpu().numpy() if isinstance(content, Tensor) else np.asarray(content)
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"examples must be arrays, tensors or pictures, not {type(content).__name__}"
        )
    return array


def example_chunks(x: Any, shape: torch.Size, columns: Columns | None) -> Iterator[Tensor]:
    """Examples as a model sees them, some at a time; float arrays of its shape are not rounded."""
    if columns is None and isinstance(x, np.ndarray) and x.dtype.kind == "f":
        if x.shape[1:] == shape:
            for start in range(0, len(x), CHUNK):
                yield torch.from_numpy(np.ascontiguousarray(x[start : start + CHUNK], np.float32))
            return
    data = as_dataset(x, like=columns)
    for start in range(0, len(data), CHUNK):
        yield data.take(np.arange(start, min(start + CHUNK, len(data))))
