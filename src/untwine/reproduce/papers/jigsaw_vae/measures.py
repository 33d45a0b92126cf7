"""Measures of Jigsaw-VAE: features, colours, paths between images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset, Factors
from untwine.data.derived import column
from untwine.data.opening import reopen_with
from untwine.datasets.coloured_mnist import COLOURS
from untwine.errors import DataError, UnknownNameError
from untwine.estimators.classifier import (
    SMALL_CLASSIFIER,
    Classifier,
    ImageArray,
    split_validation,
    train_classifier,
)
from untwine.metrics.clustering import clustering
from untwine.metrics.fpm import EVEN, detector_quality, feature_presence, share_thresholds
from untwine.parts.defaults import NoCorruption
from untwine.reproduce.registry import measure
from untwine.runs.directory import TrainedRun
from untwine.schema import unknown_name
from untwine.tools.compute import seeded
from untwine.vae import VAE

COLOUR_CHUNK = 500  # images per batch
YELLOW = 5  # the digit whose colour all digits have in the paper's figure
COPY_CHUNK = 500  # images that are reconstructed at a time
TENTHS = 10  # parts of a training
MIN_PAIRS = 10  # with a feature that is still there, to tell how it goes
MAX_CLASSIFIER_IMAGES = 10_000  # for training and, a fifth of them, testing the classifier
PAPER_SIDE = 128  # pixels; images of at least this size use the paper's classifier
NEGATION = "not "  # precedes a factor whose absence is the feature
FeatureNames = Mapping[str, Sequence[str]]  # factors by feature; the first available is used


@measure
def colours(run: TrainedRun, *, examples: int = 5_000) -> dict[str, float]:
    """NMI of clusters and digits on test digits, in their own colours and all in one.

    `multi` has the colours of training, `single K` all digits in the colour of the digit K;
    `median`, `lowest` and `highest` are over the ten. For a model that corrupts its input in
    training, such as jigsaw, `multi, altered` and `median, altered` are for test images that are
    corrupted in the same way.
    """
    _require_colours(run)
    multi = reopen_with(run.spec.data, split="test", colours="multi")
    single = [
        reopen_with(run.spec.data, split="test", colours="single", colour=k)
        for k in range(len(COLOURS))
    ]
    model = run.model
    each = [_nmi(model, data, examples) for data in single]
    scores = {
        "multi": _nmi(model, multi, examples),
        "median": float(np.median(each)),
        "lowest": min(each),
        "highest": max(each),
        **{f"single {k}": value for k, value in enumerate(each)},
    }
    if not isinstance(model.corruption, NoCorruption):
        altered = [_nmi(model, data, examples, altered=True) for data in (multi, *single)]
        scores["multi, altered"] = altered[0]
        scores["median, altered"] = float(np.median(altered[1:]))
    return scores


@measure
def recoloured(run: TrainedRun, *, colour: int = YELLOW, examples: int = 2_000) -> dict[str, float]:
    """The colours in which a model reconstructs test digits that all have one colour.

    `recovered` is the share in the colour of the digit in training, `kept` the share in the colour
    of the image, and `kept or nearest` that in the colour of the image or in the one nearest to it,
    as orange is to yellow. Digits for which the first two agree are left out.
    """
    _require_colours(run)
    data = reopen_with(run.spec.data, split="test", colours="single", colour=colour)
    index = np.arange(min(examples, len(data)))
    assert data.factors is not None
    digit = data.factors.levels_at(index)[:, 0]
    index, digit = index[digit != colour], digit[digit != colour]
    colours = torch.cat(
        [nearest_colour(run.model.reconstruct(data.take(part))) for part in _chunks(index)]
    ).numpy()
    return {
        "recovered": float((colours == digit).mean()),
        "kept": float((colours == colour).mean()),
        "kept or nearest": float(np.isin(colours, (colour, neighbour(colour))).mean()),
    }


@measure
def colour_shares(run: TrainedRun, *, samples: int = 5_000) -> dict[str, float]:
    """How often samples have each colour of data whose colours come in known shares.

    `average` is the mean distance of the shares, in percentage points, as in FPM, and `rare` that
    of the colours of less than a tenth of the data; `NAME in samples` and `NAME in data` are the
    shares; `read`, the share of real images whose colour is read rightly.
    """
    _require_colours(run)
    data = run.data
    assert data.factors is not None
    names = data.factors.level_names["colour"]
    index = np.arange(min(samples, len(data)))
    levels = data.factors.levels_at(np.arange(len(data)))[:, 1]
    used = np.unique(levels)
    among = torch.from_numpy(used)
    drawn = nearest_colour(run.model.sample(samples, seed=0).clamp(0, 1), among).numpy()
    real = torch.cat([nearest_colour(data.take(part), among) for part in _chunks(index)]).numpy()
    ours, theirs = (np.array([100 * (x == k).mean() for k in used]) for x in (drawn, levels))
    distance = np.abs(ours - theirs)
    return {
        "average": float(distance.mean()),
        "rare": float(distance[theirs < 10].mean()) if (theirs < 10).any() else 0.0,
        **{f"{names[k]} in samples": float(share) for k, share in zip(used, ours, strict=True)},
        **{f"{names[k]} in data": float(share) for k, share in zip(used, theirs, strict=True)},
        "read": float((real == levels[index]).mean()),
    }


def neighbour(colour: int) -> int:
    """Return the colour whose hue is nearest to that of another one.

    >>> neighbour(YELLOW)  # orange
    8
    """
    distances = torch.cdist(_hues()[colour : colour + 1], _hues())[0]
    distances[colour] = torch.inf
    return int(distances.argmin())


def _hues() -> Tensor:
    """(10, 3) the colours, scaled to a largest channel of 1."""
    colours = torch.tensor(COLOURS).float()
    return colours / colours.amax(1, keepdim=True)


def _require_colours(run: TrainedRun) -> None:
    name = run.spec.data.name
    if name != "coloured-mnist":
        raise DataError(f"colours need a model of coloured-mnist, not of {name}")


def _nmi(model: VAE, data: Dataset, examples: int, *, altered: bool = False) -> float:
    """Return the NMI of the first test examples, plain or corrupted as in training."""
    index = np.arange(min(examples, len(data)))
    assert data.factors is not None
    with seeded(0):
        clusters = torch.cat(
            [
                model.assign(_encoder_input(model, data.take(part), altered))
                for part in _chunks(index)
            ]
        )
    return clustering(clusters.numpy(), data.factors.levels_at(index))["nmi"]


def _encoder_input(model: VAE, x: Tensor, altered: bool) -> Tensor:
    return model.corruption.corrupt(x)[0] if altered else x


def _chunks(index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.array_split(index, -(-len(index) // COLOUR_CHUNK))


def nearest_colour(images: Tensor, among: Tensor | None = None) -> Tensor:
    """Return (B,) the nearest of the ten colours, or of some, for images (B, 3, H, W) on black.

    Hues are compared: the sum over pixels, and each colour, are scaled to a largest channel of 1.

    >>> nearest_colour(torch.tensor([[[[0.5]], [[0.5]], [[0.1]]]])).tolist()  # nearly yellow
    [5]
    """
    total = images.sum((2, 3))  # (B, 3)
    hue = total / total.amax(1, keepdim=True).clamp(min=1e-6)
    among = torch.arange(len(COLOURS)) if among is None else among
    return among[torch.cdist(hue, _hues()[among].to(hue)).argmin(1)]


@measure
def features(run: TrainedRun, *, features: FeatureNames, samples: int = 5_000) -> dict[str, float]:
    """The feature presence metric of a model's samples, for each feature and on average.

    FPM_f = 100 · |share of samples that show f − share of data labelled f|

    Also, in per cent, the share of each feature `in data` (by the labels), `in samples` and `in
    real` held-out images (both by the classifier), and the average metric of these real images:
    a model below it cannot be told from a perfect one. At most as many samples as examples of the
    data are drawn.

    What ends in `, matched` has thresholds at which the first half of the held-out images shows
    each feature as often as the data. The second half gives `average of real, matched`, and is
    reconstructed: `average of reconstructions`, the blur without the imbalance, the share of each
    feature `in reconstructions`, and their squared error, `error`. `recall of`, `precision of` and
    `auc of` a feature say how well the classifier sees it in held-out images.
    """
    classifier = feature_classifier(run.data, features)
    drawn = run.model.sample(min(samples, len(run.data)), seed=0).numpy().clip(0, 1)
    second = classifier.images[classifier.half :]
    copies = np.concatenate(
        [run.model.reconstruct(part).numpy() for part in torch.tensor(second).split(COPY_CHUNK)]
    ).clip(0, 1)
    sampled, real, copied = map(classifier.probabilities, (drawn, classifier.images, copies))
    matched = classifier.thresholds()
    shares, names = classifier.shares, classifier.names
    scores = {
        **_presence(names, sampled > EVEN, shares),
        **{f"{k}, matched": v for k, v in _presence(names, sampled > matched, shares).items()},
        "average of real": feature_presence(real > EVEN, shares).mean(),
        "average of real, matched": feature_presence(
            real[classifier.half :] > matched, shares
        ).mean(),
        "average of reconstructions": feature_presence(copied > EVEN, shares).mean(),
        "average of reconstructions, matched": feature_presence(copied > matched, shares).mean(),
        "accuracy": 100 * ((real > EVEN) == classifier.present).mean(),
        "error": np.square(copies - second).mean(),
    }
    for source, values in (
        ("in samples", 100 * (sampled > EVEN).mean(0)),
        ("in real", 100 * (real > EVEN).mean(0)),
        ("in data", 100 * shares),
        ("in reconstructions", 100 * (copied > EVEN).mean(0)),
    ):
        scores |= {f"{n} {source}": v for n, v in zip(names, values, strict=True)}
    for what, values in detector_quality(real, classifier.present).items():
        scores |= {f"{what} of {n}": v for n, v in zip(names, values, strict=True)}
    return {name: float(value) for name, value in scores.items() if np.isfinite(value)}


def _presence(
    names: Sequence[str], present: NDArray[np.bool_], shares: NDArray[np.float64]
) -> dict[str, float]:
    """Return the metric of each feature and its average."""
    each = feature_presence(present, shares)
    return {**dict(zip(names, each.tolist(), strict=True)), "average": float(each.mean())}


@measure
def learning(run: TrainedRun) -> dict[str, float]:
    """The negative log-likelihood of training examples in each tenth of the training, in nats."""
    steps = run.history[-1]["step"]
    tenths: dict[int, list[float]] = {}
    for row in run.history:
        tenths.setdefault(int(np.ceil(TENTHS * row["step"] / steps)), []).append(row["nll"])
    return {f"tenth {k}": float(np.mean(values)) for k, values in sorted(tenths.items())}


class FeatureClassifier(NamedTuple):
    """A classifier of features, with the real images held out from its training."""

    names: list[str]
    shares: NDArray[np.float64]  # (F,) by the labels of all data
    images: ImageArray  # (M, C, H, W) held out
    present: NDArray[np.int64]  # (M, F) their labels
    classifier: Classifier

    @property
    def half(self) -> int:
        """The number of held-out images that set thresholds; the others try them."""
        return len(self.images) // 2

    def probabilities(self, images: ImageArray) -> NDArray[np.float32]:
        """Return (M, F) the probability that images show each feature."""
        return self.classifier.probabilities(images)[..., 1]

    def thresholds(self) -> NDArray[np.float64]:
        """Return (F,) thresholds at which the first held-out half has the shares of the data."""
        return share_thresholds(self.probabilities(self.images[: self.half]), self.shares)


def feature_classifier(data: Dataset, features: FeatureNames) -> FeatureClassifier:
    """Train the classifier of this data's features, the same for all runs on the data.

    The images that the dataset holds out for scores are not learned from; without such, a fifth is
    set apart. Images of at least 128 pixels get a MobileNet-V2 as in the paper, smaller ones a
    small convolutional network.
    """
    from untwine.estimators.pretrained import MOBILENET_CLASSIFIER

    if data.factors is None:
        raise DataError("features need data with factors, such as celeba")
    index = np.random.default_rng(0).permutation(len(data))[:MAX_CLASSIFIER_IMAGES]
    images, present = _labelled(data, features, index)
    if data.evaluation is not None:
        every = np.random.default_rng(0).permutation(len(data.evaluation))
        apart = _labelled(data.evaluation, features, every[:MAX_CLASSIFIER_IMAGES])
    else:
        rows, held_out = split_validation(len(index), 0)
        apart = images[held_out], present[held_out]
        images, present = images[rows], present[rows]
    design = MOBILENET_CLASSIFIER if min(data.shape[1:]) >= PAPER_SIDE else SMALL_CLASSIFIER
    classifier = train_classifier(images, present, 0, design)
    shares = feature_labels(data.factors, features, np.arange(len(data))).mean(0)
    return FeatureClassifier(list(features), shares, *apart, classifier)


def _labelled(
    data: Dataset, features: FeatureNames, index: NDArray[np.int64]
) -> tuple[ImageArray, NDArray[np.int64]]:
    """Return (M, C, H, W) images and (M, F) whether they have the features."""
    assert data.factors is not None, "both parts of a dataset have its factors"
    return data.take(index).numpy(), feature_labels(data.factors, features, index)


def feature_labels(
    factors: Factors, features: FeatureNames, index: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return (M, F) whether examples have the features, by their factors."""
    levels = factors.levels_at(index)
    return np.stack([_feature_column(factors, levels, names) for names in features.values()], 1)


