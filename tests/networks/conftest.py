"""Both halves of a network as a list of words, one per layer."""

from itertools import chain

import pytest
import torch
from torch import nn

from untwine.networks import _convolutions, batch_norm, gated
from untwine.registry import networks


@pytest.fixture(scope="session")
def words():
    """What the layers of a module say of themselves."""
    return describe_children


@pytest.fixture(scope="session")
def pair():
    """The words of the encoder and of the decoder of a network, by its name."""

    def describe_pair(name, shape, code=10):
        network, shape = networks.make(networks.choose(name)), torch.Size(shape)
        encoder, decoder = network.encoder(shape), network.decoder(code, shape)
        assert encoder(torch.rand(2, *shape)).shape == (2, network.features)
        assert decoder(torch.rand(2, code)).shape == (2, *shape)
        return describe_children(encoder), describe_children(decoder)

    return describe_pair


def describe_children(module):
    return list(chain.from_iterable(map(describe, module.children())))


def describe(layer):
    match layer:
        case nn.Conv2d() | nn.ConvTranspose2d():
            return [convolution(layer)]
        case nn.Linear():
            return [f"fc {layer.in_features}>{layer.out_features}"]
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            return [f"bn {layer.num_features}"]
        case nn.LeakyReLU():
            return [f"leaky {layer.negative_slope}"]
        case nn.Unflatten():
            return ["to " + "x".join(map(str, layer.unflattened_size))]
        case nn.ZeroPad2d():
            return [f"pad {layer.padding}"]
        case batch_norm._Norm():
            return describe(layer.norm)
        case gated._Gated():
            assert describe(layer.h) == describe(layer.g)
            return [f"gated {text}" for text in describe(layer.h)]
        case _convolutions.Crop():
            return [f"crop {layer.rows.start}:{layer.rows.stop}"]
        case _:
            return [type(layer).__name__.lower()]


def convolution(layer):
    kind = "up" if isinstance(layer, nn.ConvTranspose2d) else "conv"
    assert layer.kernel_size[0] == layer.kernel_size[1]
    text = f"{kind} {layer.in_channels}>{layer.out_channels} k{layer.kernel_size[0]}"
    text += f" s{layer.stride[0]} p{layer.padding[0]}"
    text += f" +{layer.output_padding[0]}" if any(layer.output_padding) else ""
    return text if layer.bias is not None else f"{text} no bias"
