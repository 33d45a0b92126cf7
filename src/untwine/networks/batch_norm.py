"""Pairs with batch normalisation, in the encoder at least."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from untwine.errors import IncompatibleError
from untwine.networks._convolutions import (
    Crop,
    UpConvolution,
    conv_pair,
    count_halvings,
    dense_to_image,
    double_sides,
    doubling_channels,
    doubling_widths,
    leaky_relu,
    relu,
    with_initial_weights,
)
from untwine.networks.mlp import mlp_decoder
from untwine.records import Network
from untwine.registry import network
from untwine.schema import Width

if TYPE_CHECKING:
    from untwine.networks._convolutions import Ladder, Layers


def norm_relu(channels: int) -> Layers:
    return [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]


def norm_leaky_relu(channels: int) -> Layers:
    return [nn.BatchNorm2d(channels), nn.LeakyReLU(0.2, inplace=True)]


class _Norm(nn.Module):
    """Batch normalisation of features (B, F), which has nothing to normalise in one example."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, h: Tensor) -> Tensor:
        if self.training and len(h) < 2:
            raise IncompatibleError(
                "this network has batch normalisation, which needs a batch of at least 2 examples "
                "to train; use a larger batch or the network conv or mlp"
            )
        return self.norm(h)


@network(title="Convolutional, for MNIST, with batch normalisation", paper="Miao et al., 2022")
def conv_intel(*, width: Width = 32) -> Network:
    """The pair for MNIST and Fashion-MNIST of Miao et al., 2022, as in its released code.

    At 28 pixels three convolutions to 4x4, and back from 7x7 with two transposed convolutions that
    double and one that does not. Other images are halved to about 4 pixels and pooled to 4x4.
    Batch normalisation has PyTorch's constants, not those of Keras.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """

    def decoder(code: int, image: Ladder) -> Layers:
        start = image.sides(len(image.widths) - 1)
        return [
            *dense_to_image(code, image.widths[-1], start),
            nn.ReLU(),
            *double_sides(image.widths[::-1], norm_relu),
            *norm_relu(image.widths[0]),
            UpConvolution(image.widths[0], image.shape[0], 4),
            Crop(image.shape, first=1),  # what padding "same" keeps
        ]

    return conv_pair(
        4 * width * 4 * 4,
        doubling_channels(width, 4 * width, left=4),
        lambda image: [*image.down(norm_leaky_relu), *image.flatten(4)],
        decoder,
    )


@network(title="Convolutional, for CelebA, with batch normalisation", paper="Miao et al., 2022")
def conv_intel_celeba(*, width: Width = 64) -> Network:
    """The pair for CelebA of Miao et al., 2022, as in its released code, which differs from Table C.2.

    At 64 pixels three convolutions to 8x8 and three transposed convolutions back. Other images are
    halved to about 8 pixels and pooled to 8x8. Batch normalisation has PyTorch's constants.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """  # noqa: E501
    return conv_pair(
        4 * width * 8 * 8,
        doubling_channels(width, 4 * width, left=8),
        lambda image: [*image.down(norm_leaky_relu), *image.flatten(8)],
        lambda code, image: [
            *dense_to_image(code, 4 * width, image.last_sides),
            nn.ReLU(),
            *image.up(norm_relu),
        ],
    )


@network(title="Convolutional, with batch normalisation in the encoder", paper="Peis et al., 2020")
def conv_ug(*, width: Width = 32, hidden: Width = 256) -> Network:
    """The convolutional pair of UG-VAE (Peis et al., 2020), for CelebA, faces, cars and chairs.

    At 64 pixels four convolutions to 4x4 and one over all that is left; the same way back, without
    batch normalisation. Training needs batches of at least two examples.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: features between the convolutions and the latents.
    """
    return conv_pair(
        hidden,
        lambda shape: doubling_widths(count_halvings(shape, 4), width),
        lambda image: [
            *image.down(norm_relu),
            nn.Conv2d(image.widths[-1], hidden, image.last_sides),
            nn.Flatten(),
            _Norm(hidden),
            nn.ReLU(),
        ],
        lambda code, image: [
            *dense_to_image(code, hidden, (1, 1)),
            nn.ReLU(),
            UpConvolution(hidden, image.widths[-1], image.last_sides),
            *image.up(relu),
        ],
    )


@network(title="Convolutional, as in DCGAN", paper="Mathieu et al., 2019")
def conv_dcgan(*, width: Width = 32) -> Network:
    """The pair for Fashion-MNIST at 32 pixels of Mathieu et al., 2019, after DCGAN.

    Three convolutions to 4x4 and four transposed convolutions back, without biases, with initial
    weights from N(0, 0.02²). The paper's heads are convolutions over the 4x4 features, the same as
    linear ones; its scale is softplus(·) + 1e-6, here the model's posterior decides. Other images
    are halved to about 4 pixels and pooled to 4x4.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """
    plain = conv_pair(
        4 * width * 4 * 4,
        doubling_channels(width, 4 * width, left=4),
        lambda image: [
            *image.down(norm_leaky_relu, first=leaky_relu, bias=False),
            *image.flatten(4),
        ],
        lambda code, image: [
            nn.Unflatten(1, (code, 1, 1)),
            UpConvolution(code, 4 * width, image.last_sides, bias=False),
            *image.up(norm_relu, bias=False),
        ],
    )
    small = partial(nn.init.normal_, std=0.02)
    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    return Network(
        plain.features,
        with_initial_weights(plain.encoder, kinds, small),
        with_initial_weights(plain.decoder, kinds, small),
    )


@network(title="Convolutional, for 128 pixels", paper="Taghanaki et al., 2020")
def conv_jigsaw(*, width: Width = 32) -> Network:
    """A deep pair for images of 128 pixels, the size of the images of Taghanaki et al., 2020.

    The paper does not give its layers; these are five convolutions to 4x4 (32 to 512 channels, batch
    normalisation, leaky ReLU) and the same way back. Other images are halved to about 4 pixels and
    pooled to 4x4.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """  # noqa: E501
    return conv_pair(
        16 * width * 4 * 4,
        doubling_channels(width, 16 * width, left=4),
        lambda image: [*image.down(norm_leaky_relu), *image.flatten(4)],
        lambda code, image: [
            *dense_to_image(code, 16 * width, image.last_sides),
            *image.up(norm_leaky_relu),
        ],
    )


@network(title="Fully connected, with batch normalisation", paper="Dilokthanakul et al., 2016")
def mlp_gm(*, width: Width = 500) -> Network:
    """The fully connected pair of GMVAE (Dilokthanakul et al., 2016): two ReLU layers each way.

    The encoder has batch normalisation, so training needs batches of at least two examples.

    Args:
        width: units of each hidden layer.
    """

    def encoder(shape: torch.Size) -> nn.Module:
        pairs = pairwise([shape.numel(), width, width])
        layers = [part for a, b in pairs for part in (nn.Linear(a, b), _Norm(b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *layers)

    return Network(
        width, encoder, lambda code, shape: mlp_decoder(code, shape, [width] * 2, nn.ReLU)
    )
