"""How sure a classifier is of generated images, and how often it assigns each class."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.metrics.clustering import one_factor
from untwine.registry import metric
from untwine.schema import Natural, Share

MAX_SIDE = 32  # pixels; larger images are averaged down
MAX_STEPS = 100
Probabilities = NDArray[np.floating]  # (M, L)


@metric(
    title="Uncertainty and class proportions",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    higher_is_better=False,
    range=(0.0, 100.0),
    unchanged_by=(),
    variants={"normal": {"sampler": "normal"}},
)
def class_shares(
    samples: ArrayLike,
    images: ArrayLike,
    factors: ArrayLike,
    *,
    factor: Natural = 0,
    certain: Share = 0.8,
    sampler: Literal["own", "normal"] = "own",
    seed: Natural = 0,
) -> dict[str, float]:
    """Ambiguous samples, and samples of each class, in percent (Miao et al., 2022, Table 2).

    uncertainty = 100 · share of samples with max_c p(c|x) < 0.8
    level_c = 100 · share of all samples whose most likely class is c

    p is a logistic classifier of the pixels that learned the levels of one factor from four fifths
    of the images. The paper has two classes, '0' and '1'; a sample exactly between them counts as
    '0', and uncertain samples count in the shares. `data_...` are the same values of the held-out
    images, which a perfect model would reach. The variant `normal` decodes codes of N(0, I), as the
    paper's code does for models whose prior is another one.

    Samples and images are (M, C, H, W), averaged down to 32 pixels a side where they are larger,
    or vectors (M, D); `factors` (N, K) has one row for each image and perhaps more. Refuses a
    factor with a single level among the images.

    Blind spots: a classifier can be sure of images that look like nothing, and a linear one is poor
    on all but simple images: then the data is uncertain too, and only the difference tells. Shares
    can be right while the images are wrong.

    Args:
        factor: position of the factor whose levels are the classes, from 0.
        certain: the least probability of the most likely class that counts as sure.
        sampler: where the samples of a model come from: its own prior, or N(0, I). Arrays are taken
            as they are.
        seed: chooses the images held out.

    >>> p = np.array([0.1, 0.5, 0.79, 0.81, 0.99])
    >>> shares(np.stack([1 - p, p], 1), 0.8)
    {'uncertainty': 40.0, 'level_0': 40.0, 'level_1': 60.0}
    """
    from untwine.estimators.classifier import (
        check_factors,
        check_pair,
        shrink_images,
        split_validation,
    )

    made, real = (
        shrink_images(x, MAX_SIDE).reshape(len(x), -1) for x in check_pair(samples, images)
    )
    classes = one_factor("class-shares", check_factors(factors, len(real)), factor)
    names, y = np.unique(classes[: len(real)], return_inverse=True)
    rows, held = split_validation(len(real), seed)
    if len(np.unique(y[rows])) < len(names) or len(names) < 2:
        raise DataError(
            f"factor {factor} has {len(names)} levels among the images, too few or too rare to "
            "learn; choose another factor or more images"
        )
    of_samples, of_data = class_probabilities(real[rows], y[rows], (made, real[held]))
    data = shares(of_data, certain)
    return {**shares(of_samples, certain), **{f"data_{k}": value for k, value in data.items()}}


def shares(p: Probabilities, certain: float) -> dict[str, float]:
    """(M, L) probabilities of classes to the percentages of unsure rows and of each class."""
    sizes = np.bincount(p.argmax(1), minlength=p.shape[1])
    return {
        "uncertainty": float(100 * (p.max(1) < certain).mean()),
        **{f"level_{c}": float(100 * size / len(p)) for c, size in enumerate(sizes)},
    }


def class_probabilities(
    x: NDArray[np.float32], y: NDArray[np.int64], others: tuple[NDArray[np.float32], ...]
) -> list[Probabilities]:
    """(M, L) for each of the other arrays, by a logistic classifier of x (N, D) and y (N,)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # Classes that a plane separates are learned long before the weights stop growing.
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = LogisticRegression(max_iter=MAX_STEPS).fit(x, y)
    return [classifier.predict_proba(other) for other in others]
