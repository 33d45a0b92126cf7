"""Picture files of the usual formats, decoded within a number of pixels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from untwine.data.incoming.bounds import describe_error, file_size
from untwine.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM")  # none starts another program
KINDS = "a PNG, JPEG, GIF, WebP, BMP, TIFF or PPM file"
MAX_PIXELS = 40_000_000
MAX_BYTES = 2**28
MAX_SCANS = 100  # of a JPEG file; each passes over all pixels, and may take a few bytes
SCAN = b"\xff\xda"  # begins one
MAX_PLAIN_BYTES = 2**22  # of a PPM file in decimal numbers, which are read one by one
PLAIN = (b"P1", b"P2", b"P3")


def read_picture_file(path: Path) -> bytes:
    """The content of a picture file of a plausible size."""
    if file_size(path) > MAX_BYTES:
        raise DataError(f"has more than {MAX_BYTES:,} bytes; use a smaller picture")
    return path.read_bytes()


def decode_picture(content: bytes, *, max_pixels: int = MAX_PIXELS) -> Image:
    """The first image of a picture file, decoded; an error says what it is or has.

    Such a sentence begins with a verb, so that the caller can name the file before it.
    """
    from PIL import Image, UnidentifiedImageError

    _check_work(content)
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        if image.width * image.height > max_pixels:
            raise DataError(
                f"has {image.width} × {image.height} pixels; choose one of at most "
                f"{max_pixels // 10**6} million"
            )
        image.load()
    except DataError:
        raise
    except UnidentifiedImageError:
        raise DataError(f"is not a picture; choose {KINDS}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(
            f"has far too many pixels; choose one of at most {max_pixels // 10**6} million"
        ) from None
    except Exception as error:  # decoders of damaged files raise almost anything
        raise DataError(f"is damaged ({describe_error(error)}); choose another") from None
    return image


def _check_work(content: bytes) -> None:
    """Refuse a file whose decoding takes far longer than its pixels."""
    if content.startswith(b"\xff\xd8") and content.count(SCAN) > MAX_SCANS:
        raise DataError(f"is drawn in more than {MAX_SCANS} passes; save it again")
    if content.startswith(PLAIN) and len(content) > MAX_PLAIN_BYTES:
        raise DataError(
            f"holds more than {MAX_PLAIN_BYTES:,} bytes of decimal numbers; save it in binary"
        )


def convert_picture(image: Image, mode: str) -> Image:
    """The picture in another mode; an error says what it has, as that of `decode_picture`."""
    try:
        return image.convert(mode)
    except (ValueError, OSError):  # Pillow converts some modes, such as LAB, to few others
        raise DataError(f"has pixels of mode {image.mode}; save it in colours or in grey") from None


def turn_upright(image: Image) -> Image:
    """The picture as its metadata says it is held; damaged metadata counts as none."""
    from PIL import ExifTags, ImageOps

    try:
        if image.getexif().get(ExifTags.Base.Orientation, 1) in (0, 1):
            return image
        return ImageOps.exif_transpose(image)
    except Exception:
        return image
