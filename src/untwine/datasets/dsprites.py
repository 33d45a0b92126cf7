"""dSprites as published: the original archive of images and factors."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from untwine.data.arrays import factor_table
from untwine.data.dataset import Bits, Dataset, Factors
from untwine.data.files import File, cached_arrays, digest_of, open_files
from untwine.datasets.sprites import FACTORS
from untwine.errors import DataError
from untwine.registry import dataset

NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
FILE = File(
    NAME,
    f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{NAME}",
    "md5:7da33b31b13a06f4b04a70402ce90c2e",
)
BLOCK = 8192


def _member(archive: zipfile.ZipFile, key: str) -> tuple[IO[bytes], tuple[int, ...], np.dtype]:
    """An array of an .npz, opened behind its header; never unpickled."""
    try:
        stream = archive.open(f"{key}.npy")
    except KeyError:
        raise DataError(
            f"{archive.filename} is not the dSprites archive: it has no {key}"
        ) from None
    read = (
        npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
    )
    shape, fortran, dtype = read(stream)
    if dtype.hasobject or fortran:
        raise DataError(f"{key} is not a plain array")
    return stream, shape, dtype


def _pack_images(archive: zipfile.ZipFile) -> NDArray[np.uint8]:
    """(N, 64, 64) zeros and ones to (N, 64, 8) bits, a block at a time."""
    stream, shape, dtype = _member(archive, "imgs")
    if len(shape) != 3 or shape[2] % 8 or dtype != np.uint8:
        raise DataError(f"imgs must be bytes of shape (N, 64, 64), not {dtype} {shape}")
    n, height, width = shape
    if not n:
        raise DataError(f"{archive.filename} holds no images")
    packed = np.empty((n, height, width // 8), dtype=np.uint8)
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        block = np.frombuffer(stream.read(count * height * width), dtype=np.uint8)
        if block.size < count * height * width:
            raise DataError(f"{archive.filename} ends in the middle of its images")
        if block.max(initial=0) > 1:
            raise DataError("imgs must hold zeros and ones")
        packed[start : start + count] = np.packbits(block.reshape(count, height, width), axis=-1)
    return packed


def _factors(archive: zipfile.ZipFile, n: int) -> Factors:
    """The five factors; the constant colour in front is left out."""
    stream, shape, dtype = _member(archive, "latents_classes")
    if shape != (n, 6):
        raise DataError(f"latents_classes must have shape ({n}, 6), not {shape}")
    table = np.frombuffer(stream.read(), dtype=dtype).reshape(shape)[:, 1:]
    if n == np.prod(FACTORS.sizes) and np.array_equal(FACTORS.levels_at(np.arange(n)), table):
        return FACTORS
    return factor_table(table, n, FACTORS.names, FACTORS.unordered, FACTORS.level_names)


def _digest(paths: list[Path]) -> str:
    return digest_of([("", paths[0].read_bytes())])


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} is not the dSprites .npz archive: {error}") from error


@dataset(
    title="dSprites",
    paper="Matthey et al., 2017",
    url="https://github.com/google-deepmind/dsprites-dataset",
    licence="Apache-2.0",
    citation="Matthey, Higgins, Hassabis, Lerchner, dSprites: Disentanglement testing Sprites "
    "dataset, 2017",
    examples="737,280 of 1x64x64",
    factors=FACTORS.names,
    files=(FILE,),
    standin="sprites",
)
def dsprites(*, path: str = "", digest: str = "") -> Dataset:
    """The original dSprites archive (Matthey et al., 2017), downloaded once or from a path.

    737,280 black and white images of 64 pixels with five factors; the same images as `sprites`,
    which needs no download.

    Args:
        path: the .npz file; downloaded to the cache when empty.
        digest: of the file, filled in by a run that names a path.
    """
    kind, hint = "dSprites file", "give the dSprites .npz itself"
    files = open_files(
        "dsprites", [FILE], path, digest, kind=kind, file_hint=hint, digest_with=_digest
    )
    try:
        with _open(files.root) as archive:
            arrays = cached_arrays(
                "dsprites", files.digest, lambda: {"images": _pack_images(archive)}
            )
            factors = _factors(archive, len(arrays["images"]))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{files.root} is damaged ({error}); fetch it again") from error
    return Dataset(Bits(torch.from_numpy(arrays["images"])), factors, digest=files.recorded)
