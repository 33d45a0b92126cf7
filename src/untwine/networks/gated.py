"""Gated pairs: h ⊙ sigmoid(g)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from untwine.networks._convolutions import (
    UpConvolution,
    conv_pair,
    count_halvings,
    doubling_widths,
    with_initial_weights,
)
from untwine.records import Network
from untwine.registry import network
from untwine.schema import Width

if TYPE_CHECKING:
    from untwine.networks._convolutions import Ladder, Layers


class _Gated(nn.Module):
    """h(x) ⊙ sigmoid(g(x)), with two layers of the same kind."""

    def __init__(self, layer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.h, self.g = layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        return self.h(x) * self.g(x).sigmoid()


def _gated_down(image: Ladder, features: int) -> Layers:
    def gated(a: int, b: int, stride: int = 1) -> nn.Module:
        return _Gated(partial(nn.Conv2d, a, b, 5, stride, 2))

    top = image.widths[-1]
    pairs = pairwise([image.shape[0], *image.widths])
    last = _Gated(partial(nn.Conv2d, top, features, image.last_sides))
    halve = [layer for a, b in pairs for layer in (gated(a, b), gated(b, b, stride=2))]
    return [*halve, gated(top, top), last, nn.Flatten()]


def _gated_up(code: int, image: Ladder) -> Layers:
    def gated(a: int, b: int, stride: int = 1) -> nn.Module:
        return _Gated(partial(UpConvolution, a, b, 5, stride, 2, output_padding=stride - 1))

    bottom, top = image.widths[0], image.widths[-1]
    pairs = pairwise([*image.widths[::-1], bottom])
    first = _Gated(partial(UpConvolution, code, top, image.last_sides))
    double = [layer for a, b in pairs for layer in (gated(a, a), gated(a, b, stride=2))]
    last = nn.Conv2d(bottom, image.shape[0], 1)
    return [
        nn.Unflatten(1, (code, 1, 1)),
        first,
        *double,
        gated(bottom, bottom),
        last,
        *image.crop_overshoot(),
    ]


@network(title="Convolutional, gated", paper="van den Berg et al., 2018")
def conv_gated(*, width: Width = 32, hidden: Width = 256) -> Network:
    """Gated convolutions h ⊙ sigmoid(g) of kernel 5, as in van den Berg et al., 2018, for 28 pixels.

    Each halving is a pair of layers, with strides 1 and 2; at 7x7 one layer covers all that is
    left. The paper's variance is softplus of a linear head, here the model's posterior decides.
    Other images are halved to about 7 pixels.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: features between the convolutions and the latents.
    """  # noqa: E501
    return conv_pair(
        hidden,
        lambda shape: doubling_widths(count_halvings(shape, 7), width),
        lambda image: _gated_down(image, hidden),
        _gated_up,
    )


@network(title="Fully connected, gated", paper="Tomczak and Welling, 2018")
def mlp_gated(*, width: Width = 300) -> Network:
    """Two gated layers h ⊙ sigmoid(g) in and two out, as in Tomczak and Welling, 2018.

    Initial weights are from N(0, 2/inputs). The paper bounds its log-variance to [−6, 2], here the
    model's posterior decides.

    Args:
        width: units of each hidden layer.
    """

    def hidden(size: int) -> Layers:
        return [_Gated(partial(nn.Linear, a, b)) for a, b in pairwise([size, width, width])]

    def encoder(shape: torch.Size) -> nn.Module:
        return nn.Sequential(nn.Flatten(), *hidden(shape.numel()))

    def decoder(code: int, shape: torch.Size) -> nn.Module:
        last = nn.Linear(width, shape.numel())
        return nn.Sequential(*hidden(code), last, nn.Unflatten(1, shape))

    he = nn.init.kaiming_normal_
    return Network(
        width,
        with_initial_weights(encoder, nn.Linear, he),
        with_initial_weights(decoder, nn.Linear, he),
    )