def _feature_column(
    factors: Factors, levels: NDArray[np.int64], names: Sequence[str]
) -> NDArray[np.int64]:
    for text in names:
        try:
            position = column(factors, text.removeprefix(NEGATION))
        except UnknownNameError:
            continue
        has = (levels[:, position] > 0).astype(np.int64)
        return 1 - has if text.startswith(NEGATION) else has
    raise UnknownNameError(unknown_name("feature of this data", " or ".join(names), factors.names))


@measure
def paths(
    run: TrainedRun, *, feature: str, features: FeatureNames, pairs: int = 100, steps: int = 7
) -> dict[str, float]:
    """The classifier's probability of a feature along straight paths between codes.

    Paths lead from images with the feature to images without, all held out. `at 1` … is the mean
    probability at each step, `lost` its drop from the first real image to its reconstruction,
    `abruptness` the share of all change in the largest step. Only pairs whose reconstruction still
    shows the feature tell how it goes: `kept` is their number, and without `MIN_PAIRS` of them
    there is no abruptness.
    """
    classifier = feature_classifier(run.data, features)
    column = classifier.names.index(feature)
    first, last = path_ends(classifier, feature, pairs)
    images = interpolate(run.model, torch.tensor(first), torch.tensor(last), steps)
    probability = classifier.probabilities(images.flatten(0, 1).numpy().clip(0, 1))[:, column]
    p = probability.reshape(len(first), steps)
    real = classifier.probabilities(first)[:, column].mean()
    kept = p[:, 0] > classifier.thresholds()[column]
    enough = kept.sum() >= MIN_PAIRS
    return {
        **{f"at {step + 1}": float(value) for step, value in enumerate(p.mean(0))},
        "real": float(real),
        "lost": float(real - p[:, 0].mean()),
        **({"abruptness": abruptness(p[kept])} if enough else {}),
        "kept": float(kept.sum()),
        "pairs": float(len(first)),
    }


