"""Encoder and decoder pairs, by name, for any image shape and for vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from untwine.errors import IncompatibleError
from untwine.parts.convolutions import UpConvolution
from untwine.registry import network
from untwine.schema import Count

MIN_SIDE, MAX_SIDE, MAX_CHANNELS = 8, 256, 4


@dataclass(frozen=True)
class Network:
    """An encoder (B, *shape) -> (B, features) and a decoder (B, d) -> (B, *shape)."""

    features: int
    encoder: Callable[[torch.Size], nn.Module]
    decoder: Callable[[int, torch.Size], nn.Module]


def is_image(shape: torch.Size) -> bool:
    return len(shape) == 3


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Pass a batch through without counting it in the running statistics of batch norms."""
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum


def default_for(shape: torch.Size) -> str:
    """The name of the network for data of this shape when none is chosen."""
    return "conv" if is_image(shape) else "mlp"


def require_image(shape: torch.Size) -> None:
    """Refuse what a convolutional network cannot take."""
    if not is_image(shape):
        raise IncompatibleError(
            f"a convolutional network needs images (C, H, W), not data of shape {tuple(shape)}; "
            "choose the network mlp"
        )
    channels, *sides = shape
    if not all(MIN_SIDE <= side <= MAX_SIDE for side in sides):
        raise IncompatibleError(
            f"a convolutional network takes images with sides from {MIN_SIDE} to {MAX_SIDE} "
            f"pixels, not {sides[0]}x{sides[1]}; resize the images or choose the network mlp"
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise IncompatibleError(
            f"a convolutional network takes 1 to {MAX_CHANNELS} channels, not {channels}; "
            "choose the network mlp"
        )


def _sides(shape: torch.Size) -> list[tuple[int, int]]:
    """The image's sides before and after each halving, down to about 4 pixels.

    >>> _sides(torch.Size((1, 28, 28)))
    [(28, 28), (14, 14), (7, 7), (3, 3)]
    """
    halvings = max(1, round(math.log2(min(shape[1:]) / 4)))
    return [(shape[1] >> i, shape[2] >> i) for i in range(halvings + 1)]


def doubling_widths(halvings: int, width: int) -> list[int]:
    """Channels after each halving: the first half `width`, the rest twice that."""
    return [width if 2 * i < halvings else 2 * width for i in range(halvings)]


def _conv_encoder(shape: torch.Size, width: int, hidden: int, late_kernel: int) -> nn.Module:
    require_image(shape)
    sides = _sides(shape)
    widths = doubling_widths(len(sides) - 1, width)
    layers: list[nn.Module] = []
    for before, after in pairwise([shape[0], *widths]):
        kernel = 4 if after == width else late_kernel
        convolution = nn.Conv2d(before, after, kernel, 2, padding=kernel // 2 - 1)
        layers += [convolution, nn.ReLU(inplace=True)]  # a copy would cost as much again
    flat = widths[-1] * math.prod(sides[-1])
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, hidden), nn.ReLU())


def _conv_decoder(code: int, shape: torch.Size, width: int, hidden: int) -> nn.Module:
    sides = _sides(shape)[::-1]
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


def _conv(width: int, hidden: int, late_kernel: int) -> Network:
    return Network(
        hidden,
        lambda shape: _conv_encoder(shape, width, hidden, late_kernel),
        lambda code, shape: _conv_decoder(code, shape, width, hidden),
    )


@network(title="Convolutional, as in the 2019 study", paper="Locatello et al., 2019")
def conv(*, width: Count = 32, hidden: Count = 256) -> Network:
    """Strided convolutions of the 2019 study (Locatello et al., 2019); at 64 pixels exactly its layers.

    Four convolutions (32, 32, 64, 64 channels; kernels 4, 4, 2, 2), one hidden layer, and four
    transposed convolutions back. Other sizes halve until about 4 pixels are left: three
    convolutions for 28 and 32 pixels.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: units of the fully connected layer.
    """  # noqa: E501
    return _conv(width, hidden, late_kernel=2)


@network(title="Convolutional, kernel 4", paper="Higgins et al., 2017")
def conv_k4(*, width: Count = 32, hidden: Count = 256) -> Network:
    """Strided convolutions with kernel 4 throughout, as in Higgins et al., 2017, and FactorVAE.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: units of the fully connected layer; FactorVAE has 128 for two-dimensional shapes.
    """
    return _conv(width, hidden, late_kernel=4)


def stack(sizes: list[int], activation: Callable[[], nn.Module]) -> list[nn.Module]:
    return [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), activation())]


def mlp_encoder(shape: torch.Size, hidden: list[int]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *stack([shape.numel(), *hidden], nn.ReLU))


def mlp_decoder(
    code: int, shape: torch.Size, hidden: list[int], activation: Callable[[], nn.Module]
) -> nn.Module:
    last = nn.Linear(hidden[-1], shape.numel())
    return nn.Sequential(*stack([code, *hidden], activation), last, nn.Unflatten(1, shape))


@network(title="Fully connected", paper="Kingma and Welling, 2014")
def mlp(*, width: Count = 256, depth: Count = 2) -> Network:
    """Fully connected layers with ReLU, for vectors and small images, as in Kingma and Welling, 2014.

    Args:
        width: units of each hidden layer.
        depth: hidden layers of the encoder, and of the decoder.
    """  # noqa: E501
    hidden = [width] * depth
    return Network(
        width,
        lambda shape: mlp_encoder(shape, hidden),
        lambda code, shape: mlp_decoder(code, shape, hidden, nn.ReLU),
    )


@network(title="Fully connected, for dSprites", paper="Higgins et al., 2017")
def mlp_tanh(*, width: Count = 1200) -> Network:
    """The fully connected pair of Higgins et al., 2017: two ReLU layers in, three tanh layers out.

    Args:
        width: units of each hidden layer.
    """
    return Network(
        width,
        lambda shape: mlp_encoder(shape, [width] * 2),
        lambda code, shape: mlp_decoder(code, shape, [width] * 3, nn.Tanh),
    )
