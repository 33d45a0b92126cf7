"""What the convolutional pairs share: checks, layers, and the way from layers to a pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from untwine.errors import IncompatibleError
from untwine.records import Network, is_image

Pair = tuple[int, ...]
Layers = list[nn.Module]
LayersFor = Callable[[int], Layers]
"""The layers that accompany a convolution of so many channels."""
MIN_SIDE, MAX_SIDE, MAX_CHANNELS = 8, 256, 4
MAX_FOLDED_CHANNELS = 4
"""Output channels up to which a matrix product and a fold are faster."""


def require_image(shape: torch.Size) -> None:
    """Refuse shapes that a convolutional network cannot take."""
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


def conv_pair(
    features: int,
    widths: Callable[[torch.Size], list[int]],
    encoder: Callable[[Ladder], Layers],
    decoder: Callable[[int, Ladder], Layers],
) -> Network:
    """A convolutional pair from the layers of its encoder and of its decoder."""

    def encode(shape: torch.Size) -> nn.Module:
        require_image(shape)
        return nn.Sequential(*encoder(Ladder(shape, widths(shape))))

    def decode(code: int, shape: torch.Size) -> nn.Module:
        return nn.Sequential(*decoder(code, Ladder(shape, widths(shape))))

    return Network(features, encode, decode)


@dataclass(frozen=True)
class Ladder:
    """An image shape and the channels after each halving of its sides."""

    shape: torch.Size
    widths: list[int]

    def sides(self, halvings: int) -> tuple[int, int]:
        """Height and width after so many halvings; half a pixel counts as one."""
        _, height, width = self.shape
        return -(-height >> halvings), -(-width >> halvings)

    @property
    def last_sides(self) -> tuple[int, int]:
        """Height and width after all halvings."""
        return self.sides(len(self.widths))

    def down(
        self, after: LayersFor, *, first: LayersFor | None = None, bias: bool = True
    ) -> Layers:
        """Convolutions of kernel 4 that halve the sides, each followed by `after` (or `first`)."""
        layers: Layers = []
        for i, (a, b) in enumerate(pairwise([self.shape[0], *self.widths])):
            height, width = self.sides(i)
            if height % 2 or width % 2:  # one more pixel where half a pixel would be lost
                layers.append(nn.ZeroPad2d((0, width % 2, 0, height % 2)))
            follow = first if first and i == 0 else after
            layers += [nn.Conv2d(a, b, 4, 2, 1, bias=bias), *follow(b)]
        return layers

    def up(self, before: LayersFor, *, bias: bool = True) -> Layers:
        """Convolutions back from the last sides to the image, each preceded by `before`."""
        return [
            *double_sides([*self.widths[::-1], self.shape[0]], before, bias=bias),
            *self.crop_overshoot(),
        ]

    def crop_overshoot(self) -> Layers:
        """No layer, or a crop where doubling the last sides overshoots the image."""
        reached = tuple(side << len(self.widths) for side in self.last_sides)
        return [] if reached == self.shape[1:] else [Crop(self.shape)]

    def flatten(self, side: int) -> Layers:
        """Flatten to a fixed number of features; sizes other than the paper's are pooled."""
        pool = [] if self.last_sides == (side, side) else [nn.AdaptiveAvgPool2d(side)]
        return [*pool, nn.Flatten()]


def count_halvings(shape: torch.Size, left: int) -> int:
    """How often to halve a side until about `left` pixels are left."""
    return max(1, round(math.log2(min(shape[1:]) / left)))


def doubling_widths(halvings: int, width: int) -> list[int]:
    """Channels after each halving: the first half `width`, the rest twice that."""
    return [width if 2 * i < halvings else 2 * width for i in range(halvings)]


def doubling_channels(first: int, last: int, left: int) -> Callable[[torch.Size], list[int]]:
    """Channels that double up to `last` where `left` pixels are left, never fewer than `first`.

    >>> doubling_channels(32, 128, left=4)(torch.Size((1, 64, 64)))
    [32, 32, 64, 128]
    """
    return lambda shape: [
        max(first, last >> i) for i in reversed(range(count_halvings(shape, left)))
    ]


def relu(channels: int) -> Layers:
    return [nn.ReLU(inplace=True)]


def leaky_relu(channels: int) -> Layers:
    return [nn.LeakyReLU(0.2, inplace=True)]


def dense_to_image(code: int, channels: int, sides: tuple[int, int]) -> Layers:
    """A fully connected layer to a small image."""
    flat = channels * math.prod(sides)
    return [nn.Linear(code, flat), nn.Unflatten(1, (channels, *sides))]


def double_sides(channels: list[int], before: LayersFor, *, bias: bool = True) -> Layers:
    """Transposed convolutions of kernel 4 that double the sides, each preceded by `before`."""
    return [
        layer
        for a, b in pairwise(channels)
        for layer in (*before(a), UpConvolution(a, b, 4, 2, 1, bias=bias))
    ]


class Crop(nn.Module):
    """The image of this shape that begins `first` pixels from the upper left corner."""

    def __init__(self, shape: torch.Size, first: int = 0) -> None:
        super().__init__()
        self.rows, self.columns = (slice(first, first + side) for side in shape[1:])

    def forward(self, x: Tensor) -> Tensor:
        return x[..., self.rows, self.columns]


def with_initial_weights(
    make: Callable[..., nn.Module],
    kinds: type[nn.Module] | tuple[type[nn.Module], ...],
    initialise: Callable[[Tensor], object],
) -> Callable[..., nn.Module]:
    """Wrap `make` so that layers of these kinds start from other weights."""

    def build(*args: int | torch.Size) -> nn.Module:
        network = make(*args)
        for layer in network.modules():
            if isinstance(layer, kinds):
                initialise(layer.get_parameter("weight"))
        return network

    return build


class UpConvolution(nn.ConvTranspose2d):
    """`nn.ConvTranspose2d` with the same parameters and results, faster on a CPU."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        plain = self.groups == 1 and self.dilation == (1, 1) and output_size is None
        if not plain or input.device.type != "cpu":
            return super().forward(input, output_size)
        return _Transposed.apply(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding
        )


class _Transposed(torch.autograd.Function):
    """A transposed convolution whose backward pass consists of plain convolutions."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, extra: Pair
    ) -> Tensor:
        folds = weight.shape[1] <= MAX_FOLDED_CHANNELS
        convolve = _matmul_and_fold if folds else F.conv_transpose2d
        return convolve(x, weight, bias, stride, padding, extra)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _, ctx.stride, ctx.padding, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (x, weight) = grads, ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = F.conv2d(grad, weight, None, ctx.stride, ctx.padding)
        if ctx.needs_input_grad[1]:  # x has the shape of a convolution of `grad`
            grad_weight = torch.ops.aten.convolution_backward(
                *(x, grad, weight, None, ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1),
                (False, True, False),
            )[1]
        if ctx.needs_input_grad[2]:
            grad_bias = grad.sum((0, 2, 3))
        return grad_x, grad_weight, grad_bias, None, None, None


def _matmul_and_fold(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, extra: Pair
) -> Tensor:
    """A transposed convolution as a matrix product and a fold."""
    kernel = weight.shape[2:]
    sides = tuple(
        (before - 1) * s - 2 * p + k + e
        for before, s, p, k, e in zip(x.shape[2:], stride, padding, kernel, extra, strict=True)
    )
    columns = weight.flatten(1).t() @ x.flatten(2)  # (B, C·kh·kw, H·W)
    y = F.fold(columns, sides, kernel, padding=padding, stride=stride)
    return y if bias is None else y + bias[:, None, None]
