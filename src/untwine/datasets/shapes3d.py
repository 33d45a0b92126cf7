"""3D Shapes as published: one HDF5 file of images and the values of their factors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.cache import cached_arrays
from untwine.data.dataset import Dataset, Factors, Pixels
from untwine.data.files import File, open_files
from untwine.data.incoming.tables import hdf5_array, open_hdf5, read_rows
from untwine.data.pictures import grid_or_table, stream_pictures
from untwine.errors import DataError
from untwine.registry import dataset

FACTORS = Factors(
    ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation"),
    (10, 10, 10, 8, 4, 15),
    unordered=("shape",),
    level_names={"shape": ("cube", "cylinder", "sphere", "capsule")},
)
RANGES = ((0, 0.9), (0, 0.9), (0, 0.9), (0.75, 1.25), (0, 3), (-30, 30))  # of the labels
BLOCK = 1024  # images
FILES = (
    File(
        "3dshapes.h5",
        "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
        "sha256:0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
        267_573_662,
    ),
)


def _levels(labels: NDArray[np.floating]) -> NDArray[np.int64]:
    """(N, 6) values of the factors to their levels."""
    low, high = np.array(RANGES, dtype=np.float64).T
    steps = (labels - low) / (high - low) * (np.array(FACTORS.sizes) - 1)
    with np.errstate(invalid="ignore"):  # NaN becomes a level out of range
        table = np.rint(steps).astype(np.int64)
    outside = (table < 0).any() or (table >= FACTORS.sizes).any()
    if outside or np.abs(steps - table).max(initial=0) > 1e-3:
        raise DataError("its labels hold values that the factors of 3D Shapes do not have")
    return table


def _read_levels(path: Path) -> dict[str, NDArray[Any]]:
    """The levels of every image, and the shape of the images."""
    with open_hdf5(path) as file:
        images, labels = hdf5_array(file, "images"), hdf5_array(file, "labels")
        square = len(images.shape) == 4 and images.shape[1] == images.shape[2]
        if not square or images.shape[3] != 3 or images.dtype != np.uint8:
            raise DataError(
                f"images in {path} must be bytes (480000, 64, 64, 3), "
                f"not {images.dtype} {images.shape}"
            )
        if labels.shape != (len(images), 6) or labels.dtype.kind not in "fiu":
            raise DataError(
                f"labels in {path} must be numbers ({len(images)}, 6), "
                f"not {labels.dtype} {labels.shape}"
            )
        try:
            table = _levels(read_rows(labels, slice(None), f"labels in {path}"))
        except DataError as error:
            raise DataError(f"{path} is not 3D Shapes: {error}") from None
        return {"levels": table.astype(np.uint8), "shape": np.array(images.shape)}


def _blocks(path: Path) -> Iterator[NDArray[np.uint8]]:
    """The images in order, in whole chunks of the file, each of which is unpacked once."""
    with open_hdf5(path) as file:
        images = hdf5_array(file, "images")
        chunk = images.chunks[0] if images.chunks else 1
        step = chunk * math.ceil(BLOCK / chunk)
        for start in range(0, len(images), step):
            yield read_rows(images, slice(start, start + step), f"images in {path}")


@dataset(
    title="3D Shapes",
    paper="Burgess and Kim, 2018",
    url="https://github.com/google-deepmind/3d-shapes",
    licence="Apache-2.0",
    citation="Burgess, Kim, 3D Shapes Dataset, 2018; Kim, Mnih, Disentangling by Factorising, "
    "ICML 2018",
    files=FILES,
    standin="shapes3d-render",
    examples="480,000 of 3x64x64",
    factors=FACTORS.names,
)
def shapes3d(*, path: str = "", digest: str = "") -> Dataset:
    """A room with an object in it (Burgess and Kim, 2018), downloaded once or from a path.

    480,000 colour images of 64 pixels with six factors: 10 floor hues, 10 wall hues, 10 object
    hues, 8 scales, 4 shapes and 15 orientations. They are unpacked once into the cache, where they
    take 5.9 GB.

    Args:
        path: the file 3dshapes.h5; downloaded to the cache when empty.
        digest: of the file, filled in by a run that names a path.
    """
    kind, hint = "file of 3D Shapes", "name the file 3dshapes.h5"
    files = open_files("shapes3d", FILES, path, digest, kind=kind, file_hint=hint)
    labels = cached_arrays("shapes3d-levels", files.digest, lambda: _read_levels(files.root))
    shape = tuple(int(n) for n in labels["shape"])
    images = stream_pictures("shapes3d", files.digest, shape, lambda: _blocks(files.root))
    factors = grid_or_table(FACTORS, labels["levels"])
    return Dataset(Pixels(torch.from_numpy(images)), factors, digest=files.recorded)
