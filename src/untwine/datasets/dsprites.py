"""dSprites as published: the original archive of images and factors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.arrays import factor_table
from untwine.data.cache import cached_arrays, digest_of_content
from untwine.data.dataset import Bits, Dataset, Factors
from untwine.data.files import File, open_files
from untwine.data.incoming.arrays import Arrays, open_arrays
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


def _pack_images(arrays: Arrays) -> NDArray[np.uint8]:
    """(N, 64, 64) zeros and ones to (N, 64, 8) bits, a block at a time."""
    with arrays.stream("imgs") as (stream, header):
        if len(header.shape) != 3 or header.shape[2] % 8 or header.dtype != np.uint8:
            raise DataError(
                f"imgs must be bytes of shape (N, 64, 64), not {header.dtype} {header.shape}"
            )
        n, height, width = header.shape
        packed = np.empty((n, height, width // 8), dtype=np.uint8)
        for start in range(0, n, BLOCK):
            count = min(BLOCK, n - start)
            block = np.frombuffer(stream.read_exactly(count * height * width), dtype=np.uint8)
            if block.max(initial=0) > 1:
                raise DataError("imgs must hold zeros and ones")
            bits = np.packbits(block.reshape(count, height, width), axis=-1)
            packed[start : start + count] = bits
        stream.read(1)  # the end, where the archive compares its checksum
    return packed


def _factors(arrays: Arrays, n: int) -> Factors:
    """The five factors; the constant colour in front is left out."""
    table = arrays.read("latents_classes")
    if table.shape != (n, 6):
        raise DataError(f"latents_classes must have shape ({n}, 6), not {table.shape}")
    table = table[:, 1:]
    if n == np.prod(FACTORS.sizes) and np.array_equal(FACTORS.levels_at(np.arange(n)), table):
        return FACTORS
    return factor_table(table, n, FACTORS.names, FACTORS.unordered, FACTORS.level_names)


def _digest(paths: list[Path]) -> str:
    return digest_of_content(paths[0])


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
    with open_arrays(files.root) as source:
        arrays = cached_arrays("dsprites", files.digest, lambda: {"images": _pack_images(source)})
        factors = _factors(source, len(arrays["images"]))
    return Dataset(Bits(torch.from_numpy(arrays["images"])), factors, digest=files.recorded)
