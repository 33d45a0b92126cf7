"""Fashion-MNIST as published: four IDX files of articles of clothing."""

from __future__ import annotations

from typing import Annotated, Literal

from untwine.data.dataset import Dataset
from untwine.data.idx import idx_dataset, published_files
from untwine.registry import dataset
from untwine.schema import Range

FILES = published_files(
    "fashion-mnist",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    (
        "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    packaged="/usr/share/datasets/fashion-mnist",  # Debian's package dataset-fashion-mnist
)
CLASSES = (
    *("T-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)


@dataset(
    title="Fashion-MNIST",
    paper="Xiao et al., 2017",
    url="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    citation="Xiao, Rasul, Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
    "Learning Algorithms, arXiv:1708.07747, 2017",
    examples="60,000 and 10,000 of 1x28x28",
    factors=("class",),
    files=FILES,
    standin="digits",
)
def fashion_mnist(
    *,
    split: Literal["train", "test", "all"] = "train",
    pad: Annotated[int, Range(0, 64)] = 0,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Articles of clothing in the format of MNIST (Xiao et al., 2017), downloaded or from a folder.

    60,000 grey images of 28 pixels for training and 10,000 for testing, with one factor, the
    class: T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot.

    Args:
        split: the published parts; "all" is training followed by test.
        pad: black pixels put on every side; 2 gives images of 32 pixels.
        path: a folder with the IDX files, plain or gzipped; when empty, Debian's package
            dataset-fashion-mnist is used if it is installed, else they are downloaded to the cache.
        digest: of the files, filled in by a run that names a path.
    """
    return idx_dataset(
        "fashion-mnist",
        FILES,
        "class",
        path=path,
        split=split,
        pad=pad,
        digest=digest,
        classes=CLASSES,
    )
