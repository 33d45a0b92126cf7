"""Which features generated images show, told by one classifier for all runs on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from untwine.data import Dataset, Factors
from untwine.datasets._derived import column
from untwine.errors import DataError, UnknownNameError
from untwine.measures import measure
from untwine.metrics._classifier import (
    SMALL,
    Classifier,
    Images,
    held_back,
    in_chunks,
    learn,
    shrunk,
)
from untwine.metrics.fpm import feature_presence
from untwine.runs import Finished
from untwine.schema import unknown
from untwine.vae import evaluation

LEARNED = 10_000  # images at most that the classifier is made with, a fifth of them held back
PAPER_SIDE = 128  # pixels, from which on the classifier is the paper's
NOT = "not "  # before a factor whose absence is the feature

Wanted = Mapping[str, Sequence[str]]  # features by name, each the first factor that is there


class Judge(NamedTuple):
    """A classifier of features, and the real images that it did not learn from."""

    names: list[str]
    shares: NDArray[np.float64]  # (F,) in the labels of all data
    images: Images  # (H, C, H, W) held back
    present: NDArray[np.int64]  # (H, F) their labels
    classifier: Classifier

    def probabilities(self, images: Images) -> NDArray[np.float32]:
        """(M, F) how likely images show each feature."""
        see = self.classifier
        with evaluation(see.body):
            return in_chunks(shrunk(images, see.side), lambda x: see.scores(x).softmax(-1)[..., 1])

    def shown(self, images: Images) -> NDArray[np.int64]:
        """(M, F) whether images show each feature."""
        return (self.probabilities(images) > 0.5).astype(np.int64)


def labelled(factors: Factors, wanted: Wanted, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """(M, F) whether examples have the features; of several factors the first that is there."""
    levels = factors.of(index)
    return np.stack([_one(factors, levels, listed) for listed in wanted.values()], 1)


def _one(factors: Factors, levels: NDArray[np.int64], listed: Sequence[str]) -> NDArray[np.int64]:
    for text in listed:
        try:
            place = column(factors, text.removeprefix(NOT))
        except UnknownNameError:
            continue
        has = (levels[:, place] > 0).astype(np.int64)
        return 1 - has if text.startswith(NOT) else has
    raise UnknownNameError(unknown("feature of this data", " or ".join(listed), factors.names))


def judge_of(data: Dataset, wanted: Wanted) -> Judge:
    """The classifier of this data's features; the same for the same data, whatever the run.

    Images of at least 128 pixels are judged by a MobileNet-V2 as in the paper, smaller ones by a
    small convolutional network.
    """
    from untwine.metrics._mobilenet import MOBILENET

    if data.factors is None:
        raise DataError("features can be told only of data with factors, such as celeba")
    index = np.random.default_rng(0).permutation(len(data))[:LEARNED]
    images = data.take(index).numpy()
    present = labelled(data.factors, wanted, index)
    rows, held = held_back(len(index), 0)
    design = MOBILENET if min(data.shape[1:]) >= PAPER_SIDE else SMALL
    classifier = learn(images[rows], present[rows], 0, design)
    shares = labelled(data.factors, wanted, np.arange(len(data))).mean(0)
    return Judge(list(wanted), shares, images[held], present[held], classifier)


@measure
def features(finished: Finished, *, features: Wanted, samples: int = 5_000) -> dict[str, float]:
    """The feature presence metric of a model's samples, feature by feature, and its average.

    FPM_f = 100 · |share of samples that show f − share of data labelled f|

    Beside it, in per cent, the share of each feature `in data` (by the labels), `in samples` and
    `in real` images that were held back (both by the classifier), and the metric's average for
    those real images, below which no model can be told from perfect. There are no more samples
    than the data has examples.
    """
    judge = judge_of(finished.data, features)
    drawn = finished.model.sample(min(samples, len(finished.data)), seed=0).numpy().clip(0, 1)
    made, real = judge.shown(drawn), judge.shown(judge.images)
    each = feature_presence(made, judge.shares)
    found = {**dict(zip(judge.names, each, strict=True)), "average": each.mean()}
    for place, values in (
        ("samples", made.mean(0)),
        ("real", real.mean(0)),
        ("data", judge.shares),
    ):
        found |= {f"{n} in {place}": 100 * v for n, v in zip(judge.names, values, strict=True)}
    found["average of real"] = feature_presence(real, judge.shares).mean()
    found["accuracy"] = 100 * (real == judge.present).mean()
    return {name: float(value) for name, value in found.items()}
