"""Picture files in folders and archives, decoded once into an array of bytes."""

from __future__ import annotations

import io
import math
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import filelock
import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from untwine.data import Factors, Pixels
from untwine.datasets._files import cache_directory, digest_of, digest_of_files
from untwine.errors import DataError
from untwine.progress import progress
from untwine.store import write_atomically, write_json

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp"}
BLOCK = 1024  # pictures decoded at a time
THREADS = 4
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError)
SMALL = 1 << 20  # bytes

Box = tuple[float, float, float, float]
Convert = Callable[["Image"], NDArray[np.uint8]]


@dataclass(frozen=True)
class Tree:
    """The files of a folder or an archive by their names, with slashes between folders."""

    place: Path
    names: list[str]  # sorted
    fetch: Callable[[str], bytes]
    digest: str

    def read(self, name: str) -> bytes:
        """The content of a file."""
        try:
            return self.fetch(name)
        except BROKEN as error:
            raise DataError(f"{name} in {self.place} cannot be read: {error}") from error

    @property
    def pictures(self) -> list[str]:
        """The names of the files that are pictures by their ending."""
        return [name for name in self.names if is_picture(name)]


def is_picture(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in ENDINGS


@contextmanager
def opened(place: Path) -> Iterator[Tree]:
    """The files of a folder, a .zip or a .tar; archives are read in place, never unpacked."""
    if place.is_dir():
        yield _folder(place)
        return
    with _archive(place) as archive:
        if isinstance(archive, zipfile.ZipFile):
            names, fetch = archive.namelist(), archive.read
        else:
            names, fetch = _tar_members(archive, place)
        yield Tree(place, sorted(filter(_wanted, names)), fetch, digest_of_files([place]))


def _folder(place: Path) -> Tree:
    """The files below a folder.

    Their digest is of the names and sizes of the pictures, hundreds of thousands of which are not
    to be read again at every start, and of small lists beside them.
    """
    found = sorted(_sizes(place, ""))
    names = [name for name, _ in found]
    listing = "\n".join(f"{name}\t{size}" for name, size in found)
    lists = [name for name, size in found if size <= SMALL and not is_picture(name)]
    contents = ((name, (place / name).read_bytes()) for name in lists)
    digest = digest_of([("", listing.encode()), *contents])
    return Tree(place, names, lambda name: (place / name).read_bytes(), digest)


def _sizes(folder: Path, before: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _sizes(Path(entry.path), f"{before}{entry.name}/")
            elif _wanted(entry.name):
                yield f"{before}{entry.name}", entry.stat().st_size


def _wanted(name: str) -> bool:
    """Whether this is a file that a person put there."""
    hidden = PurePosixPath(name).name.startswith(".") or name.startswith("__MACOSX/")
    return not hidden and not name.endswith("/")


def _archive(place: Path) -> zipfile.ZipFile | tarfile.TarFile:
    try:
        return zipfile.ZipFile(place) if zipfile.is_zipfile(place) else tarfile.open(place, "r:")
    except BROKEN as error:
        raise DataError(f"{place} is not a folder or a whole .zip or .tar of files") from error


def _tar_members(archive: tarfile.TarFile, place: Path) -> tuple[list[str], Callable[[str], bytes]]:
    try:
        members = {member.name.removeprefix("./"): member for member in archive if member.isfile()}
    except BROKEN as error:
        raise DataError(f"{place} ends too early: {error}") from error

    def fetch(name: str) -> bytes:
        stream = archive.extractfile(members[name])
        return stream.read() if stream else b""

    return list(members), fetch


def decoded(
    name: str,
    key: str,
    tree: Tree,
    pictures: Sequence[str],
    shape: tuple[int, ...],
    convert: Convert,
) -> NDArray[np.uint8]:
    """(N, *shape) the pictures of these names as bytes, converted once and memory-mapped.

    Args:
        name: of the dataset.
        key: what tells this conversion from others of the same files.
        tree: where the pictures are.
        pictures: their names.
        shape: (H, W, C) of what `convert` gives.
        convert: an opened picture to its bytes.
    """

    def blocks() -> Iterator[NDArray[np.uint8]]:
        with ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(pictures), BLOCK):
                names = pictures[start : start + BLOCK]
                contents = [tree.read(one) for one in names]
                yield np.stack(list(pool.map(decode, names, contents)))

    def decode(one: str, content: bytes) -> NDArray[np.uint8]:
        return _decode(f"{one} in {tree.place}", content, convert)

    return streamed(name, f"{tree.digest}-{key}", (len(pictures), *shape), blocks)


def _decode(what: str, content: bytes, convert: Convert) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as image:
            return convert(image)
    except DataError as error:
        raise DataError(f"{what} {error}") from None
    except UnidentifiedImageError:
        raise DataError(f"{what} is not a picture; replace it with the published one") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{what} is damaged ({error}); replace it with the published one"
        ) from error


