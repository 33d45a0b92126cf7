"""CelebA: photographs of faces with forty attributes, from a local copy."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from untwine.data.cache import (
    CONTENT_PREFIX,
    cache_directory,
    cached_arrays,
    check_digest,
    digest_of,
    digest_of_files,
    matching_digest,
)
from untwine.data.dataset import PRESENCE, Dataset, Factors
from untwine.data.files import File, existing_path, obtain
from untwine.data.incoming.arrays import open_arrays
from untwine.data.incoming.bounds import read_text, refuse_unreadable
from untwine.data.pictures import Box, Convert, decode_pictures, open_tree, resize, select_images
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

if TYPE_CHECKING:
    from PIL.Image import Image

WIDTH, HEIGHT = 178, 218  # of the aligned pictures
ATTRIBUTES = 40
MAX_LIST_BYTES = 2**28
PARTS = ("train", "validation", "test")
LABELS, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
COMPACT_LABELS = "celeba_attrs_known.npz"  # of a smaller copy
FILES = (  # no address: the site asks for consent
    File("celeba/img_align_celeba.zip", "", "md5:00d2c5bc6d35e252742224ab0c1e8fcb"),
    File(f"celeba/{LABELS}", "", "md5:75e246fa4810816ffd6ee81facbd244c"),
    File(f"celeba/{PARTITION}", "", "md5:d32c9cbf5e040fd4025c592c306e6668"),
)


@dataclass(frozen=True)
class Labels:
    """The tables of attributes and parts."""

    names: NDArray[np.str_]  # (N,) of the files
    attributes: tuple[str, ...]
    values: NDArray[np.uint8]  # (N, 40) zeros and ones
    part: NDArray[np.uint8]  # (N,) 0 training, 1 validation, 2 test


def _locate(path: str) -> Path:
    """The folder with pictures and labels."""
    if path:
        place = existing_path(path, "copy of CelebA")
        return place if place.is_dir() else place.parent
    folder = cache_directory() / "celeba"
    if (folder / "img_align_celeba").is_dir() or (folder / COMPACT_LABELS).is_file():
        return folder
    return obtain("celeba", FILES)[0].parent


def _locate_pictures(folder: Path) -> Path:
    """The folder or the archive of the pictures."""
    for place in (folder, folder / "Img"):
        published = [place / "img_align_celeba", place / "img_align_celeba.zip"]
        for pictures in (*published, *sorted(place.glob("celeba_*.zip"))):
            if pictures.exists():
                return pictures
    if any(folder.glob("*.jpg")):
        return folder
    raise DataError(
        f"{folder} holds no pictures of CelebA: img_align_celeba or its .zip is missing"
    )


def _label_files(folder: Path) -> list[Path]:
    """The files of the tables, in the folder or in Anno and Eval as published."""
    if (folder / COMPACT_LABELS).is_file():
        return [folder / COMPACT_LABELS]
    files: list[Path] = []
    for name in (LABELS, PARTITION):
        places = [folder / below / name for below in ("", "Anno", "Eval")]
        files += [place for place in places if place.is_file()][:1]
        if not any(place.is_file() for place in places):
            raise DataError(f"{folder} lacks {name}, which comes with the pictures of CelebA")
    return files


def _read_labels(files: list[Path]) -> Labels:
    """The tables, decoded once."""
    read = _from_archive if len(files) == 1 else _from_text
    table = cached_arrays("celeba-labels", digest_of_files(files), lambda: read(*files))
    attributes = tuple(map(str, table["attributes"]))
    return Labels(table["names"], attributes, table["values"], table["part"])


def _from_text(labels: Path, partition: Path) -> dict[str, NDArray[Any]]:
    """The published tables: a count, a line of names, then a line for every picture."""
    read = functools.partial(read_text, most=MAX_LIST_BYTES, errors="replace")
    count, header, *lines = [*read(labels).splitlines(), "", ""]
    attributes = header.split()
    assigned = map(str.split, read(partition).splitlines())
    parts = {line[0]: line[1] for line in assigned if len(line) == 2}
    rows = [line.split() for line in lines if line.strip()]
    if count.strip() != str(len(rows)) or len(attributes) != ATTRIBUTES:
        raise DataError(
            f"{labels} must begin with the number of its lines and {ATTRIBUTES} attributes, and "
            f"have as many lines; it has {len(rows)} under {count.strip()[:20]!r}"
        )
    wrong = next((row for row in rows if len(row) != ATTRIBUTES + 1 or row[0] not in parts), None)
    if wrong is not None:
        raise DataError(
            f"{wrong[0]} must have {ATTRIBUTES} values in {labels} and a line in {partition}"
        )
    return _normalise(
        labels,
        np.array([row[0] for row in rows]),
        np.array(attributes),
        np.array([row[1:] for row in rows]),
        np.array([parts[row[0]] for row in rows]),
    )


def _from_archive(file: Path) -> dict[str, NDArray[Any]]:
    """Tables in an .npz: names, attr_names, attr and partition."""
    with open_arrays(file) as arrays:
        keys = ("names", "attr_names", "attr", "partition")
        return _normalise(file, *(arrays.read(key) for key in keys))


def _normalise(
    file: Path,
    names: NDArray[Any],
    attributes: NDArray[Any],
    values: NDArray[Any],
    part: NDArray[Any],
) -> dict[str, NDArray[Any]]:
    """The tables in the order of the names, with zeros and ones for -1 and 1."""
    with refuse_unreadable(f"{file} must hold whole numbers"):
        numbers, parts = values.astype(np.int8), part.astype(np.int8)
    tables = names.ndim == attributes.ndim == parts.ndim == 1 and len(attributes) == ATTRIBUTES
    if not tables or numbers.shape != (len(names), ATTRIBUTES) or len(parts) != len(names):
        raise DataError(f"{file} must have {ATTRIBUTES} attributes and a part for every name")
    if not np.isin(numbers, (-1, 1)).all() or not np.isin(parts, (0, 1, 2)).all():
        raise DataError(f"{file} must hold -1 and 1 for attributes, and parts 0, 1 and 2")
    order = np.argsort(names)
    return {
        "names": names[order],
        "attributes": attributes,
        "values": (numbers[order] > 0).astype(np.uint8),
        "part": parts[order].astype(np.uint8),
    }


def _label_rows(pictures: list[str], labels: Labels, place: Path) -> NDArray[np.int64]:
    """(N,) the row of every picture in the tables."""
    names = np.array([picture.rpartition("/")[2] for picture in pictures])
    if not len(names):
        raise DataError(f"{place} holds no pictures")
    row = np.searchsorted(labels.names, names).clip(max=len(labels.names) - 1)
    unknown = names[labels.names[row] != names]
    if len(unknown):
        raise DataError(f"{unknown[0]} in {place} is not in the list of attributes of CelebA")
    return row


def _box(width: int, height: int, crop: str) -> Box | None:
    """The part of a picture to use; smaller copies are cropped in proportion."""
    if height != round(HEIGHT * width / WIDTH):
        raise DataError(f"has {width}x{height} pixels, not {WIDTH}x{HEIGHT} or a smaller copy")
    if crop == "whole":
        return None
    side = int(crop) * width / WIDTH
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _converter(crop: str, size: int) -> Convert:
    def convert(image: Image) -> NDArray[np.uint8]:
        return resize(image, size, "RGB", _box(*image.size, crop))

    return convert


@dataset(
    title="CelebA",
    paper="Liu et al., 2015",
    url="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    licence="non-commercial research; not to be passed on",
    citation="Liu, Luo, Wang, Tang, Deep Learning Face Attributes in the Wild, ICCV 2015",
    files=FILES,
    standin="faces",
    examples="202,599 of 3x64x64",
    factors=("40 attributes",),
)
def celeba(
    *,
    split: Literal["train", "validation", "test", "all"] = "train",
    crop: Literal["148", "178", "108", "whole"] = "148",
    size: Annotated[int, Range(16, 218)] = 64,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Faces of celebrities with forty attributes (Liu et al., 2015), from a local copy.

    202,599 aligned colour pictures of 178 x 218 pixels, or part of them, or a smaller copy; the
    factors are the attributes, absent or present. The folder holds img_align_celeba (or its .zip),
    list_attr_celeba.txt and list_eval_partition.txt, as published; a smaller copy may come as
    celeba_NAME.zip with celeba_attrs_known.npz (names, attr_names, attr and partition) instead.

    Args:
        split: the official part for training, validation or testing, or all.
        crop: side of the central square that is kept: 148 as in the InteL-VAE paper, 178 the full
            width, 108 little but the face; whole squeezes the picture into a square.
        size: side of the images in pixels.
        path: the folder; looked for in the cache, as celeba, when empty.
        digest: of the labels and the pictures, filled in by a run that names a path or takes a
            smaller copy.
    """
    folder = _locate(path)
    tables = _label_files(folder)
    labels = _read_labels(tables)
    with open_tree(_locate_pictures(folder)) as tree:
        content = _digest(tree.digest, tables)
        former = _digest(tree.former_digest, tables) if tree.former_digest else ""
        both = check_digest(path or str(folder), digest, matching_digest(digest, content, former))
        row = _label_rows(tree.pictures, labels, tree.root)
        shape = (size, size, 3)
        convert = _converter(crop, size)
        images = decode_pictures("celeba", f"{crop}-{size}", tree, tree.pictures, shape, convert)
    part = labels.part[row]
    keep = np.flatnonzero(part == PARTS.index(split)) if split != "all" else np.arange(len(row))
    if not len(keep):
        parts = " and ".join(PARTS[k] for k in np.unique(part))
        raise DataError(f"all pictures in {tree.root} belong to {parts}, none to {split}")
    factors = Factors(
        labels.attributes,
        (2,) * ATTRIBUTES,
        labels.values[row[keep]],
        level_names=dict.fromkeys(labels.attributes, PRESENCE),
    )
    published = not path and tables[0].name != COMPACT_LABELS  # identified without a digest
    if published:
        return Dataset(select_images(images, keep), factors)
    return Dataset(select_images(images, keep), factors, digest=both, former_digest=former)


def _digest(pictures: str, tables: list[Path]) -> str:
    """The digest of pictures and tables; with the prefix of the former, if it has one."""
    both = digest_of([("", pictures.encode()), ("", digest_of_files(tables).encode())])
    return f"{CONTENT_PREFIX}{both}" if pictures.startswith(CONTENT_PREFIX) else both