class Ends(NamedTuple):
    """Pairs of real images: the first with a feature, the last without."""

    first: ImageArray  # (P, C, H, W)
    last: ImageArray


def path_ends(classifier: FeatureClassifier, feature: str, pairs: int) -> Ends:
    """Pair held-out images that show the feature most clearly with random ones without it.

    They are of the half that sets no thresholds.
    """
    column = classifier.names.index(feature)
    images = classifier.images[classifier.half :]
    probability = classifier.probabilities(images)[:, column]
    has = classifier.present[classifier.half :, column] == 1
    first = np.flatnonzero(has)[np.argsort(-probability[has], kind="stable")][:pairs]
    if not len(first) or has.all():
        raise DataError(f"no held-out images with and without {feature}; use more data")
    last = np.random.default_rng(0).choice(np.flatnonzero(~has), len(first))
    return Ends(images[first], images[last])


@torch.no_grad()
def interpolate(model: VAE, first: Tensor, last: Tensor, steps: int) -> Tensor:
    """Return (P, S, C, H, W) images on straight paths between the codes of pairs (P, C, H, W)."""
    a, b = model.posterior_mean(first), model.posterior_mean(last)  # (P, D)
    share = torch.linspace(0, 1, steps)[:, None].to(a)  # (S, 1)
    z = a[:, None] + share * (b - a)[:, None]  # (P, S, D)
    return model.decode_latents(z.flatten(0, 1)).unflatten(0, z.shape[:2])


def abruptness(p: NDArray[np.floating]) -> float:
    """Return the share of all change on paths (P, S) that is in the largest step of each.

    1 for a change in one step, 1/(S−1) for an even change or none.

    >>> abruptness(np.array([[1.0, 1.0, 0.0, 0.0]])), abruptness(np.array([[1.0, 0.5, 0.0]]))
    (1.0, 0.5)
    """
    change = np.abs(np.diff(p.astype(np.float64), axis=1))  # (P, S - 1)
    total = change.sum()
    return float(change.max(1).sum() / total) if total > 0 else 1 / change.shape[1]
