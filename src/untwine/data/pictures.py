"""Picture files in folders and archives, decoded once into an array of bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from untwine.data.cache import (
    cached_files,
    check_digest,
    digest_of,
    digest_of_files,
    digest_of_folder,
    file_state,
    matching_digest,
)
from untwine.data.dataset import Factors, Pixels
from untwine.data.files import File, locate_files
from untwine.data.incoming.archives import open_files
from untwine.data.incoming.bounds import refuse_unreadable
from untwine.data.incoming.pictures import convert_picture, decode_picture, read_picture_file
from untwine.errors import DataError
from untwine.tools.files import write_atomically
from untwine.tools.progress import progress

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp"}
BLOCK = 1024  # pictures decoded at a time
THREADS = 4  # that decode them
MAX_LIST_BYTES = 1 << 20  # larger files count by name and size alone in a digest
Box = tuple[float, float, float, float]
Convert = Callable[["Image"], NDArray[np.uint8]]


@dataclass(frozen=True)
class Tree:
    """The files of a folder or an archive by name, with slashes between folders."""

    root: Path  # the folder or the archive
    names: list[str]  # sorted
    fetch: Callable[[str], bytes]
    digest: str  # of the content
    former_digest: str = ""  # that version 0.1 recorded for a folder: of names and sizes
    recorded: str = ""  # the digest that a run records: empty for published files

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with refuse_unreadable(f"{name} in {self.root} cannot be read"):
            return self.fetch(name)

    def matching(self, recorded: str) -> str:
        """The digest to compare with what a run recorded."""
        return matching_digest(recorded, self.digest, self.former_digest)

    @property
    def pictures(self) -> list[str]:
        """The names of the files with a picture's suffix."""
        return [name for name in self.names if is_picture(name)]


def is_picture(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in SUFFIXES


@contextmanager
def open_tree(root: Path) -> Iterator[Tree]:
    """The files of a folder, a .zip or a .tar; archives are read in place, never unpacked."""
    if root.is_dir():
        yield _open_folder(root)
        return
    with open_files(root) as (names, fetch):
        yield Tree(root, sorted(filter(_is_visible, names)), fetch, digest_of_files([root]))


@contextmanager
def open_picture_files(
    name: str, files: Sequence[File], path: str, digest: str, *, kind: str, unpacked: str
) -> Iterator[Tree]:
    """The pictures behind a dataset; as `open_files`, for a folder or an archive of pictures."""
    with open_tree(locate_files(name, files, path, kind=kind, unpacked=unpacked)[0]) as tree:
        actual = check_digest(path, digest, tree.matching(digest))
        yield replace(tree, recorded=actual if path else "")


def _open_folder(root: Path) -> Tree:
    """The files below a folder.

    The former digest covers the names and sizes of all files and the content of small lists.
    """
    files = sorted(_list_files(root, ""))
    listing = "\n".join(f"{name}\t{size}" for name, size, _ in files)
    lists = [name for name, size, _ in files if size <= MAX_LIST_BYTES and not is_picture(name)]
    contents = ((name, (root / name).read_bytes()) for name in lists)
    former = digest_of([("", listing.encode(errors="surrogateescape")), *contents])
    states = {name: state for name, _, state in files}
    content = digest_of_folder(root, states)
    return Tree(root, [*states], lambda name: read_picture_file(root / name), content, former)


def _list_files(
    folder: Path, prefix: str, above: tuple[tuple[int, int], ...] = ()
) -> Iterator[tuple[str, int, str]]:
    """Name, size in bytes and state of every visible file below a folder.

    Folders behind links count too, unless such a link leads back to a folder above it.
    """
    state = folder.stat()
    if (state.st_dev, state.st_ino) in above:
        raise DataError(f"{folder} is a link to a folder that contains it; remove it")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                inside = (*above, (state.st_dev, state.st_ino))
                yield from _list_files(Path(entry.path), f"{prefix}{entry.name}/", inside)
            elif _is_visible(entry.name) and entry.is_file():
                yield f"{prefix}{entry.name}", entry.stat().st_size, file_state(entry)


def _is_visible(name: str) -> bool:
    """Whether this names a file that is neither hidden nor added by an operating system."""
    hidden = PurePosixPath(name).name.startswith(".") or name.startswith("__MACOSX/")
    return not hidden and not name.endswith("/")


def decode_pictures(
    name: str,
    key: str,
    tree: Tree,
    pictures: Sequence[str],
    shape: tuple[int, ...],
    convert: Convert,
) -> NDArray[np.uint8]:
    """(N, *shape) bytes of the pictures of these names, converted once and memory-mapped.

    Args:
        name: of the dataset.
        key: tells this conversion from others of the same files.
        tree: the folder or archive of the pictures.
        pictures: their names.
        shape: (H, W, C) of a converted picture.
        convert: from an opened picture to its bytes.
    """

    def blocks() -> Iterator[NDArray[np.uint8]]:
        with ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(pictures), BLOCK):
                names = pictures[start : start + BLOCK]
                contents = [tree.read(one) for one in names]
                yield np.stack(list(pool.map(decode, names, contents)))

    def decode(one: str, content: bytes) -> NDArray[np.uint8]:
        return _decode(f"{one} in {tree.root}", content, convert)

    return stream_pictures(name, f"{tree.digest}-{key}", (len(pictures), *shape), blocks)


