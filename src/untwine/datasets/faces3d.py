"""3D FACES: renderings of the Basel face scans, whose names hold what varies."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import numpy as np

from untwine.data.dataset import Dataset, Factors
from untwine.data.files import File
from untwine.data.pictures import (
    Tree,
    decode_pictures,
    grid_or_table,
    number_levels,
    open_picture_files,
    resize,
    select_images,
)
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

PUBLISHED = re.compile(r"(?P<identity>\d{5}_\d{8}_\d{5})_(?P<view>.+)")
NUMBERED = re.compile(
    r"(?P<identity>\d+)_(?P<azimuth>-?\d+)_(?P<elevation>-?\d+)_(?P<lighting>-?\d+)"
)
TRAIN, TEST, ALL = 256, 9, 270  # of the published renderings, in the UG-VAE paper's code
FILES = (File("faces3d.zip"),)  # no address: the model is available on request, under its own terms


def _parse_names(tree: Tree) -> tuple[tuple[str, ...], list[tuple[str | int, ...]]]:
    """The names of the factors, and a sorted row (*values, name) for every picture."""
    for pattern, convert in ((PUBLISHED, str), (NUMBERED, int)):
        matches = [(pattern.fullmatch(_stem(name)), name) for name in tree.pictures]
        if matches and all(match for match, _ in matches):
            return tuple(pattern.groupindex), sorted(
                (*map(convert, match.groups()), name) for match, name in matches if match
            )
    raise DataError(
        f"{tree.root} must hold pictures that are all named as published, "
        "00001_20061015_00418_VIEW.png, or all IDENTITY_AZIMUTH_ELEVATION_LIGHTING.png in numbers"
    )


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]


def _part_bounds(n: int, split: str) -> tuple[int, int]:
    """Start and end of a part of n pictures, in the proportions of the paper."""
    first, second = n * TRAIN // ALL, n * (TRAIN + TEST) // ALL
    return {"train": (0, first), "test": (first, second), "all": (0, n)}[split]


@dataset(
    title="3D FACES",
    paper="Paysan et al., 2009",
    url="https://faces.dmi.unibas.ch/bfm/",
    licence="non-commercial research, on request from the University of Basel",
    citation="Paysan, Knothe, Amberg, Romdhani, Vetter, A 3D Face Model for Pose and Illumination "
    "Invariant Face Recognition, AVSS 2009",
    files=FILES,
    standin="faces",
)
def faces3d(
    *,
    split: Literal["train", "test", "all"] = "train",
    size: Annotated[int, Range(16, 256)] = 64,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Renderings of face scans with the Basel Face Model (Paysan et al., 2009), from a path.

    The folder of renderings that comes with the model has 270 pictures of 10 people, each under
    27 poses and lights, whose names begin with the number of the scan
    (00001_20061015_00418_VIEW.png): the factors are identity and view. Renderings of your own are
    named IDENTITY_AZIMUTH_ELEVATION_LIGHTING.png, four whole numbers, which are then the factors;
    the beta-TCVAE paper has 50 x 21 x 11 x 11 of them. For training and testing, the UG-VAE
    paper's code takes the first 256 and the next 9 of the 270, in the order of their names; other
    numbers are divided in these shares.

    Args:
        split: the part for training, the part for testing, or all.
        size: side of the images in pixels.
        path: the folder or a .zip of it; looked for in the cache when empty.
        digest: of the names and sizes of the files, filled in by a run that names a path.
    """
    kind = "folder or archive of 3D FACES"
    with open_picture_files("faces3d", FILES, path, digest, kind=kind, unpacked="faces3d") as tree:
        factor_names, pictures = _parse_names(tree)
        *columns, names = map(list, zip(*pictures, strict=True))
        shape = (size, size, 3)
        images = decode_pictures(
            "faces3d", f"{size}", tree, names, shape, lambda image: resize(image, size)
        )
    first, last = _part_bounds(len(names), split)
    if first == last:
        raise DataError(f"{path or tree.root} has too few pictures for a part named {split}")
    sizes, ranks = zip(*(number_levels(column) for column in columns), strict=True)
    table = np.stack(ranks, axis=1)[first:last]
    unordered = tuple(name for name in factor_names if name in ("identity", "view"))
    factors = grid_or_table(Factors(factor_names, sizes, unordered=unordered), table)
    images = select_images(images, np.arange(first, last))
    return Dataset(images, factors, digest=tree.recorded, former_digest=tree.former_digest)
