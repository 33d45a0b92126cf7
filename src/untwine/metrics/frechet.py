"""The Fréchet distance between generated and real images on features learned from the data."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import check
from untwine.registry import metric
from untwine.schema import Natural

PIXEL_SIDE = 16  # images are averaged down to this many pixels
Images = NDArray[np.float32]  # (M, C, H, W)


@metric(
    title="Fréchet distance on the data's own features",
    short_title="Fréchet",
    paper="Heusel et al., 2017",
    url="https://arxiv.org/abs/1706.08500",
    higher_is_better=False,
    range=(0.0, None),
    unchanged_by=(),
    variants={
        "pixels": {"features": "pixels"},
        "normal": {"sampler": "normal"},
        "stretch": {"stretch": True},
        "normal-stretch": {"sampler": "normal", "stretch": True},
    },
    slow=True,
)
def frechet(
    samples: ArrayLike,
    images: ArrayLike,
    factors: ArrayLike | None,
    *,
    features: Literal["classifier", "pixels"] = "classifier",
    sampler: Literal["own", "normal"] = "own",
    stretch: bool = False,
    seed: Natural = 0,
) -> dict[str, float]:
    """FID's distance (Heusel et al., 2017) on features of a small classifier, or on pixels.

    d = |m_s − m_x|² + tr(C_s + C_x − 2 (C_s C_x)^½)

    m and C are the mean and the covariance of features of samples and of images (M, C, H, W) in
    [0, 1]. The classifier is a convolutional network that learns all factors from the images in
    about a minute; its last 64 features are compared. `factors` (N, K) has one row for each image
    and perhaps more.

    `frechet[pixels]` compares the pixels themselves, averaged down to 16 a side, and needs no
    factors (None); vectors (M, D) are compared as they are.

    `frechet[stretch]` brings each sample to full contrast first, its darkest pixel to 0 and its
    brightest to 1, and leaves the images as they are, as the code of Miao et al., 2022, does; the
    order of models can depend on it. `frechet[normal]` decodes codes of N(0, I), whatever the
    model's prior.

    The second value is the distance between the two halves of the images: the score of real images,
    half as many.

    Blind spots: the unit depends on the data, on the number of examples and on the classifier, so
    compare models of one dataset with one seed, and read the order rather than the number. It is
    not FID. The classifier sees what tells factors apart and little else; pixels see neither edges
    nor sharpness. Few samples raise the distance, and with fewer than features the covariance is
    not of full rank.

    Args:
        features: of a classifier of the factors, or the pixels.
        sampler: where the samples of a model come from: its own prior, or N(0, I). Arrays are taken
            as they are.
        stretch: bring each sample to full contrast.
        seed: of the classifier's weights and of the order of its training images.

    >>> import numpy as np
    >>> a = np.array([[-1.0], [1.0], [-1.0], [1.0]])
    >>> scores = frechet(a + 3, a, None, features="pixels")
    >>> round(scores["distance"], 6), round(scores["real_halves"], 6)
    (9.0, 0.0)
    """
    from untwine.estimators.classifier import (
        check_images,
        check_pair,
        shrink_images,
        stretch_images,
    )
    from untwine.estimators.frechet import frechet_distance

    samples = stretch_images(samples, images) if stretch else samples
    if features == "pixels":
        made, real = (
            shrink_images(x, PIXEL_SIDE).reshape(len(x), -1) for x in check_pair(samples, images)
        )
    elif factors is None:
        raise DataError("the classifier needs factors to learn; write features='pixels'")
    else:
        made, real = _classifier_features(*check_images(samples, images), factors, seed)
    half = len(real) // 2
    if half < 2:
        raise DataError(f"{len(real)} real examples are too few to compare with")
    return {
        "distance": frechet_distance(made, real),
        "real_halves": frechet_distance(real[:half], real[half:]),
    }


def _classifier_features(
    made: Images, real: Images, factors: ArrayLike, seed: int
) -> tuple[Images, Images]:
    """(M, F) features of samples and of images by a classifier of the images."""
    from untwine.estimators.classifier import check_factors, train_classifier

    levels = check_factors(factors, len(real))[: len(real)]
    _, numbered = check(levels, levels)
    classifier = train_classifier(real, numbered, seed)
    return classifier.features(made), classifier.features(real)