def _decode(what: str, content: bytes, convert: Convert) -> NDArray[np.uint8]:
    try:
        return convert(decode_picture(content))
    except DataError as error:
        raise DataError(f"{what} {error}") from None


def resize(image: Image, size: int, mode: str = "RGB", box: Box | None = None) -> NDArray[np.uint8]:
    """(size, size, C) bytes of the picture, or of a box of it, resized bilinearly."""
    from PIL import Image as images

    converted = image if image.mode == mode else convert_picture(on_white(image), mode)
    pixels = np.asarray(converted.resize((size, size), images.Resampling.BILINEAR, box))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def on_white(image: Image) -> Image:
    """The picture on a white background where it was transparent."""
    from PIL import Image as images

    if image.mode not in {"LA", "La", "RGBA", "RGBa"} and "transparency" not in image.info:
        return image
    over = convert_picture(image, "RGBA")
    return images.alpha_composite(images.new("RGBA", over.size, "white"), over)


def shrink(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """(H, W) or (H, W, 3) bytes to (size, size, C), with the Lanczos filter of Locatello et al."""
    from PIL import Image as images

    picture = images.fromarray(np.ascontiguousarray(image))
    pixels = np.asarray(picture.resize((size, size), images.Resampling.LANCZOS))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def stream_pictures(
    name: str,
    digest: str,
    shape: tuple[int, ...],
    blocks: Callable[[], Iterable[NDArray[np.uint8]]],
) -> NDArray[np.uint8]:
    """A memory-mapped array of bytes, written block by block as it may be larger than memory.

    It is stored in the cache as by `cached_arrays`, with the same guarantees.
    """

    def write(folder: Path) -> list[str]:
        file = folder / "images.npy"
        write_atomically(file, lambda stream: _write(stream, name, shape, blocks()))
        return ["images"]

    return cached_files(name, digest, write)["images"]


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


def grid_or_table(grid: Factors, table: NDArray[np.integer]) -> Factors:
    """The factors of examples with these (N, K) levels; without a table if they are the grid."""
    complete = len(table) == math.prod(grid.sizes)
    if complete and np.array_equal(grid.levels_at(np.arange(len(table))), table):
        return grid
    small = np.uint8 if max(grid.sizes) <= 256 else np.uint16
    return replace(grid, table=table.astype(small))


def number_levels(values: Sequence[Any] | NDArray[Any]) -> tuple[int, NDArray[np.int64]]:
    """The number of distinct values, and (N,) the rank of each value among them."""
    distinct, rank = np.unique(np.asarray(values), return_inverse=True)
    return len(distinct), rank.astype(np.int64)


def select_images(images: NDArray[np.uint8], keep: NDArray[np.int64]) -> Pixels:
    """The images at these positions; a view of the file if the positions are consecutive."""
    if len(keep) == keep[-1] - keep[0] + 1 and (np.diff(keep) == 1).all():
        return Pixels(torch.from_numpy(images[keep[0] : keep[-1] + 1]))
    return Pixels(torch.from_numpy(images[keep]))
