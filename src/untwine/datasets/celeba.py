"""CelebA: photographs of faces with forty attributes, from a local copy."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from untwine.data import Dataset, Factors
from untwine.datasets._files import (
    File,
    cache_directory,
    cached,
    check_digest,
    digest_of,
    digest_of_files,
    existing,
    obtain,
)
from untwine.datasets._pictures import Box, Convert, decoded, opened, resized, rows
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import Range

if TYPE_CHECKING:
    from PIL.Image import Image

WIDTH, HEIGHT = 178, 218  # of the aligned pictures
ATTRIBUTES = 40
PARTS = ("train", "validation", "test")
LABELS, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
KNOWN = "celeba_attrs_known.npz"  # labels and parts of a smaller copy
FILES = (  # no address: the site asks for consent
    File("celeba/img_align_celeba.zip", "", "md5:00d2c5bc6d35e252742224ab0c1e8fcb"),
    File(f"celeba/{LABELS}", "", "md5:75e246fa4810816ffd6ee81facbd244c"),
    File(f"celeba/{PARTITION}", "", "md5:d32c9cbf5e040fd4025c592c306e6668"),
)


@dataclass(frozen=True)
class Labels:
    """What is known about the pictures."""

    names: NDArray[np.str_]  # (N,) of the files
    attributes: tuple[str, ...]
    values: NDArray[np.uint8]  # (N, 40) zeros and ones
    part: NDArray[np.uint8]  # (N,) 0 training, 1 validation, 2 test


def _place(path: str) -> Path:
    """The folder with pictures and labels."""
    if path:
        place = existing(path, "copy of CelebA")
        return place if place.is_dir() else place.parent
    folder = cache_directory() / "celeba"
    if (folder / "img_align_celeba").is_dir() or (folder / KNOWN).is_file():
        return folder
    return obtain("celeba", FILES)[0].parent


def _pictures(folder: Path) -> Path:
    """Where the pictures are: a folder or an archive."""
    for place in (folder, folder / "Img"):
        named = [place / "img_align_celeba", place / "img_align_celeba.zip"]
        for found in (*named, *sorted(place.glob("celeba_*.zip"))):
            if found.exists():
                return found
    if any(folder.glob("*.jpg")):
        return folder
    raise DataError(
        f"{folder} holds no pictures of CelebA: img_align_celeba or its .zip is missing"
    )


def _files_of_labels(folder: Path) -> list[Path]:
    """The tables, in the folder or where the published tree has them."""
    if (folder / KNOWN).is_file():
        return [folder / KNOWN]
    found: list[Path] = []
    for name in (LABELS, PARTITION):
        places = [folder / below / name for below in ("", "Anno", "Eval")]
        found += [place for place in places if place.is_file()][:1]
        if not any(place.is_file() for place in places):
            raise DataError(f"{folder} lacks {name}, which comes with the pictures of CelebA")
    return found


def _labels(files: list[Path]) -> Labels:
    """The tables, read once from their files."""
    read = _from_archive if len(files) == 1 else _from_text
    table = cached("celeba-labels", digest_of_files(files), lambda: read(*files))
    attributes = tuple(map(str, table["attributes"]))
    return Labels(table["names"], attributes, table["values"], table["part"])


def _from_text(labels: Path, partition: Path) -> dict[str, NDArray[Any]]:
    """The published tables: a count, a line of names, then a line for every picture."""
    count, header, *lines = [*labels.read_text(errors="replace").splitlines(), "", ""]
    attributes = header.split()
    listed = map(str.split, partition.read_text(errors="replace").splitlines())
    parts = {line[0]: line[1] for line in listed if len(line) == 2}
    rows = [line.split() for line in lines if line.strip()]
    if not count.strip().isdigit() or int(count) != len(rows) or len(attributes) != ATTRIBUTES:
        raise DataError(
            f"{labels} must begin with the number of its lines and {ATTRIBUTES} attributes, and "
            f"have as many lines; it has {len(rows)} under {count.strip()[:20]!r}"
        )
    wrong = next((row for row in rows if len(row) != ATTRIBUTES + 1 or row[0] not in parts), None)
    if wrong is not None:
        raise DataError(
            f"{wrong[0]} must have {ATTRIBUTES} values in {labels} and a line in {partition}"
        )
    return _checked(
        labels,
        np.array([row[0] for row in rows]),
        np.array(attributes),
        np.array([row[1:] for row in rows]),
        np.array([parts[row[0]] for row in rows]),
    )


def _from_archive(file: Path) -> dict[str, NDArray[Any]]:
    """Tables in an .npz: names, attr_names, attr and partition."""
    try:
        with np.load(file, allow_pickle=False) as found:
            keys = ("names", "attr_names", "attr", "partition")
            return _checked(file, *(found[key] for key in keys))
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file} is not a table of CelebA with names, attr_names, attr and partition: {error}"
        ) from error


def _checked(
    file: Path,
    names: NDArray[Any],
    attributes: NDArray[Any],
    values: NDArray[Any],
    part: NDArray[Any],
) -> dict[str, NDArray[Any]]:
    """The tables in the order of the names, with zeros and ones for -1 and 1."""
    try:
        numbers, parts = values.astype(np.int8), part.astype(np.int8)
    except ValueError:
        raise DataError(f"{file} must hold whole numbers") from None
    if not np.isin(numbers, (-1, 1)).all() or not np.isin(parts, (0, 1, 2)).all():
        raise DataError(f"{file} must hold -1 and 1 for attributes, and parts 0, 1 and 2")
    order = np.argsort(names)
    return {
        "names": names[order],
        "attributes": attributes,
        "values": (numbers[order] > 0).astype(np.uint8),
        "part": parts[order].astype(np.uint8),
    }


def _rows_of(pictures: list[str], labels: Labels, place: Path) -> NDArray[np.int64]:
    """The line of every picture in the tables."""
    names = np.array([picture.rpartition("/")[2] for picture in pictures])
    if not len(names):
        raise DataError(f"{place} holds no pictures")
    row = np.searchsorted(labels.names, names).clip(max=len(labels.names) - 1)
    unknown = names[labels.names[row] != names]
    if len(unknown):
        raise DataError(f"{unknown[0]} in {place} is not in the list of attributes of CelebA")
    return row


def _box(width: int, height: int, crop: str) -> Box | None:
    """What is kept of a picture; smaller copies are cut in proportion."""
    if height != round(HEIGHT * width / WIDTH):
        raise DataError(f"has {width}x{height} pixels, not {WIDTH}x{HEIGHT} or a smaller copy")
    if crop == "whole":
        return None
    side = int(crop) * width / WIDTH
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _converted(crop: str, size: int) -> Convert:
    def convert(image: Image) -> NDArray[np.uint8]:
        return resized(image, size, "RGB", _box(*image.size, crop))

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
        digest: of the labels and of the names and sizes of the pictures, filled in by a run that
            names a path or takes a smaller copy.
    """
    folder = _place(path)
    tables = _files_of_labels(folder)
    labels = _labels(tables)
    with opened(_pictures(folder)) as tree:
        known = digest_of([("", tree.digest.encode()), ("", digest_of_files(tables).encode())])
        found = check_digest(path or str(folder), digest, known)
        row = _rows_of(tree.pictures, labels, tree.place)
        shape = (size, size, 3)
        convert = _converted(crop, size)
        images = decoded("celeba", f"{crop}-{size}", tree, tree.pictures, shape, convert)
    part = labels.part[row]
    keep = np.flatnonzero(part == PARTS.index(split)) if split != "all" else np.arange(len(row))
    if not len(keep):
        there = " and ".join(PARTS[k] for k in np.unique(part))
        raise DataError(f"all pictures in {tree.place} belong to {there}, none to {split}")
    factors = Factors(labels.attributes, (2,) * ATTRIBUTES, labels.values[row[keep]])
    published = not path and tables[0].name != KNOWN  # needs no digest to be known
    return Dataset(rows(images, keep), factors, digest="" if published else found)
