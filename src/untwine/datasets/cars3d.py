"""Cars3D as published: a MATLAB file of rendered views for each car."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.cache import cached_arrays
from untwine.data.dataset import Dataset, Factors, Pixels
from untwine.data.files import File, open_files
from untwine.data.incoming.archives import stream_tar
from untwine.data.incoming.matlab import read_matlab
from untwine.data.pictures import shrink
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range
from untwine.tools.progress import progress

NAMES = ("elevation", "azimuth", "object")
ELEVATIONS, AZIMUTHS, CARS = 4, 24, 183
SHAPE = (128, 128, 3, AZIMUTHS, ELEVATIONS)  # of `im` in each file
FILES = (
    File(
        "nips2015-analogy-data.tar.gz",
        "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
        "md5:4e866a7919c1beedf53964e6f7a23686",
    ),
)


def _read_archive(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files data/cars/*.mat of the archive, which is not unpacked."""
    for name, content in stream_tar(archive, _is_car):
        yield PurePosixPath(name).name, content


def _is_car(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".mat" and path.parent.name == "cars"


def _select(folder: Path) -> list[Path]:
    """The archive, or the .mat files of the cars in a folder, in cars/ or in data/cars/."""
    if folder.is_file():
        return [folder]
    for place in (folder / "data" / "cars", folder / "cars", folder):
        files = sorted(place.glob("*.mat"))
        if files:
            return files
    raise DataError(f"there are no .mat files in {folder}, nor in cars/ or data/cars/ below it")


def _views(name: str, content: bytes, size: int) -> NDArray[np.uint8]:
    """(4, 24, size, size, 3) the views of one car."""
    views = np.asarray(read_matlab(content, "im", name))
    if views.shape != SHAPE or views.dtype != np.uint8:
        raise DataError(f"im in {name} must be bytes {SHAPE}, not {views.dtype} {views.shape}")
    small = [shrink(view, size) for row in views.transpose(4, 3, 0, 1, 2) for view in row]
    return np.stack(small).reshape(ELEVATIONS, AZIMUTHS, size, size, 3)


def _decode(root: Path, paths: list[Path], size: int) -> dict[str, NDArray[np.uint8]]:
    """The images in the order of the grid, the car fastest."""
    unpacked = ((file.name, file.read_bytes()) for file in paths)
    cars: dict[str, NDArray[np.uint8]] = {}
    with progress(CARS, "decoding cars3d") as show:
        for name, content in _read_archive(root) if root.is_file() else unpacked:
            cars[name] = _views(f"{name} in {root}", content, size)
            show(len(cars), "")
    if len(cars) != CARS:
        raise DataError(f"{root} holds {len(cars)} cars; Cars3D has {CARS}")
    grid = np.stack([cars[name] for name in sorted(cars)], axis=2)
    return {"images": grid.reshape(-1, size, size, 3)}


@dataset(
    title="Cars3D",
    paper="Reed et al., 2015",
    url="https://papers.nips.cc/paper/5845-deep-visual-analogy-making",
    licence="not stated; for research",
    citation="Reed, Zhang, Zhang, Lee, Deep Visual Analogy-Making, NIPS 2015; Fidler, Dickinson, "
    "Urtasun, 3D Object Detection and Viewpoint Estimation, NIPS 2012",
    files=FILES,
    standin="shapes3d-render",
    examples="17,568 of 3x64x64",
    factors=NAMES,
)
def cars3d(
    *, size: Annotated[int, Range(16, 128)] = 64, path: str = "", digest: str = ""
) -> Dataset:
    """Rendered car models (Reed et al., 2015), downloaded once or from a path.

    17,568 colour images with three factors: 4 elevations, 24 azimuths and 183 cars, which are in
    the order of their files' names.

    Args:
        size: side of the images in pixels, shrunk from 128.
        path: the archive nips2015-analogy-data.tar.gz, or a folder with its 183 .mat files;
            downloaded to the cache when empty.
        digest: of the files, filled in by a run that names a path.
    """
    kind = "archive or folder of Cars3D"
    files = open_files("cars3d", FILES, path, digest, kind=kind, select=_select)
    arrays = cached_arrays(
        "cars3d", f"{files.digest}-{size}", lambda: _decode(files.root, files.paths, size)
    )
    factors = Factors(NAMES, (ELEVATIONS, AZIMUTHS, CARS), unordered=("object",))
    return Dataset(Pixels(torch.from_numpy(arrays["images"])), factors, digest=files.recorded)
