"""The IDX files of MNIST and of the sets made after it."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data import Dataset, Factors, Pixels
from untwine.datasets._files import (
    BROKEN,
    File,
    cached,
    check_digest,
    checksum,
    digest_of,
    existing,
    is_gzip,
    obtain,
)
from untwine.errors import DataError

SPLITS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}
NAMES = ("{}-images-idx3-ubyte", "{}-labels-idx1-ubyte")
CLASSES = 10


def published(folder: str, url: str, sums: Sequence[str], packaged: str = "") -> tuple[File, ...]:
    """The four files of a set, with the checksums of what they hold: train, then test."""
    names = [f"{name.format(part)}.gz" for part in SPLITS["all"] for name in NAMES]
    return tuple(
        File(f"{folder}/{name}", url + name, known, packaged=packaged and f"{packaged}/{name}")
        for name, known in zip(names, sums, strict=True)
    )


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The bytes of an IDX file, plain or gzipped, as an array."""
    content = _content(path)
    start = 4 + 4 * dimensions
    if content[:4] != bytes((0, 0, 8, dimensions)) or len(content) < start:
        raise DataError(f"{path} is not an IDX file of bytes with {dimensions} dimensions")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path} is cut short or too long: {math.prod(shape):,} bytes are announced and "
            f"{len(content) - start:,} are there"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if is_gzip(path) else path.read_bytes()


def _digest(paths: Sequence[Path]) -> str:
    """A short name for what the files hold, packed or not."""
    try:
        sums = [checksum(path, content=is_gzip(path)) for path in paths]
    except BROKEN as error:
        raise DataError(f"a file in {paths[0].parent} is damaged ({error}); replace it") from error
    return digest_of((str(i), found.encode()) for i, found in enumerate(sums))


def _in_folder(root: Path, part: str) -> list[Path]:
    """The images and the labels of one part in a folder of your own, plain or gzipped."""
    return [_variant(root, name.format(part)) for name in NAMES]


def _variant(root: Path, name: str) -> Path:
    names = [name, f"{name}.gz", name.replace("-idx", ".idx")]
    for path in (root / variant for variant in names):
        if path.is_file():
            return path
    raise DataError(f"there is no {name} or {name}.gz in {root}")


def _decode(images: Path, labels: Path) -> dict[str, NDArray[Any]]:
    """(N, H, W, 1) images and (N, 1) labels of a pair of files that belong together."""
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if len(x) != len(y) or not len(x):
        raise DataError(f"{images} has {len(x)} images but {labels} has {len(y)} labels")
    if y.max() >= CLASSES:
        raise DataError(f"{labels} has the label {y.max()}; there are {CLASSES} classes, from 0")
    return {"images": x[..., None], "labels": y[:, None]}


def idx_dataset(
    name: str, files: tuple[File, ...], factor: str, *, path: str, split: str, pad: int, digest: str
) -> Dataset:
    """A set of labelled grey images from its published files, or from a folder of your own."""
    parts = SPLITS[split]
    if path:
        pairs = [_in_folder(existing(path, "folder"), part) for part in parts]
    else:
        needed = [file for part in parts for file in files if f"/{part}-" in file.name]
        places = obtain(name, needed)
        pairs = [places[i : i + 2] for i in range(0, len(places), 2)]
    found = check_digest(path, digest, _digest([place for pair in pairs for place in pair]))
    arrays = [cached(name, _digest(pair), lambda pair=pair: _decode(*pair)) for pair in pairs]
    images, labels = (_joined([part[key] for part in arrays]) for key in ("images", "labels"))
    if pad:
        images = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    data = Dataset(Pixels(torch.from_numpy(images)), Factors((factor,), (CLASSES,), labels))
    return replace(data, digest=found) if path else data


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """One array of several; a single one stays memory-mapped."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
