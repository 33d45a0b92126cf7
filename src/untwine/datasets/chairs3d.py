"""3D Chairs as published: renderings of chairs whose names hold the view."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from untwine.data import Dataset
from untwine.datasets._files import File, cache_directory, check_digest, existing, obtain
from untwine.datasets._pictures import (
    Convert,
    Tree,
    decoded,
    grid_or_table,
    levels,
    on_white,
    opened,
    resized,
    rows,
)
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

if TYPE_CHECKING:
    from PIL.Image import Image

VIEW = re.compile(
    r"(?:.*/)?(?P<model>[^/]+)/renders/image_\d+_p(?P<elevation>\d+)_t(?P<azimuth>\d+)_r\d+\.png"
)
CHOSEN = "models.txt"  # in the folder: the models to use, one a line
COVER = 64  # of 255: how much of a pixel a chair must cover to be in the mask; thin legs stay
FILES = (  # no checksum is published
    File(
        "rendered_chairs.tar",
        "https://www.di.ens.fr/willow/research/seeing3Dchairs/data/rendered_chairs.tar",
    ),
)


def _place(path: str) -> Path:
    """The folder or the archive."""
    if path:
        return existing(path, "folder or archive of 3D Chairs")
    folder = cache_directory() / "rendered_chairs"
    return folder if folder.is_dir() else obtain("chairs3d", FILES)[0]


def _views(tree: Tree) -> list[tuple[str, int, int, str]]:
    """Model, elevation, azimuth and name of every picture, in that order."""
    found = [
        (match["model"], int(match["elevation"]), int(match["azimuth"]), name)
        for name in tree.pictures
        if (match := VIEW.fullmatch(name))
    ]
    chosen = _chosen(tree)
    kept = sorted(view for view in found if not chosen or view[0] in chosen)
    if not kept:
        raise DataError(
            f"{tree.place} holds no renderings named MODEL/renders/image_001_p020_t011_r096.png"
            + (f" of the models in {CHOSEN}" if chosen and found else "")
        )
    return kept


def _chosen(tree: Tree) -> set[str]:
    """The models that a list beside them names; none where there is no list."""
    lists = [name for name in tree.names if name.rpartition("/")[2] == CHOSEN]
    return set(tree.read(lists[0]).decode().split()) if lists else set()


def _converted(kind: str, crop: int, size: int) -> Convert:
    """A rendering's central square as a mask or in colour."""

    def convert(image: Image) -> NDArray[np.uint8]:
        side = crop or min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (
            max(left, 0),
            max(top, 0),
            min(left + side, image.width),
            min(top + side, image.height),
        )
        if kind == "colour":
            return resized(image, size, "RGB", box)
        return np.where(resized(_mask(image), size, "L", box) >= COVER, 255, 0).astype(np.uint8)

    return convert


def _mask(image: Image) -> Image:
    """White where there is something on the white ground."""
    from PIL import Image as images

    colours = np.asarray(on_white(image).convert("RGB"))
    return images.fromarray(np.where((colours < 255).any(-1), 255, 0).astype(np.uint8))


def _part(models: list[str], split: str) -> set[str]:
    """The models of a part: the first four fifths are for training."""
    names = sorted(set(models))
    cut = len(names) * 4 // 5
    return {"train": set(names[:cut]), "test": set(names[cut:]), "all": set(names)}[split]


@dataset(
    title="3D Chairs",
    paper="Aubry et al., 2014",
    url="https://www.di.ens.fr/willow/research/seeing3Dchairs/",
    licence="not stated; for research",
    citation="Aubry, Maturana, Efros, Russell, Sivic, Seeing 3D Chairs: Exemplar Part-based 2D-3D "
    "Alignment using a Large Dataset of CAD Models, CVPR 2014",
    files=FILES,
    standin="shapes3d-render",
    examples="86,366 of 1x64x64",
    factors=(
        "model",
        "elevation",
        "azimuth",
    ),
)
def chairs3d(
    *,
    kind: Literal["mask", "colour"] = "mask",
    split: Literal["train", "test", "all"] = "train",
    size: Annotated[int, Range(16, 256)] = 64,
    crop: Annotated[int, Range(0, 600)] = 400,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Renderings of chairs (Aubry et al., 2014), downloaded once or from a path.

    1,393 models, each from 2 elevations and 31 azimuths. As in the DIP-VAE paper (Kumar et al.,
    2018) images are binary masks, and the first 80 % of the models, in the order of their names,
    are for training. That paper used 809 of the models: a file models.txt in the folder, with one
    name a line, chooses some.

    Args:
        kind: what the images show: binary masks, or the chairs in colour on white.
        split: the first 80 % of the models, the others, or all.
        size: side of the images in pixels.
        crop: side of the central square that is kept of the 600 pixels; 0 keeps all of them.
        path: the folder rendered_chairs or its .tar; downloaded to the cache when empty.
        digest: of the names and sizes of the files, filled in by a run that names a path.
    """
    with opened(_place(path)) as tree:
        found = check_digest(path, digest, tree.digest)
        models, elevations, azimuths, names = map(list, zip(*_views(tree), strict=True))
        shape = (size, size, 1 if kind == "mask" else 3)
        key = f"{kind}-{crop}-{size}"
        images = decoded("chairs3d", key, tree, names, shape, _converted(kind, crop, size))
    chosen = _part(models, split)
    keep = np.flatnonzero([model in chosen for model in models])
    if not len(keep):
        raise DataError(f"{path or tree.place} has too few models for a part named {split}")
    ranks = [levels(np.array(column)[keep]) for column in (models, elevations, azimuths)]
    sizes, columns = zip(*ranks, strict=True)
    factors = grid_or_table(("model", "elevation", "azimuth"), sizes, np.stack(columns, axis=1))
    return Dataset(rows(images, keep), factors, digest=found if path else "")
