"""smallNORB as published: photographs of toys in binary matrices."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors, Pixels
from untwine.data.files import File, open_files
from untwine.data.incoming.bounds import BoundedStream, open_packed
from untwine.data.pictures import grid_or_table, shrink, stream_pictures
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

FACTORS = Factors(
    ("category", "elevation", "azimuth", "lighting"),
    (5, 9, 18, 6),
    unordered=("category", "lighting"),
    level_names={"category": ("animal", "human", "airplane", "truck", "car")},
)
CHUNKS = ("5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing")
DTYPES = {507333717: "u1", 507333716: "<i4", 507333713: "<f4", 507333715: "<f8"}
SIDE = 96
BLOCK = 1024
URL = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"
PUBLISHED = {  # checksum and size of the compressed files
    f"{CHUNKS[0]}-dat": (
        "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873",
        131_896_188,
    ),
    f"{CHUNKS[0]}-cat": ("2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa", 348),
    f"{CHUNKS[0]}-info": (
        "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32",
        71_052,
    ),
    f"{CHUNKS[1]}-dat": (
        "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474",
        130_799_817,
    ),
    f"{CHUNKS[1]}-cat": ("ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff", 347),
    f"{CHUNKS[1]}-info": (
        "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2",
        10_428,
    ),
}
FILES = tuple(
    File(f"smallnorb-{part}.mat.gz", f"{URL}/smallnorb-{part}.mat.gz", f"sha256:{sha256}", size)
    for part, (sha256, size) in PUBLISHED.items()
)


@contextmanager
def _open_matrix(path: Path) -> Iterator[tuple[BoundedStream, np.dtype, tuple[int, ...]]]:
    """A binary matrix opened behind its header, with its type and shape."""
    with open_packed(path) as stream:
        magic, dimensions = struct.unpack("<ii", stream.read_exactly(8))
        if magic not in DTYPES or not 1 <= dimensions <= 8:
            raise DataError(
                f"{path} is not a binary matrix of smallNORB: it begins with {magic}, not "
                "507333717 (bytes) or 507333716 (whole numbers)"
            )
        count = max(3, dimensions)  # at least three sizes are written, the rest of them ones
        sizes = struct.unpack(f"<{count}i", stream.read_exactly(4 * count))
        if min(sizes) < 0:
            raise DataError(f"{path} has the sizes {sizes}; get it again")
        yield stream, np.dtype(DTYPES[magic]), sizes[:dimensions]


def _numbers(path: Path, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """All numbers of a small matrix."""
    with _open_matrix(path) as (stream, dtype, actual):
        valid = dtype.kind == "i" and actual == shape
        _expect(path, valid, f"whole numbers {shape}", dtype, actual)
        content = stream.read_exactly(dtype.itemsize * math.prod(shape))
    return np.frombuffer(content, dtype).reshape(shape).astype(np.int64)


def _expect(path: Path, valid: bool, wanted: str, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if not valid:
        raise DataError(f"{path} must hold {wanted}, not {dtype} {shape}")


def _count(path: Path) -> int:
    """The number of pairs of images in a matrix."""
    with _open_matrix(path) as (_, dtype, shape):
        valid = dtype == np.uint8 and len(shape) == 4 and shape[1:] == (2, SIDE, SIDE)
        _expect(path, valid, f"bytes (24300, 2, {SIDE}, {SIDE})", dtype, shape)
        return shape[0]


def _images(path: Path, size: int) -> Iterator[NDArray[np.uint8]]:
    """Blocks (B, size, size, 1) of the first camera's images."""
    with _open_matrix(path) as (stream, _, (n, *_)):
        for start in range(0, n, BLOCK):
            count = min(BLOCK, n - start)
            content = stream.read_exactly(count * 2 * SIDE * SIDE)
            pairs = np.frombuffer(content, np.uint8).reshape(count, 2, SIDE, SIDE)
            yield np.stack([shrink(image, size) for image in pairs[:, 0]])


def _levels(category: Path, info: Path, count: int) -> NDArray[np.int64]:
    """(N, 4) category, elevation, azimuth and lighting; the instance is left out."""
    kind, pose = _numbers(category, (count,)), _numbers(info, (count, 4))
    table = np.stack([kind, pose[:, 1], pose[:, 2] // 2, pose[:, 3]], axis=1)
    if (table < 0).any() or (table >= FACTORS.sizes).any():
        raise DataError(f"{category} and {info} hold levels that smallNORB does not have")
    return table


def _matrices(folder: Path) -> list[Path]:
    """The six matrices in a folder, compressed or not, in the order of FILES."""
    matrices: list[Path] = []
    for file in FILES:
        places = [folder / file.name, folder / file.name.removesuffix(".gz")]
        matrices += [path for path in places if path.is_file()][:1]
        if not any(path.is_file() for path in places):
            raise DataError(f"{folder} lacks {places[1].name} or {places[0].name}")
    return matrices


@dataset(
    title="smallNORB",
    paper="LeCun et al., 2004",
    url="https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
    licence="research only, not to be sold",
    citation="LeCun, Huang, Bottou, Learning Methods for Generic Object Recognition with Invariance"
    " to Pose and Lighting, CVPR 2004",
    files=FILES,
    standin="shapes3d-render",
    examples="48,600 of 1x64x64",
    factors=FACTORS.names,
)
def smallnorb(
    *, size: Annotated[int, Range(16, SIDE)] = 64, path: str = "", digest: str = ""
) -> Dataset:
    """Photographs of 50 toys (LeCun et al., 2004), downloaded once or from a folder.

    48,600 grey images with four factors: 5 categories, 9 elevations, 18 azimuths and 6 kinds of
    lighting. As in the study of Locatello et al., 2019, both chunks are used, of each pair of
    images only the first camera's, and which of the ten toys of a category is seen is not a
    factor: every combination of levels has ten images.

    Args:
        size: side of the images in pixels, shrunk from 96.
        path: the folder with the six .mat or .mat.gz files; downloaded to the cache when empty.
        digest: of the files, filled in by a run that names a path.
    """
    kind = "folder of smallNORB"
    files = open_files("smallnorb", FILES, path, digest, kind=kind, select=_matrices)
    chunks = [files.paths[:3], files.paths[3:]]
    counts = [_count(images) for images, _, _ in chunks]
    table = np.concatenate(
        [
            _levels(category, info, count)
            for (_, category, info), count in zip(chunks, counts, strict=True)
        ]
    )
    values = stream_pictures(
        "smallnorb",
        f"{files.digest}-{size}",
        (sum(counts), size, size, 1),
        lambda: (block for images, _, _ in chunks for block in _images(images, size)),
    )
    factors = grid_or_table(FACTORS, table)
    return Dataset(Pixels(torch.from_numpy(values)), factors, digest=files.recorded)
