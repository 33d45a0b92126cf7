"""MNIST as published: four IDX files of handwritten digits."""

from __future__ import annotations

from typing import Annotated, Literal

from untwine.data.dataset import Dataset
from untwine.data.idx import idx_dataset, published_files
from untwine.registry import dataset
from untwine.schema import Range

FILES = published_files(
    "mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    (
        "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)


@dataset(
    title="MNIST",
    paper="LeCun et al., 1998",
    url="http://yann.lecun.com/exdb/mnist/",
    licence="CC BY-SA 3.0",
    citation="LeCun, Bottou, Bengio, Haffner, Gradient-Based Learning Applied to Document "
    "Recognition, Proceedings of the IEEE 1998",
    examples="60,000 and 10,000 of 1x28x28",
    factors=("digit",),
    files=FILES,
    standin="digits",
)
def mnist(
    *,
    split: Literal["train", "test", "all"] = "train",
    pad: Annotated[int, Range(0, 64)] = 0,
    path: str = "",
    digest: str = "",
) -> Dataset:
    """Handwritten digits (LeCun et al., 1998), downloaded once or from a folder.

    60,000 grey images of 28 pixels for training and 10,000 for testing, with one factor, the
    digit.

    Args:
        split: the published parts; "all" is training followed by test.
        pad: black pixels put on every side; 2 gives images of 32 pixels.
        path: a folder with the IDX files, plain or gzipped; downloaded to the cache when empty.
        digest: of the files, filled in by a run that names a path.
    """
    return idx_dataset("mnist", FILES, "digit", path=path, split=split, pad=pad, digest=digest)
