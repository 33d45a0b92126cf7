"""Transposed convolutions that are fast on a CPU as well.

PyTorch's own are slow there in two ways, which cost a decoder a third of its time:

- The way back is a plain convolution (for the input) and the weight gradient of a plain
  convolution, whose kernels are better than those it has of its own.
- Few output channels, as in the last layer of a decoder, leave most of a vector unit idle. A
  matrix product and a fold do the same work.

Values and gradients are those of `nn.ConvTranspose2d` but for the last bits of single precision.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Pair = tuple[int, ...]

FEW = 4
"""Output channels up to which a matrix product and a fold are faster."""


class UpConvolution(nn.ConvTranspose2d):
    """`nn.ConvTranspose2d` with the same parameters and results."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        plain = self.groups == 1 and self.dilation == (1, 1) and output_size is None
        if not plain or input.device.type != "cpu":
            return super().forward(input, output_size)
        return _Transposed.apply(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding
        )


class _Transposed(torch.autograd.Function):
    """A transposed convolution whose way back is made of plain ones."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, extra: Pair
    ) -> Tensor:
        way = _folded if weight.shape[1] <= FEW else F.conv_transpose2d
        return way(x, weight, bias, stride, padding, extra)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _, ctx.stride, ctx.padding, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (x, weight) = grads, ctx.saved_tensors
        for_x = for_weight = for_bias = None
        if ctx.needs_input_grad[0]:
            for_x = F.conv2d(grad, weight, None, ctx.stride, ctx.padding)
        if ctx.needs_input_grad[1]:  # x has the shape of what a convolution makes of `grad`
            for_weight = torch.ops.aten.convolution_backward(
                *(x, grad, weight, None, ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1),
                (False, True, False),
            )[1]
        if ctx.needs_input_grad[2]:
            for_bias = grad.sum((0, 2, 3))
        return for_x, for_weight, for_bias, None, None, None


def _folded(
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
