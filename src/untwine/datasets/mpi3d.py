"""MPI3D as published: one large .npz of images in the order of their factors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors, Pixels
from untwine.data.files import File, open_files
from untwine.data.incoming.arrays import ArrayHeader, open_arrays
from untwine.data.incoming.bounds import BoundedStream
from untwine.data.pictures import stream_pictures
from untwine.errors import DataError
from untwine.registry import dataset

NAMES = (
    "colour",
    "shape",
    "size",
    "camera height",
    "background",
    "horizontal axis",
    "vertical axis",
)
UNORDERED = ("colour", "shape", "background")
GRIDS = {math.prod(sizes): sizes for sizes in ((6, 6, 2, 3, 3, 40, 40), (4, 4, 2, 3, 3, 40, 40))}
SIMPLE = {
    "colour": ("white", "green", "red", "blue", "brown", "olive"),
    "shape": ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
}
COMPLEX = {
    "colour": ("yellow", "green", "olive", "red"),
    "shape": ("coffee cup", "tennis ball", "croissant", "beer cup"),
}
LEVEL_NAMES = {
    "size": ("small", "large"),
    "camera height": ("top", "centre", "bottom"),
    "background": ("purple", "sea green", "salmon"),
}
BLOCK = 1024  # images
HOME = "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main"
# No checksum is published; the archive carries one of its content, which reading checks.
FILES = {
    variant: File(f"mpi3d_{variant}.npz", f"{HOME}/mpi3d_{variant}.npz", only=f"variant={variant}")
    for variant in ("toy", "realistic", "real")
}


@contextmanager
def _open_images(path: Path) -> Iterator[tuple[BoundedStream, tuple[int, ...]]]:
    """The images of an archive, opened behind the header of their array, and their shape."""
    with open_arrays(path) as arrays:
        if "images" not in arrays:
            raise DataError(f"{path} is not MPI3D: it has no images")
        with arrays.stream("images") as (stream, header):
            yield stream, _check_shape(header, path)


def _check_shape(header: ArrayHeader, path: Path) -> tuple[int, ...]:
    """The shape of the images, if it is one of MPI3D."""
    shape, dtype = header.shape, header.dtype
    square = len(shape) == 4 and shape[1] == shape[2] and shape[3] == 3
    if not square or shape[0] not in GRIDS or dtype != np.uint8 or header.fortran:
        raise DataError(
            f"images in {path} must be bytes (1036800, 64, 64, 3), or (460800, 64, 64, 3) for the "
            f"complex shapes, not {dtype} {shape}"
        )
    return shape


def _blocks(path: Path) -> Iterator[NDArray[np.uint8]]:
    """The images in order, a block at a time."""
    with _open_images(path) as (stream, (n, *rest)):
        for start in range(0, n, BLOCK):
            shape = (min(BLOCK, n - start), *rest)
            yield np.frombuffer(stream.read_exactly(math.prod(shape)), np.uint8).reshape(shape)
        stream.read(1)  # the end, where the archive compares its checksum


@dataset(
    title="MPI3D",
    paper="Gondal et al., 2019",
    url="https://github.com/rr-learning/disentanglement_dataset",
    licence="CC-BY-4.0",
    citation="Gondal et al., On the Transfer of Inductive Bias from Simulation to the Real World: "
    "a New Disentanglement Dataset, NeurIPS 2019",
    files=tuple(FILES.values()),
    standin="shapes3d-render",
    examples="1,036,800 of 3x64x64",
    factors=NAMES,
)
def mpi3d(
    *,
    variant: Literal["toy", "realistic", "real"] = "toy",
    path: str = "",
    digest: str = "",
) -> Dataset:
    """A robot's arm with an object (Gondal et al., 2019), downloaded once or from a path.

    1,036,800 colour images of 64 pixels with seven factors: 6 colours, 6 shapes, 2 sizes, 3
    heights of the camera, 3 backgrounds and 40 x 40 positions of the arm, rendered simply (toy),
    realistically, or photographed (real). The photographs of complex objects, with 4 colours and
    4 shapes, are read from a path. Images are unpacked once into the cache, where they take
    12.7 GB.

    Args:
        variant: which of the published files to use when no path is named.
        path: the file, mpi3d_toy.npz or one of its kind; downloaded to the cache when empty.
        digest: of the file, filled in by a run that names a path.
    """
    hint = "name the file mpi3d_toy.npz or one of its kind"
    published = [FILES[variant]]
    files = open_files("mpi3d", published, path, digest, kind="file of MPI3D", file_hint=hint)
    with _open_images(files.root) as (_, shape):
        images = stream_pictures("mpi3d", files.digest, shape, lambda: _blocks(files.root))
    sizes = GRIDS[shape[0]]
    objects = SIMPLE if sizes[0] == len(SIMPLE["colour"]) else COMPLEX
    factors = Factors(NAMES, sizes, unordered=UNORDERED, level_names=LEVEL_NAMES | objects)
    return Dataset(Pixels(torch.from_numpy(images)), factors, digest=files.recorded)
