"""Convolutional pairs without batch normalisation."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import nn

from untwine.networks._convolutions import (
    UpConvolution,
    conv_pair,
    count_halvings,
    dense_to_image,
    doubling_widths,
    relu,
    require_image,
)
from untwine.networks.mlp import dense_layers
from untwine.records import Network
from untwine.registry import network
from untwine.schema import Width


def _halved_sides(shape: torch.Size) -> list[tuple[int, int]]:
    """The image's sides before and after each halving, down to about 4 pixels.

    >>> _halved_sides(torch.Size((1, 28, 28)))
    [(28, 28), (14, 14), (7, 7), (3, 3)]
    """
    return [(shape[1] >> i, shape[2] >> i) for i in range(count_halvings(shape, 4) + 1)]


def _conv_encoder(shape: torch.Size, width: int, hidden: int, late_kernel: int) -> nn.Module:
    require_image(shape)
    sides = _halved_sides(shape)
    widths = doubling_widths(len(sides) - 1, width)
    layers: list[nn.Module] = []
    for before, after in pairwise([shape[0], *widths]):
        kernel = 4 if after == width else late_kernel
        convolution = nn.Conv2d(before, after, kernel, 2, padding=kernel // 2 - 1)
        layers += [convolution, nn.ReLU(inplace=True)]  # a copy would cost as much again
    flat = widths[-1] * math.prod(sides[-1])
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, hidden), nn.ReLU())


def _conv_decoder(code: int, shape: torch.Size, width: int, hidden: int) -> nn.Module:
    sides = _halved_sides(shape)[::-1]
    widths = doubling_widths(len(sides) - 1, width)[::-1]
    layers: list[nn.Module] = [
        nn.Linear(code, hidden),
        nn.ReLU(),
        nn.Linear(hidden, widths[0] * math.prod(sides[0])),
        nn.ReLU(),
        nn.Unflatten(1, (widths[0], *sides[0])),
    ]
    for (before, after), (small, large) in zip(
        pairwise([*widths, shape[0]]), pairwise(sides), strict=True
    ):
        # A transposed convolution doubles; an odd side needs one more pixel.
        extra = (large[0] - 2 * small[0], large[1] - 2 * small[1])
        convolution = UpConvolution(before, after, 4, 2, 1, output_padding=extra)
        layers += [convolution, nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])


def _strided_pair(width: int, hidden: int, late_kernel: int) -> Network:
    return Network(
        hidden,
        lambda shape: _conv_encoder(shape, width, hidden, late_kernel),
        lambda code, shape: _conv_decoder(code, shape, width, hidden),
    )


@network(title="Convolutional, as in the 2019 study", paper="Locatello et al., 2019")
def conv(*, width: Width = 32, hidden: Width = 256) -> Network:
    """Strided convolutions of the 2019 study (Locatello et al., 2019); at 64 pixels exactly its layers.

    Four convolutions (32, 32, 64, 64 channels; kernels 4, 4, 2, 2), one hidden layer, and four
    transposed convolutions back. Other sizes halve until about 4 pixels are left: three
    convolutions for 28 and 32 pixels.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: units of the fully connected layer.
    """  # noqa: E501
    return _strided_pair(width, hidden, late_kernel=2)


@network(title="Convolutional, kernel 4", paper="Higgins et al., 2017")
def conv_k4(*, width: Width = 32, hidden: Width = 256) -> Network:
    """Strided convolutions with kernel 4 throughout, as in Higgins et al., 2017, and FactorVAE.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: units of the fully connected layer; FactorVAE has 128 for two-dimensional shapes.
    """
    return _strided_pair(width, hidden, late_kernel=4)


@network(title="Convolutional, 32 channels throughout", paper="Burgess et al., 2018")
def conv_burgess(*, width: Width = 32, hidden: Width = 256) -> Network:
    """Strided convolutions of one width and two hidden layers, as in Burgess et al., 2018.

    At 64 pixels four convolutions, at 28 and 32 pixels three.

    Args:
        width: channels of every layer.
        hidden: units of each of the two fully connected layers.
    """
    return conv_pair(
        hidden,
        lambda shape: [width] * count_halvings(shape, 4),
        lambda image: [
            *image.down(relu),
            nn.Flatten(),
            *dense_layers([width * math.prod(image.last_sides), hidden, hidden], nn.ReLU),
        ],
        lambda code, image: [
            *dense_layers([code, hidden, hidden], nn.ReLU),
            *dense_to_image(hidden, width, image.last_sides),
            *image.up(relu),
        ],
    )
