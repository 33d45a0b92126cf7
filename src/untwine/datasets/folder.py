"""Your own images: a folder of picture files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.arrays import factor_table
from untwine.data.cache import check_digest, digest_of_paths
from untwine.data.dataset import Dataset, Factors, Pixels
from untwine.data.files import existing_path
from untwine.data.incoming.pictures import (
    convert_picture,
    decode_picture,
    read_picture_file,
    turn_upright,
)
from untwine.errors import DataError, ParameterError
from untwine.registry import dataset
from untwine.schema import Natural
from untwine.tools.terminal import warn

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
MAX_LINES = 5  # of files that cannot be used, in an error
REDUCING_GAP = 2.0  # Pillow's, which makes large pictures small in two steps
MODE_OF_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
Pictures = list[tuple[Path, NDArray[np.uint8]]]
Fit = Literal["squash", "crop", "pad"]
Filter = Literal["box", "nearest", "bilinear", "hamming", "bicubic", "lanczos"]


@dataclass(frozen=True)
class Conversion:
    """How a picture becomes an example."""

    size: int
    channels: int
    fit: Fit
    filter: Filter

    def resize(self, image: Image) -> Image:
        """The picture as a square of this size; as it is for size 0."""
        from PIL import Image as images

        side, (width, height) = self.size, image.size
        if not side or (width, height) == (side, side):
            return image
        method = images.Resampling[self.filter.upper()]
        if self.fit == "pad":
            scale = side / max(width, height)
            inner = max(1, round(scale * width)), max(1, round(scale * height))
            shrunk = image.resize(inner, method, reducing_gap=REDUCING_GAP)
            square = images.new(image.mode, (side, side))  # black, or transparent
            square.paste(shrunk, ((side - inner[0]) // 2, (side - inner[1]) // 2))
            return square
        short = min(width, height)
        left, top = (width - short) // 2, (height - short) // 2
        box = (left, top, left + short, top + short) if self.fit == "crop" else None
        return image.resize((side, side), method, box, reducing_gap=REDUCING_GAP)


def _decode(path: Path, conversion: Conversion) -> NDArray[np.uint8] | str:
    """(H, W, C) bytes of a picture, upright and resized, or why it cannot be used."""
    try:
        image = _eight_bits(turn_upright(decode_picture(read_picture_file(path))))
        grey = image.mode in {"1", "L", "LA", "La"}
        usual = "L" if grey else "RGB"
        mode = MODE_OF_CHANNELS[conversion.channels] if conversion.channels else usual
        pixels = np.asarray(conversion.resize(_convert_mode(image, mode)))
    except DataError as error:
        return str(error)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _eight_bits(image: Image) -> Image:
    """The picture with 8 bits per channel; refuse one whose range is unknown."""
    from PIL import Image as images

    if image.mode.startswith("I;16"):
        return images.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in {"I", "F"}:
        raise DataError(
            f"{image.mode} pixels of 32 bits, whose range is unknown; save 8 or 16 bits"
        )
    return image


def _convert_mode(image: Image, mode: str) -> Image:
    """The picture in another mode; without an alpha channel, transparent pixels become black."""
    from PIL import Image as images

    transparent = image.mode in {"LA", "La", "RGBA", "RGBa"} or "transparency" in image.info
    if transparent and mode != "RGBA":
        over = convert_picture(image, "RGBA")
        image = images.alpha_composite(images.new("RGBA", over.size, "black"), over)
    return convert_picture(image, mode)


def _file_errors(root: Path, problems: list[str], remedy: str) -> DataError:
    lines = "\n".join(f"  {line}" for line in problems[:MAX_LINES])
    more = f"\n  and {len(problems) - MAX_LINES:,} more" if len(problems) > MAX_LINES else ""
    text = f"{len(problems):,} of the files in {root} cannot be used; {remedy}\n{lines}{more}"
    return DataError(text)


def _read(root: Path, files: list[Path], skip: bool, conversion: Conversion) -> Pictures:
    read = [(file, _decode(file, conversion)) for file in files]
    bad = [f"{file.relative_to(root)}: {why}" for file, why in read if isinstance(why, str)]
    if bad and not skip:
        raise _file_errors(root, bad, "mend or remove them, or leave them out with --set skip=true")
    good = [(file, pixels) for file, pixels in read if not isinstance(pixels, str)]
    if not good:
        raise DataError(f"there are no pictures in {root} (endings: {' '.join(sorted(SUFFIXES))})")
    depth = max(pixels.shape[-1] for _, pixels in good)
    return [(file, p if p.shape[-1] == depth else p.repeat(depth, -1)) for file, p in good]


def _classes(root: Path, names: list[str]) -> Factors | None:
    """The sub-folder of each picture as the level of one factor; None without sub-folders."""
    folders = [PurePath(name).parts[0] if len(PurePath(name).parts) > 1 else "" for name in names]
    levels = sorted({*folders} - {""})
    if not levels:
        warn(f"{root} has no sub-folders, so its pictures have no labels")
        return None
    if "" in folders:
        raise DataError(
            f"{folders.count('')} pictures in {root} lie in none of its sub-folders, such as "
            f"{names[folders.index('')]}; move them into one, or leave out --set labels=folders"
        )
    table = np.array([[levels.index(folder)] for folder in folders])
    return factor_table(table, len(names), ("class",), ("class",), {"class": tuple(levels)})


@dataset(title="A folder of images", paper="your own data")
def folder(
    *,
    path: str = ".",
    size: Natural = 0,
    channels: Literal[0, 1, 3, 4] = 0,
    fit: Fit = "squash",
    filter: Filter = "box",
    labels: Literal["none", "folders"] = "none",
    skip: bool = False,
    digest: str = "",
) -> Dataset:
    """Pictures from a folder and the folders below it, in the order of their names; your own data.

    All must have one size, or be resized on request. Grey pictures have one channel, others three;
    16 bits become 8, and transparent pixels show black unless four channels are asked for.

    Args:
        path: the folder.
        size: resize every picture to this many pixels a side; 0 leaves them as they are.
        channels: 1 grey, 3 colour, 4 with transparency; 0 as in the files.
        fit: how a picture becomes square: squash it, crop its centre, or pad it with black.
        filter: that resizes pictures, as Pillow calls it.
        labels: folders, to take the sub-folder of each picture as its class.
        skip: leave out files that cannot be read, instead of refusing them.
        digest: of the files, filled in by a run.
    """
    if fit != "squash" and not size:
        raise ParameterError(f"fit={fit} needs the size of the square; set size=64, for example")
    root = existing_path(path, "folder")
    files = sorted(f for f in root.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
    named = ((str(file.relative_to(root)), file) for file in files)
    content_digest = check_digest(path, digest, digest_of_paths(named))
    pictures = _read(root, files, skip, Conversion(size, channels, fit, filter))
    shapes = [pixels.shape for _, pixels in pictures]
    usual = max(shapes, key=shapes.count)
    odd = [
        f"{file.relative_to(root)}: {pixels.shape[1]}x{pixels.shape[0]} pixels"
        for file, pixels in pictures
        if pixels.shape != usual
    ]
    if odd:
        others = f"the others are {usual[1]}x{usual[0]}; resize all with --set size=64"
        raise _file_errors(root, odd, others)
    stacked = np.stack([pixels for _, pixels in pictures])
    # A name that is not UTF-8 is shown with \x.. for its stray bytes.
    names = [
        bytes(file.relative_to(root)).decode(errors="backslashreplace") for file, _ in pictures
    ]
    return Dataset(
        Pixels(torch.from_numpy(stacked)),
        _classes(root, names) if labels == "folders" else None,
        example_names=names,
        preparation={"size": size, "resize": filter, "aspect": fit, "scale": "bytes / 255"},
        digest=content_digest,
    )
