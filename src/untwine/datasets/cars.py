"""Cars (Stanford Cars): photographs of cars, by model."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from untwine.data import Dataset, Factors
from untwine.datasets._files import File, cache_directory, check_digest, existing, obtain
from untwine.datasets._pictures import Tree, decoded, levels, opened, resized, rows
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

MODELS = 196
LISTS = {  # beside the pictures as published: which model each shows
    "train": ("cars_train", "cars_train_annos.mat"),
    "test": ("cars_test", "cars_test_annos_withlabels.mat"),
}
FILES = (File("cars.zip"),)  # no address: the pages of 2013 are gone

Labelled = list[tuple[str, int | str]]  # a picture and the model it shows


def _place(path: str) -> Path:
    """The folder or the archive."""
    if path:
        return existing(path, "folder or archive of Cars")
    folder = cache_directory() / "cars"
    return folder if folder.is_dir() else obtain("cars", FILES)[0]


def _labelled(tree: Tree, part: str) -> Labelled:
    """The pictures of a part, by the published lists or by folders named after the models."""
    folder, annotations = LISTS[part]
    lists = [name for name in tree.names if name.rpartition("/")[2] == annotations]
    if lists:
        return _listed(tree, folder, lists[0])
    parted = [(name, name.split("/")) for name in tree.pictures]
    return [(name, bits[-2]) for name, bits in parted if bits[-3:-2] == [part]]


def _listed(tree: Tree, folder: str, annotations: str) -> Labelled:
    """The pictures of a folder with the models that a published list gives them."""
    labels = _annotations(tree, annotations)
    found = [name for name in tree.pictures if name.split("/")[-2:-1] == [folder]]
    unknown = [name for name in found if name.rpartition("/")[2] not in labels]
    if unknown:
        raise DataError(f"{unknown[0]} in {tree.place} is not in the list {annotations}")
    return [(name, labels[name.rpartition("/")[2]]) for name in found]


def _annotations(tree: Tree, name: str) -> dict[str, int]:
    """File names to models from 0, from a published MATLAB file."""
    from scipy.io import loadmat

    try:
        held = loadmat(io.BytesIO(tree.read(name)), simplify_cells=True)["annotations"]
        listed = [held] if isinstance(held, dict) else held  # a list of one loses its brackets
        labels = {str(row["fname"]): int(row["class"]) - 1 for row in listed}
    except DataError:
        raise
    except Exception as error:  # scipy raises as many kinds as there are ways to damage a file
        raise DataError(
            f"{name} in {tree.place} is not a MATLAB file with fname and class of each picture"
        ) from error
    if not all(0 <= label < MODELS for label in labels.values()):
        raise DataError(f"{name} in {tree.place} names models beyond the {MODELS} of Cars")
    return labels


@dataset(
    title="Cars",
    paper="Krause et al., 2013",
    url="https://www.cv-foundation.org/openaccess/content_iccv_workshops_2013/W19/html/"
    "Krause_3D_Object_Representations_2013_ICCV_paper.html",
    licence="non-commercial research",
    citation="Krause, Stark, Deng, Fei-Fei, 3D Object Representations for Fine-Grained "
    "Categorization, 3dRR 2013",
    files=FILES,
    standin="shapes3d-render",
    examples="16,185 of 3x64x64",
    factors=("model",),
)
def cars(
    *,
    split: Literal["train", "test", "all"] = "train",
    size: Annotated[int, Range(16, 256)] = 64,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Photographs of 196 models of cars (Krause et al., 2013), from a path.

    16,185 colour pictures, 8,144 of them for training, with one factor, the model. They are read
    as published, cars_train/00001.jpg and cars_test/00001.jpg with the lists
    cars_train_annos.mat and cars_test_annos_withlabels.mat anywhere beside them, or as others
    hand them on, train/MODEL/00001.jpg and test/MODEL/00001.jpg. Pictures become square without
    regard to their proportions, as in the UG-VAE paper's code.

    Args:
        split: the published part for training, the one for testing, or both.
        size: side of the images in pixels.
        path: the folder or a .zip of it; looked for in the cache when empty.
        digest: of the names and sizes of the files, filled in by a run that names a path.
    """
    with opened(_place(path)) as tree:
        found = check_digest(path, digest, tree.digest)
        parts = [_labelled(tree, part) for part in LISTS]
        pictures = [labelled for part in parts for labelled in part]
        if not pictures:
            raise DataError(
                f"{tree.place} holds neither cars_train/ with cars_train_annos.mat "
                "nor train/MODEL/ with pictures"
            )
        names, shown = map(list, zip(*pictures, strict=True))
        shape = (size, size, 3)
        images = decoded("cars", f"{size}", tree, names, shape, lambda image: resized(image, size))
    part = np.repeat(np.arange(2), [len(part) for part in parts])
    keep = np.flatnonzero(part != {"train": 1, "test": 0, "all": -1}[split])
    if not len(keep):
        raise DataError(f"{path or tree.place} holds no pictures of the part named {split}")
    count, models = (MODELS, np.array(shown)) if isinstance(shown[0], int) else levels(shown)
    table = models[keep, None].astype(np.uint8 if count <= 256 else np.uint16)
    known = Factors(("model",), (count,), table)
    return Dataset(rows(images, keep), known, digest=found if path else "")