def resized(
    image: Image, size: int, mode: str = "RGB", box: Box | None = None
) -> NDArray[np.uint8]:
    """(size, size, C) the picture, or a box of it, at another size; averaged where it shrinks."""
    from PIL import Image as images

    turned = image if image.mode == mode else on_white(image).convert(mode)
    pixels = np.asarray(turned.resize((size, size), images.Resampling.BILINEAR, box))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def on_white(image: Image) -> Image:
    """The picture with white where it was transparent."""
    from PIL import Image as images

    if image.mode not in {"LA", "La", "RGBA", "RGBa"} and "transparency" not in image.info:
        return image
    over = image.convert("RGBA")
    return images.alpha_composite(images.new("RGBA", over.size, "white"), over)


def shrunk(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """(H, W) or (H, W, 3) bytes to (size, size, C), by Lanczos as in the study of 2019."""
    from PIL import Image as images

    picture = images.fromarray(np.ascontiguousarray(image))
    pixels = np.asarray(picture.resize((size, size), images.Resampling.LANCZOS))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def streamed(
    name: str,
    digest: str,
    shape: tuple[int, ...],
    blocks: Callable[[], Iterable[NDArray[np.uint8]]],
) -> NDArray[np.uint8]:
    """An array of bytes that may be larger than memory: written block by block, memory-mapped.

    It lies in the cache as if `cached` had made it, with the same promises.
    """
    file = cache_directory() / f"{name}-{digest}" / "images.npy"
    found = _mapped(file)
    if found is not None:
        return found
    file.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(file.with_name(".lock")):
        if _mapped(file) is None:
            write_atomically(file, lambda stream: _write(stream, name, shape, blocks()))
            write_json(file.with_name("arrays.json"), ["images"])
    found = _mapped(file)
    if found is None:
        raise DataError(f"the copy of {name} in {file.parent} cannot be read back; delete it")
    return found


def _mapped(file: Path) -> NDArray[np.uint8] | None:
    """The array in a file, if it is there and whole."""
    try:
        return np.load(file, mmap_mode="c")
    except (OSError, ValueError, EOFError):
        return None


def _write(
    stream: IO[bytes], name: str, shape: tuple[int, ...], blocks: Iterable[NDArray[np.uint8]]
) -> None:
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    done = 0
    with progress(shape[0], f"decoding {name}") as show:
        for block in blocks:
            stream.write(np.ascontiguousarray(block).data)
            done += len(block)
            show(done, "")
    if done != shape[0]:
        raise DataError(f"{name} gave {done:,} images where {shape[0]:,} were announced")


def grid_or_table(
    names: tuple[str, ...], sizes: tuple[int, ...], table: NDArray[np.integer]
) -> Factors:
    """The factors of examples with these levels (N, K); without a table where they are the grid."""
    grid = Factors(names, sizes)
    whole = len(table) == math.prod(sizes)
    if whole and np.array_equal(grid.of(np.arange(len(table))), table):
        return grid
    return Factors(names, sizes, table.astype(np.uint8 if max(sizes) <= 256 else np.uint16))


def levels(values: Sequence[Any] | NDArray[Any]) -> tuple[int, NDArray[np.int64]]:
    """How many distinct values there are, and the rank of each example's among them."""
    distinct, rank = np.unique(np.asarray(values), return_inverse=True)
    return len(distinct), rank.astype(np.int64)


def rows(images: NDArray[np.uint8], keep: NDArray[np.int64]) -> Pixels:
    """The images at these positions; a view of the file where they lie side by side."""
    if len(keep) == keep[-1] - keep[0] + 1 and (np.diff(keep) == 1).all():
        return Pixels(torch.from_numpy(images[keep[0] : keep[-1] + 1]))
    return Pixels(torch.from_numpy(images[keep]))
