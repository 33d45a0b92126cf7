"""The IDX files of MNIST and of the datasets modelled on it."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.cache import cached_arrays, checksum, digest_of, is_gzip
from untwine.data.dataset import Dataset, Factors, Pixels
from untwine.data.files import File, open_files
from untwine.data.incoming.bounds import read_packed
from untwine.errors import DataError

SPLITS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}
NAMES = ("{}-images-idx3-ubyte", "{}-labels-idx1-ubyte")
CLASSES = 10


def published_files(
    folder: str, url: str, sums: Sequence[str], packaged: str = ""
) -> tuple[File, ...]:
    """The four files of a dataset with the checksums of their content: train, then test."""
    names = [f"{name.format(part)}.gz" for part in SPLITS["all"] for name in NAMES]
    return tuple(
        File(f"{folder}/{name}", url + name, sha256, packaged=packaged and f"{packaged}/{name}")
        for name, sha256 in zip(names, sums, strict=True)
    )


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The bytes of an IDX file, plain or gzipped, as an array."""
    content = read_packed(path)
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


def _digest(paths: Sequence[Path]) -> str:
    """A short digest of the content of the files, which may be gzipped."""
    sums = [checksum(path, content=is_gzip(path)) for path in paths]
    return digest_of((str(i), content.encode()) for i, content in enumerate(sums))


def _idx_file(root: Path, name: str) -> Path:
    """The file of this name in a folder, plain or gzipped."""
    names = [name, f"{name}.gz", name.replace("-idx", ".idx")]
    for path in (root / variant for variant in names):
        if path.is_file():
            return path
    raise DataError(f"there is no {name} or {name}.gz in {root}")


def _decode(images: Path, labels: Path) -> dict[str, NDArray[Any]]:
    """(N, H, W, 1) images and (N, 1) labels from a pair of matching files."""
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if len(x) != len(y) or not len(x):
        raise DataError(f"{images} has {len(x)} images but {labels} has {len(y)} labels")
    if y.max() >= CLASSES:
        raise DataError(f"{labels} has the label {y.max()}; there are {CLASSES} classes, from 0")
    return {"images": x[..., None], "labels": y[:, None]}


def idx_dataset(
    name: str,
    files: tuple[File, ...],
    factor: str,
    *,
    path: str,
    split: str,
    pad: int,
    digest: str,
    classes: tuple[str, ...] = (),
) -> Dataset:
    """A dataset of labelled grey images from its published files, or from a folder."""
    parts = SPLITS[split]
    needed = [file for part in parts for file in files if f"/{part}-" in file.name]
    local = open_files(
        name,
        needed,
        path,
        digest,
        kind="folder",
        select=lambda root: [_idx_file(root, form.format(p)) for p in parts for form in NAMES],
        digest_with=_digest,
    )
    pairs = [local.paths[i : i + 2] for i in range(0, len(local.paths), 2)]
    arrays = [
        cached_arrays(name, _digest(pair), lambda pair=pair: _decode(*pair)) for pair in pairs
    ]
    images, labels = (_join_parts([part[key] for part in arrays]) for key in ("images", "labels"))
    if pad:
        images = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    named = {factor: classes} if classes else {}
    factors = Factors((factor,), (CLASSES,), labels, unordered=(factor,), level_names=named)
    return Dataset(Pixels(torch.from_numpy(images)), factors, digest=local.recorded)


def _join_parts(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """The arrays joined into one; a single array stays memory-mapped."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
