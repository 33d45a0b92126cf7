"""Fully connected pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal

import torch
from torch import nn

from untwine.records import Network
from untwine.registry import network
from untwine.schema import Range, Width


def dense_layers(sizes: list[int], activation: Callable[[], nn.Module]) -> list[nn.Module]:
    """Fully connected layers from each size to the next, each with its activation."""
    return [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), activation())]


def mlp_encoder(shape: torch.Size, hidden: list[int]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *dense_layers([shape.numel(), *hidden], nn.ReLU))


def mlp_decoder(
    code: int, shape: torch.Size, hidden: list[int], activation: Callable[[], nn.Module]
) -> nn.Module:
    last = nn.Linear(hidden[-1], shape.numel())
    return nn.Sequential(*dense_layers([code, *hidden], activation), last, nn.Unflatten(1, shape))


@network(title="Fully connected", paper="Kingma and Welling, 2014")
def mlp(*, width: Width = 256, depth: Annotated[int, Range(1, 100)] = 2) -> Network:
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
def mlp_tanh(*, width: Width = 1200) -> Network:
    """The fully connected pair of Higgins et al., 2017: two ReLU layers in, three tanh layers out.

    Args:
        width: units of each hidden layer.
    """
    return Network(
        width,
        lambda shape: mlp_encoder(shape, [width] * 2),
        lambda code, shape: mlp_decoder(code, shape, [width] * 3, nn.Tanh),
    )


@network(title="Fully connected, one layer", paper="Peis et al., 2020")
def mlp_ug(*, width: Width = 256) -> Network:
    """The fully connected pair of UG-VAE (Peis et al., 2020), for MNIST: one ReLU layer each way.

    Args:
        width: units of the hidden layer.
    """
    return mlp(width=width, depth=1)


def start_as_keras(model: nn.Module) -> None:
    """Give fully connected layers the initial weights of Keras: Glorot's, and biases of zero."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


@network(title="Fully connected, ten units", paper="Miao et al., 2022")
def mlp_toy(*, width: Width = 10, weights: Literal["torch", "keras"] = "torch") -> Network:
    """The small pair for points in the plane of Miao et al., 2022: two ReLU layers each way.

    As in its notebooks; the paper speaks of three layers. Its decoder gives a mean and a
    log-variance: choose the likelihood learned-gaussian. So few units often stop before they have
    an outline, and more often with the initial weights of PyTorch than with those of Keras, in
    which the notebooks are written.

    Args:
        width: units of each hidden layer.
        weights: of the whole model at the start: PyTorch's, or Keras's, which are larger (Glorot,
            2010), with biases of zero.
    """
    network = mlp(width=width, depth=2)
    return replace(network, start=start_as_keras) if weights == "keras" else network


@network(title="Fully connected, narrowing", paper="Zhao et al., 2019")
def mlp_tgm(*, width: Width = 384, narrow: Width = 64) -> Network:
    """The pair for MNIST of the truncated mixture VAE of Zhao et al., 2019.

    One ReLU layer in, two out. The paper's encoder goes on with two branches of 64 units, one for
    the latents and one for the outliers: what the latents need beyond the shared layer is theirs.

    Args:
        width: units of the layer next to the data.
        narrow: units of the layer next to the code, in the decoder.
    """
    return Network(
        width,
        lambda shape: mlp_encoder(shape, [width]),
        lambda code, shape: mlp_decoder(code, shape, [narrow, width], nn.ReLU),
    )


@network(title="Fully connected, one tanh layer", paper="Bouchacourt et al., 2018")
def mlp_mlvae(*, width: Width = 500) -> Network:
    """The fully connected pair of ML-VAE (Bouchacourt et al., 2018): one tanh layer each way.

    Its decoder gives a mean and a log-variance: choose the likelihood learned-gaussian.

    Args:
        width: units of the hidden layer.
    """
    return Network(
        width,
        lambda shape: nn.Sequential(nn.Flatten(), *dense_layers([shape.numel(), width], nn.Tanh)),
        lambda code, shape: mlp_decoder(code, shape, [width], nn.Tanh),
    )
