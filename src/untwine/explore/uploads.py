"""A picture from anywhere, made to fit what a model takes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.errors import DataError, IncompatibleError

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM")
MOST_PIXELS = 40_000_000
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
KINDS = "a PNG, JPEG, GIF, WebP, BMP or TIFF file"


def fitted(content: bytes, shape: torch.Size) -> tuple[Tensor, str]:
    """(C, H, W) numbers in [0, 1] of a picture file, and in words what was done to it.

    Turned upright, its middle cut out in the proportions of the model's images, and resized.
    """
    channels, height, width = shape
    if channels not in MODES:
        raise IncompatibleError(
            f"this model takes images of {channels} channels, which no picture file has; "
            "start from an example instead"
        )
    image = _read(content)
    done: list[str] = []
    image = _upright(image, done)
    image = _cropped(image, height, width, done)
    image = _in_mode(image, MODES[channels], done)
    if image.size != (width, height):
        done.append(f"resized from {image.width} × {image.height} to {width} × {height} pixels")
        image = _resized(image, width, height)
    pixels = np.array(image, np.float32).reshape(height, width, channels) / 255
    note = f"The picture was {_listed(done)}." if done else ""
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), note


def _read(content: bytes) -> Image:
    """The first picture of a file."""
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise DataError(f"the upload is empty; choose {KINDS}")
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        if image.width * image.height > MOST_PIXELS:
            raise DataError(_too_large(f"{image.width} × {image.height} pixels"))
        image.load()
    except DataError:
        raise
    except UnidentifiedImageError:
        raise DataError(f"the upload is not a picture; choose {KINDS}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(_too_large("far more pixels")) from None
    except Exception as error:  # decoders of damaged files raise almost anything
        raise DataError(f"the picture is damaged ({error}); choose another") from None
    return image


def _too_large(found: str) -> str:
    return f"the picture has {found}; choose one of at most {MOST_PIXELS // 10**6} million"


def _upright(image: Image, done: list[str]) -> Image:
    """Turned as its camera says."""
    from PIL import ExifTags, ImageOps

    try:
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) not in (0, 1)
        upright = ImageOps.exif_transpose(image)
    except Exception:  # damaged facts about a whole picture
        return image
    if turned:
        done.append("turned upright")
    return upright


def _cropped(image: Image, height: int, width: int, done: list[str]) -> Image:
    """The largest middle part in the proportions of height and width."""
    scale = min(image.width / width, image.height / height)
    across, down = max(1, round(scale * width)), max(1, round(scale * height))
    if (across, down) == image.size:
        return image
    done.append("cropped to its middle")
    left, top = (image.width - across) // 2, (image.height - down) // 2
    return image.crop((left, top, left + across, top + down))


def _in_mode(image: Image, mode: str, done: list[str]) -> Image:
    """8 bits a channel, grey, coloured or with transparency; without, it shows black."""
    from PIL import Image as images

    if image.mode.startswith("I;16") or image.mode in {"I", "F"}:
        image = _eight_bits(image)
        done.append("scaled to 8 bits")
    transparent = image.mode in {"LA", "La", "RGBA", "RGBa"} or "transparency" in image.info
    if transparent and mode != "RGBA":
        over = image.convert("RGBA")
        image = images.alpha_composite(images.new("RGBA", over.size, "black"), over)
        done.append("laid on black")
    elif image.mode not in {mode, "1", "L"} and mode == "L":
        done.append("made grey")
    return image.convert(mode)


def _eight_bits(image: Image) -> Image:
    """A grey picture of more than 8 bits; 32 have no usual range, so that its own is taken."""
    from PIL import Image as images

    values: NDArray[np.float64] = np.nan_to_num(np.asarray(image, np.float64))
    if image.mode.startswith("I;16"):
        low, high = 0.0, 65535.0
    else:
        low, high = float(values.min()), float(values.max())
    scaled = (values - low) / ((high - low) or 1.0) * 255
    return images.fromarray(scaled.round().astype(np.uint8))


def _resized(image: Image, width: int, height: int) -> Image:
    from PIL.Image import Resampling

    return image.resize(
        (width, height), Resampling.BOX if image.width > width else Resampling.BICUBIC
    )


def _listed(words: list[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
