"""Data that was given in Python: known by its digest, and stored as a file on request.

A stored file is an .npz of `examples` (bytes of images, or float32 vectors), `factors` and `groups`
where there are any, and `facts`, the JSON of everything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.arrays import factor_table, group_ids
from untwine.data.dataset import Dataset, Factors, Pixels, Vectors
from untwine.errors import DamagedFile, DataError
from untwine.registry import Choice
from untwine.schema import MAX_COUNT
from untwine.tools.files import write_atomically
from untwine.tools.sealed import check_shape, decode_json

CHUNK = 1024  # examples looked at together
MAX_HELD = 16  # datasets that are remembered
FACTORS = {
    "names": [str],
    "sizes": [int],
    "unordered": [str],
    "level_names": {str: [str]},
}
FACTS = {
    "likelihood": {"name": str, str: object},
    "in_unit_interval": bool,
    "example_names": [str],
    "preparation": {str: object},
    "factors": (FACTORS, None),
}
_HELD: dict[str, Dataset] = {}  # by digest, newest last


def hold(data: Dataset) -> Dataset:
    """The dataset with its digest, by which this process finds it again."""
    data = identify(data)
    _HELD[data.digest] = _HELD.pop(data.digest, data)
    while len(_HELD) > MAX_HELD:
        _HELD.pop(next(iter(_HELD)))
    return data


def held_data(digest: str) -> Dataset:
    """The data of this digest that the process holds."""
    if digest not in _HELD:
        raise DataError(
            "this data was given in Python and not stored; give it again, as in "
            "untwine.open_run(path, data=x), or train with store=True"
        )
    return _HELD[digest]


def identify(data: Dataset) -> Dataset:
    """The dataset with the digest of its content, in place of that of the files behind it."""
    if data.batch_order is not None or data.evaluation is not None:
        raise DataError(
            f"{data.name or 'this data'} draws its batches or is scored in its own way, which a "
            "digest does not hold; name it instead, as in 'grouped(of=..., by=...)'"
        )
    total = hashlib.sha256(json.dumps(_facts(data), sort_keys=True).encode())
    for chunk in _chunks(data):
        total.update(np.ascontiguousarray(chunk).data)
    for name, values in _tables(data).items():
        total.update(f"\0{name}{values.shape}".encode())
        total.update(np.ascontiguousarray(values).data)
    return replace(data, digest=total.hexdigest()[:16], former_digest="")


def _chunks(data: Dataset) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(data), CHUNK):
        index = np.arange(start, min(start + CHUNK, len(data)))
        yield data.take_repeatably(index).cpu().numpy()


def _tables(data: Dataset) -> dict[str, NDArray[np.int64]]:
    """The levels of factors and the groups, where there are any."""
    tables: dict[str, NDArray[np.int64]] = {}
    if data.factors is not None:
        tables["factors"] = data.factors.levels_at(np.arange(len(data)))
    if data.groups is not None:
        tables["groups"] = data.groups.cpu().numpy().astype(np.int64)
    return tables


def _facts(data: Dataset) -> dict[str, Any]:
    factors = data.factors and {
        "names": list(data.factors.names),
        "sizes": list(data.factors.sizes),
        "unordered": list(data.factors.unordered),
        "level_names": {name: list(levels) for name, levels in data.factors.level_names.items()},
    }
    return {
        "likelihood": data.likelihood.to_json(),
        "in_unit_interval": data.in_unit_interval,
        "example_names": list(data.example_names),
        "preparation": dict(data.preparation),
        "factors": factors,
    }


def store(data: Dataset, path: Path) -> None:
    """Write a dataset to a file that `read_stored` gives back bit for bit."""
    chunks = [_to_bytes(chunk) if chunk.ndim == 4 else chunk for chunk in _chunks(data)]
    facts = np.array(json.dumps(_facts(data)))
    arrays = {"examples": np.concatenate(chunks), "facts": facts, **_tables(data)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda stream: np.savez(stream, **arrays))


def _to_bytes(images: NDArray[np.float32]) -> NDArray[np.uint8]:
    """(B, C, H, W) images as (B, H, W, C) bytes; refuses what bytes cannot hold."""
    pixels = np.rint(images * 255).astype(np.uint8)
    if not np.array_equal(torch.from_numpy(pixels).float().div_(255).numpy(), images):
        raise DataError(
            "these images are not on the grid of bytes, so they cannot be stored as they are; "
            "train with store=False"
        )
    return np.moveaxis(pixels, 1, -1)


def read_stored(path: Path) -> Dataset:
    """The dataset in a file that `store` wrote."""
    from untwine.data.incoming.arrays import open_arrays  # which few runs need

    with open_arrays(path) as arrays:
        if not {"examples", "facts"} <= set(arrays.names):
            raise DataError(f"{path} was not written by untwine; it has no examples and facts")
        tables = {name: arrays.read(name) for name in ("factors", "groups") if name in arrays}
        examples, text = arrays.read("examples"), str(arrays.read("facts"))
    try:
        facts = decode_json(text.encode())
        check_shape(facts, FACTS)
        return _restore(examples, tables, facts)
    except (DamagedFile, ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} is damaged: {error}; train the run again") from None


def _restore(
    examples: NDArray[Any], tables: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> Dataset:
    values = torch.from_numpy(examples.copy())
    if (values.ndim, values.dtype) not in ((4, torch.uint8), (2, torch.float32)):
        raise ValueError(f"its examples are {values.dtype} of shape {tuple(values.shape)}")
    if not values.numel() or not torch.isfinite(values).all():
        raise ValueError("its examples are empty, NaN or infinite")
    n, named, kind = len(values), facts["factors"], facts["likelihood"]
    return Dataset(
        Pixels(values) if values.ndim == 4 else Vectors(values),
        None if named is None else _restore_factors(tables["factors"], n, named),
        Choice(kind["name"], {key: value for key, value in kind.items() if key != "name"}),
        in_unit_interval=facts["in_unit_interval"],
        groups=group_ids(tables["groups"], n) if "groups" in tables else None,
        example_names=facts["example_names"],
        preparation=facts["preparation"],
    )


def _restore_factors(table: NDArray[Any], n: int, facts: dict[str, Any]) -> Factors:
    """The factors of n examples; a factor may have more levels than the examples show."""
    words = {name: tuple(levels) for name, levels in facts["level_names"].items()}
    names, sizes = tuple(facts["names"]), tuple(facts["sizes"])
    factors = factor_table(table, n, names, tuple(facts["unordered"]), words)
    if len(sizes) != len(names) or any(
        not least <= size <= MAX_COUNT for least, size in zip(factors.sizes, sizes, strict=True)
    ):
        raise ValueError(f"its factors cannot have {sizes} levels")
    return replace(factors, sizes=sizes)
