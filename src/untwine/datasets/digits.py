"""Real handwritten digits that need no download."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.cache import cached_arrays
from untwine.data.dataset import Dataset, Factors, Pixels
from untwine.registry import dataset
from untwine.schema import Range

N_TRAIN = 1500  # of 1,797
VERSION = "1"  # of the cached arrays; another number for another way to enlarge them


def _enlarge(images: Tensor, size: int) -> Tensor:
    """(N, 8, 8) values from 0 to 16 to (N, size, size, 1) bytes, framed as MNIST is."""
    inner = round(size * 20 / 28)
    border = size - inner
    large = torch.nn.functional.interpolate(
        images[:, None] / 16, size=(inner, inner), mode="bicubic", align_corners=False
    )
    sides = (border // 2, border - border // 2) * 2
    framed = torch.nn.functional.pad(large.clamp(0, 1), sides)
    return (framed * 255).round().to(torch.uint8).permute(0, 2, 3, 1)


def _decode(size: int) -> dict[str, NDArray[np.uint8]]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    small = torch.from_numpy(np.asarray(images, np.float32)).view(-1, 8, 8)
    return {
        "images": np.ascontiguousarray(_enlarge(small, size).numpy()),
        "labels": np.asarray(labels, np.uint8)[:, None],
    }


@dataset(
    title="Handwritten digits of scikit-learn",
    paper="Alpaydin and Kaynak, 1998",
    url="https://archive.ics.uci.edu/dataset/80",
    licence="CC BY 4.0",
    citation="Alpaydin, Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning "
    "Repository, 1998",
    examples="1,797 of 1x28x28",
    factors=("digit",),
)
def digits(
    *,
    split: Literal["train", "test", "all"] = "train",
    size: Annotated[int, Range(16, 64)] = 28,
) -> Dataset:
    """1,797 real handwritten digits (Alpaydin and Kaynak, 1998), which come with scikit-learn.

    A stand-in for MNIST that needs no download: grey images of 8 x 8 pixels, enlarged by bicubic
    interpolation and framed in black as MNIST's are. One factor, the digit.

    Args:
        split: the first 1,500 for training, the other 297 for testing, or all.
        size: side of the images in pixels.
    """
    arrays = cached_arrays(f"digits-{size}", VERSION, lambda: _decode(size))
    part = {"train": slice(N_TRAIN), "test": slice(N_TRAIN, None), "all": slice(None)}[split]
    factors = Factors(("digit",), (10,), arrays["labels"][part], unordered=("digit",))
    return Dataset(Pixels(torch.from_numpy(arrays["images"][part])), factors)
