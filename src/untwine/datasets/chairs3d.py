"""3D Chairs as published: renderings of chairs whose names hold the view."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors
from untwine.data.files import File
from untwine.data.incoming.pictures import convert_picture
from untwine.data.pictures import (
    Convert,
    Tree,
    decode_pictures,
    grid_or_table,
    number_levels,
    on_white,
    open_picture_files,
    resize,
    select_images,
)
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

if TYPE_CHECKING:
    from PIL.Image import Image

NAMES = ("model", "elevation", "azimuth")
VIEW = re.compile(
    r"(?:.*/)?(?P<model>[^/]+)/renders/image_\d+_p(?P<elevation>\d+)_t(?P<azimuth>\d+)_r\d+\.png"
)
MODEL_LIST = "models.txt"  # in the folder: the models to use, one per line
MIN_COVER = 64  # of 255: how much of a pixel a chair must cover; low enough for thin legs
FILES = (  # no checksum is published
    File(
        "rendered_chairs.tar",
        "https://www.di.ens.fr/willow/research/seeing3Dchairs/data/rendered_chairs.tar",
    ),
)


def _views(tree: Tree) -> list[tuple[str, int, int, str]]:
    """Model, elevation, azimuth and name of every picture, in that order."""
    views = [
        (match["model"], int(match["elevation"]), int(match["azimuth"]), name)
        for name in tree.pictures
        if (match := VIEW.fullmatch(name))
    ]
    models = _listed_models(tree)
    selected = sorted(view for view in views if not models or view[0] in models)
    if not selected:
        raise DataError(
            f"{tree.root} holds no renderings named MODEL/renders/image_001_p020_t011_r096.png"
            + (f" of the models in {MODEL_LIST}" if models and views else "")
        )
    return selected


def _listed_models(tree: Tree) -> set[str]:
    """The models named in models.txt; empty without that file."""
    lists = [name for name in tree.names if name.rpartition("/")[2] == MODEL_LIST]
    return set(tree.read(lists[0]).decode(errors="replace").split()) if lists else set()


def _converter(kind: str, crop: int, size: int) -> Convert:
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
            return resize(image, size, "RGB", box)
        return np.where(resize(_mask(image), size, "L", box) >= MIN_COVER, 255, 0).astype(np.uint8)

    return convert


def _mask(image: Image) -> Image:
    """White where the chair is, black on the white background."""
    from PIL import Image as images

    colours = np.asarray(convert_picture(on_white(image), "RGB"))
    return images.fromarray(np.where((colours < 255).any(-1), 255, 0).astype(np.uint8))


def _select_models(models: list[str], split: str) -> set[str]:
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
    factors=NAMES,
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
    source = {"kind": "folder or archive of 3D Chairs", "unpacked": "rendered_chairs"}
    with open_picture_files("chairs3d", FILES, path, digest, **source) as tree:
        models, elevations, azimuths, names = map(list, zip(*_views(tree), strict=True))
        shape = (size, size, 1 if kind == "mask" else 3)
        key = f"{kind}-{crop}-{size}"
        images = decode_pictures("chairs3d", key, tree, names, shape, _converter(kind, crop, size))
    part = _select_models(models, split)
    keep = np.flatnonzero([model in part for model in models])
    if not len(keep):
        raise DataError(f"{path or tree.root} has too few models for a part named {split}")
    ranks = [number_levels(np.array(column)[keep]) for column in (models, elevations, azimuths)]
    sizes, columns = zip(*ranks, strict=True)
    factors = grid_or_table(Factors(NAMES, sizes, unordered=("model",)), np.stack(columns, axis=1))
    return Dataset(
        select_images(images, keep), factors, digest=tree.recorded, former_digest=tree.former_digest
    )
