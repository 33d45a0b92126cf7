"""Cars (Stanford Cars): photographs of cars, by model."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from untwine.data.dataset import Dataset, Factors
from untwine.data.files import File
from untwine.data.incoming.bounds import refuse_unreadable
from untwine.data.incoming.matlab import read_matlab
from untwine.data.pictures import (
    Tree,
    decode_pictures,
    number_levels,
    open_picture_files,
    resize,
    select_images,
)
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

MODELS = 196
LISTS = {  # beside the pictures as published: which model each shows
    "train": ("cars_train", "cars_train_annos.mat"),
    "test": ("cars_test", "cars_test_annos_withlabels.mat"),
}
FILES = (File("cars.zip"),)  # no address: the pages of 2013 are offline
Labelled = list[tuple[str, int | str]]  # a picture and the model it shows


def _label_pictures(tree: Tree, part: str) -> Labelled:
    """The pictures of a part, by the published lists or by folders named after the models."""
    folder, annotations = LISTS[part]
    lists = [name for name in tree.names if name.rpartition("/")[2] == annotations]
    if lists:
        return _label_by_list(tree, folder, lists[0])
    split = [(name, name.split("/")) for name in tree.pictures]
    return [(name, steps[-2]) for name, steps in split if steps[-3:-2] == [part]]


def _label_by_list(tree: Tree, folder: str, annotations: str) -> Labelled:
    """The pictures of a folder with their models in a published list."""
    labels = _read_annotations(tree, annotations)
    pictures = [name for name in tree.pictures if name.split("/")[-2:-1] == [folder]]
    unknown = [name for name in pictures if name.rpartition("/")[2] not in labels]
    if unknown:
        raise DataError(f"{unknown[0]} in {tree.root} is not in the list {annotations}")
    return [(name, labels[name.rpartition("/")[2]]) for name in pictures]


def _read_annotations(tree: Tree, name: str) -> dict[str, int]:
    """File names to models from 0, from a published MATLAB file."""
    what = f"{name} in {tree.root}"
    rows = read_matlab(tree.read(name), "annotations", what)
    rows = [rows] if isinstance(rows, dict) else rows  # of a list of one
    with refuse_unreadable(f"{what} must hold fname and class of each picture"):
        labels = {str(row["fname"]): int(row["class"]) - 1 for row in rows}
    if not all(0 <= label < MODELS for label in labels.values()):
        raise DataError(f"{name} in {tree.root} names models beyond the {MODELS} of Cars")
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
    kind = "folder or archive of Cars"
    with open_picture_files("cars", FILES, path, digest, kind=kind, unpacked="cars") as tree:
        parts = [_label_pictures(tree, part) for part in LISTS]
        pictures = [labelled for part in parts for labelled in part]
        if not pictures:
            raise DataError(
                f"{tree.root} holds neither cars_train/ with cars_train_annos.mat "
                "nor train/MODEL/ with pictures"
            )
        names, models = map(list, zip(*pictures, strict=True))
        shape = (size, size, 3)
        images = decode_pictures(
            "cars", f"{size}", tree, names, shape, lambda image: resize(image, size)
        )
    part = np.repeat(np.arange(2), [len(part) for part in parts])
    keep = np.flatnonzero(part != {"train": 1, "test": 0, "all": -1}[split])
    if not len(keep):
        raise DataError(f"{path or tree.root} holds no pictures of the part named {split}")
    numbered = isinstance(models[0], int)  # by the published list, from 0 to 195
    if any(isinstance(model, int) != numbered for model in models):
        names = " and ".join(name for _, name in LISTS.values())
        raise DataError(f"{tree.root} holds one of the lists {names}; add the other, or remove it")
    count, levels = (MODELS, np.array(models)) if numbered else number_levels(models)
    table = levels[keep, None].astype(np.uint8 if count <= 256 else np.uint16)
    factors = Factors(("model",), (count,), table, unordered=("model",))
    return Dataset(
        select_images(images, keep), factors, digest=tree.recorded, former_digest=tree.former_digest
    )
