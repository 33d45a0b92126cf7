"""Your own images: a folder of picture files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data import Dataset, Pixels
from untwine.datasets._files import check_digest, digest_of, existing
from untwine.errors import DataError, ParameterError
from untwine.registry import dataset

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def _open(path: Path) -> Image | str:
    """The picture, or why it cannot be read."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return image.copy()
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError) as error:
        return "not a picture" if isinstance(error, UnidentifiedImageError) else str(error)


def _complain(root: Path, problems: list[str], remedy: str) -> DataError:
    lines = "\n".join(f"  {line}" for line in problems[:20])
    more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
    return DataError(
        f"{len(problems)} of the files in {root} cannot be used; {remedy}\n{lines}{more}"
    )


def _read(root: Path, files: list[Path], skip: bool) -> list[tuple[Path, Image]]:
    read = [(file, _open(file)) for file in files]
    bad = [f"{file.relative_to(root)}: {why}" for file, why in read if isinstance(why, str)]
    if bad and not skip:
        raise _complain(root, bad, "mend or remove them, or leave them out with --set skip=true")
    good = [(file, image) for file, image in read if not isinstance(image, str)]
    if not good:
        raise DataError(f"there are no pictures in {root} (endings: {' '.join(sorted(ENDINGS))})")
    return good


def _channels(images: list[Image], wanted: int) -> int:
    """As asked for, else colour where any picture has colour."""
    if wanted:
        return wanted
    return 1 if all(image.mode in {"1", "L", "LA", "I", "I;16", "F"} for image in images) else 3


def _array(image: Image, mode: str, size: int) -> NDArray[np.uint8]:
    from PIL import Image

    image = image.convert(mode)
    if size and image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BOX, reducing_gap=2.0)
    pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels


@dataset(title="A folder of images", paper="your own data")
def folder(
    *, path: str = ".", size: int = 0, channels: int = 0, skip: bool = False, digest: str = ""
) -> Dataset:
    """Pictures from a folder and the folders below it, in the order of their names; your own data.

    All must have one size, or be resized on request. Grey pictures have one channel, others three.

    Args:
        path: the folder.
        size: resize every picture to this many pixels a side; 0 leaves them as they are.
        channels: 1 grey, 3 colour, 4 with transparency; 0 as in the files.
        skip: leave out files that cannot be read, instead of refusing them.
        digest: of the files, filled in by a run.
    """
    if channels not in {0, *MODES}:
        raise ParameterError(f"folder.channels must be 0, 1, 3 or 4, not {channels}")
    root = existing(path, "folder")
    files = sorted(file for file in root.rglob("*") if file.suffix.lower() in ENDINGS)
    content = ((str(file.relative_to(root)), file.read_bytes()) for file in files)
    found = check_digest(path, digest, digest_of(content))
    read = _read(root, files, skip)
    mode = MODES[_channels([image for _, image in read], channels)]
    arrays = [_array(image, mode, size) for _, image in read]
    usual = max(shapes := [a.shape for a in arrays], key=shapes.count)
    odd = [
        f"{file.relative_to(root)}: {a.shape[1]}x{a.shape[0]} pixels"
        for (file, _), a in zip(read, arrays, strict=True)
        if a.shape != usual
    ]
    if odd:
        others = f"the others are {usual[1]}x{usual[0]}; resize all with --set size=64"
        raise _complain(root, odd, others)
    return Dataset(Pixels(torch.from_numpy(np.stack(arrays))), digest=found)
