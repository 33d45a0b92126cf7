"""Your own images or vectors: an .npy or .npz file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.data.arrays import factor_table
from untwine.data.cache import check_digest, digest_of_content
from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.data.files import existing_path
from untwine.data.incoming.arrays import open_arrays
from untwine.errors import DataError
from untwine.registry import dataset

IMAGE_KEYS = ("images", "imgs", "x", "data")
OTHER_KEYS = ("factors", "factor_names", "unordered", "groups")
MAX_BYTES_IN_MEMORY = 1 << 28  # larger .npy files stay on disk
LEVELS = "levels."  # before the name of a factor


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The images, and what else there is of factors, their names and groups."""
    with open_arrays(path) as arrays:
        key = next((key for key in ("", *IMAGE_KEYS) if key in arrays), None)
        if key is None:
            names = ", ".join(sorted(arrays.names)) or "nothing"
            raise DataError(
                f"{path}: it holds {names}; name the images 'images' and the factors, if any, "
                "'factors'"
            )
        others = [n for n in arrays.names if n in OTHER_KEYS or n.startswith(LEVELS)]
        large = path.stat().st_size > MAX_BYTES_IN_MEMORY
        images = arrays.map(key) if large else arrays.read(key)
        return {"images": images, **{name: arrays.read(name) for name in others}}


def _texts(arrays: dict[str, NDArray[Any]], key: str) -> tuple[str, ...]:
    return tuple(map(str, np.atleast_1d(arrays[key]))) if key in arrays else ()


@dataset(title="An .npy or .npz file", paper="your own data")
def array(
    *,
    path: str = "data.npz",
    shape: tuple[int, ...] = (),
    bounded: bool = False,
    digest: str = "",
) -> Dataset:
    """Images or vectors from an .npy or .npz file; your own data.

    Images are (N, H, W), (N, H, W, C) or (N, C, H, W), bytes, booleans or floats in [0, 1]; vectors
    are (N, D). An .npy file that is larger than 256 MB stays on disk and is read as it is needed.
    An .npz may also hold `factors`, (N, K) integers from 0, `factor_names`, K strings, and
    `groups`, (N,) integers, for models whose groups share latents. `unordered` holds the names of
    factors whose levels have no order, and `levels.NAME` what the levels of a factor are called.

    Args:
        path: the file.
        shape: of one example, where it is in doubt: C,H,W for images, D for vectors.
        bounded: vectors lie in [0, 1], so that likelihoods for such data fit.
        digest: of the file, filled in by a run.
    """
    file = existing_path(path, "file")
    content = check_digest(path, digest, digest_of_content(file))
    arrays = _read(file)
    levels = {key.removeprefix(LEVELS): key for key in arrays if key.startswith(LEVELS)}
    factors = arrays.get("factors")
    try:
        images = arrays["images"]
        if digest and not shape and images.ndim == 3:
            shape = (1, *images.shape[1:])  # as runs took it before series were refused
        data = as_dataset(images, shape=shape or None, bounded=bounded, groups=arrays.get("groups"))
        if factors is not None:
            names = _texts(arrays, "factor_names") or None
            words = {name: _texts(arrays, key) for name, key in levels.items()}
            unordered = _texts(arrays, "unordered")
            data = replace(data, factors=factor_table(factors, len(data), names, unordered, words))
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return replace(data, digest=content)
