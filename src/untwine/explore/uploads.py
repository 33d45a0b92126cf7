"""A picture file made to fit a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.incoming.pictures import KINDS, convert_picture, decode_picture, turn_upright
from untwine.errors import DataError, IncompatibleError

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_UPLOAD_PIXELS = 40_000_000
ROWS_AT_ONCE = 64
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def fit_to_model(content: bytes, shape: torch.Size) -> tuple[Tensor, str]:
    """Return (C, H, W) pixels in [0, 1] of a picture file, and a note on the changes made.

    The picture is turned upright, cropped to the proportions of the model's images and resized.
    """
    channels, height, width = shape
    if channels not in MODES:
        raise IncompatibleError(
            f"this model takes images of {channels} channels, which no picture file has; "
            "start from an example instead"
        )
    image = _read_image(content)
    done: list[str] = []
    image = _apply_orientation(image, done)
    image = _crop(image, height, width, done)
    image = _convert(image, MODES[channels], done)
    if image.size != (width, height):
        done.append(f"resized from {image.width} × {image.height} to {width} × {height} pixels")
        image = _resize(image, width, height)
    pixels = np.array(image, np.float32).reshape(height, width, channels) / 255
    note = f"The picture was {_list_words(done)}." if done else ""
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), note


def _read_image(content: bytes) -> Image:
    """The first image of a picture file."""
    if not content:
        raise DataError(f"the upload is empty; choose {KINDS}")
    try:
        return decode_picture(content, max_pixels=MAX_UPLOAD_PIXELS)
    except DataError as error:
        raise DataError(f"the picture {error}") from None


def _apply_orientation(image: Image, done: list[str]) -> Image:
    """Turn an image upright as its metadata says."""
    upright = turn_upright(image)
    if upright is not image:
        done.append("turned upright")
    return upright


def _crop(image: Image, height: int, width: int, done: list[str]) -> Image:
    """Crop to the largest central part in the proportions of height and width."""
    scale = min(image.width / width, image.height / height)
    across, down = max(1, round(scale * width)), max(1, round(scale * height))
    if (across, down) == image.size:
        return image
    done.append("cropped to its middle")
    left, top = (image.width - across) // 2, (image.height - down) // 2
    return image.crop((left, top, left + across, top + down))


def _convert(image: Image, mode: str, done: list[str]) -> Image:
    """Convert to 8 bits per channel; transparent parts become black if the mode has no alpha."""
    if image.mode.startswith("I;16") or image.mode in {"I", "F"}:
        image = _to_eight_bits(image)
        done.append("scaled to 8 bits")
    transparent = image.mode in {"LA", "La", "RGBA", "RGBa"} or "transparency" in image.info
    if transparent and mode != "RGBA":
        image = _lay_on_black(image, mode)
        done.append("laid on black")
    elif image.mode not in {mode, "1", "L"} and mode == "L":
        done.append("made grey")
    return _as_mode(image, mode)


def _lay_on_black(image: Image, mode: str) -> Image:
    """The picture in another mode, on black where it is transparent; some rows at a time."""
    from PIL import Image as images

    flat = images.new(mode, image.size)
    for top in range(0, image.height, ROWS_AT_ONCE):
        box = (0, top, image.width, min(top + ROWS_AT_ONCE, image.height))
        over = _as_mode(image.crop(box), "RGBA")
        black = images.new("RGBA", over.size, "black")
        flat.paste(_as_mode(images.alpha_composite(black, over), mode), box)
    return flat


def _as_mode(image: Image, mode: str) -> Image:
    try:
        return convert_picture(image, mode)
    except DataError as error:
        raise DataError(f"the picture {error}") from None


def _to_eight_bits(image: Image) -> Image:
    """Convert a grey image of more than 8 bits; 32-bit images are scaled by their own range."""
    from PIL import Image as images

    values = np.asarray(image)
    low, high = 0.0, 65535.0
    if not image.mode.startswith("I;16"):
        ends = [(b.min(), b.max()) for b in map(_finite, _blocks(values))]
        low, high = float(min(ends)[0]), float(max(end for _, end in ends))
    scaled = np.empty(values.shape, np.uint8)
    for block, out in zip(_blocks(values), _blocks(scaled), strict=True):
        out[:] = ((_finite(block) - low) / ((high - low) or 1.0) * 255).round()
    return images.fromarray(scaled)


def _blocks(values: NDArray[Any]) -> list[NDArray[Any]]:
    """Some rows at a time, so that few of many pixels are held in double precision."""
    return [values[row : row + ROWS_AT_ONCE] for row in range(0, len(values), ROWS_AT_ONCE)]


def _finite(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.nan_to_num(values.astype(np.float64))


def _resize(image: Image, width: int, height: int) -> Image:
    from PIL.Image import Resampling

    return image.resize(
        (width, height), Resampling.BOX if image.width > width else Resampling.BICUBIC
    )


def _list_words(words: list[str]) -> str:
    """Join words with commas and a final "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
