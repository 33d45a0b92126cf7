"""Reconstruction error per pixel."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import as_float64
from untwine.registry import metric

MIN_PROBABILITY = 1e-7  # and at most 1 minus this, so that logarithms are finite


@metric(
    title="Reconstruction error",
    short_title="Reconstruction",
    paper="Kumar et al., 2018",
    url="https://arxiv.org/abs/1711.00848",
    higher_is_better=False,
    range=(0.0, None),
    unchanged_by=(),
)
def reconstruction(images: ArrayLike, reconstructions: ArrayLike) -> dict[str, float]:
    """Squared error and cross-entropy per pixel and channel, as Kumar et al., 2018, report it.

    squared_error = mean (x − x̂)²,   cross_entropy = −mean [x log x̂ + (1−x) log(1−x̂)]

    x̂ is decoded from the posterior mean. Images lie in [0, 1]; the cross-entropy is left out for
    other data. Multiply by the number of pixels to compare with sums over pixels.

    Blind spots: the mean over pixels hardly sees what is small, so losing a sprite can cost less
    than blurring a background. It says nothing of samples or of what the latents mean, and copying
    the image scores best. The paper names no loss: its values fit the squared error for images in
    [0, 1] on shapes, and not on faces, where they are too large for it.

    >>> import numpy as np
    >>> reconstruction(np.ones((2, 1, 4, 4)), np.full((2, 1, 4, 4), 0.5))["squared_error"]
    0.25
    """
    x, y = _check_real(images), _check_real(reconstructions)
    if x.shape != y.shape or not x.size:
        raise DataError(
            f"images and reconstructions must have one shape, not {x.shape} and {y.shape}"
        )
    scores = {"squared_error": float(np.square(x - y).mean())}
    if min(x.min(), y.min()) >= 0 and max(x.max(), y.max()) <= 1:
        p = y.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        scores["cross_entropy"] = float(-(x * np.log(p) + (1 - x) * np.log1p(-p)).mean())
    return scores


def _check_real(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(as_float64(values))
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise DataError("images and reconstructions must be finite numbers")
    return array.astype(np.float64)
