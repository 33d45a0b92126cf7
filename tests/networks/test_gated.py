"""The layers of the gated pairs, and their initial weights."""

import pytest
import torch
from torch import nn

from untwine.networks import gated
from untwine.registry import networks


def make(name, **params):
    return networks.make(networks.choose(name, **params))


def test_gated_convolutions_at_28_pixels(pair):
    encoder, decoder = pair("conv-gated", (1, 28, 28), code=64)
    convs = ["1>32 k5 s1", "32>32 k5 s2", "32>64 k5 s1", "64>64 k5 s2", "64>64 k5 s1"]
    down = [f"gated conv {text} p2" for text in convs]
    assert encoder == [*down, "gated conv 64>256 k7 s1 p0", "flatten"]
    assert decoder == [
        "to 64x1x1",
        "gated up 64>64 k7 s1 p0",
        "gated up 64>64 k5 s1 p2",
        "gated up 64>32 k5 s2 p2 +1",
        "gated up 32>32 k5 s1 p2",
        "gated up 32>32 k5 s2 p2 +1",
        "gated up 32>32 k5 s1 p2",
        "conv 32>1 k1 s1 p0",
    ]


def test_a_gate_multiplies():
    layer = gated._Gated(lambda: nn.Linear(3, 2))
    x = torch.randn(5, 3)
    assert torch.equal(layer(x), layer.h(x) * torch.sigmoid(layer.g(x)))


def test_initial_weights_of_the_gated_layers():
    torch.manual_seed(0)
    network, shape = make("mlp-gated"), torch.Size((1, 28, 28))
    for half in (network.encoder(shape), network.decoder(40, shape)):
        for layer in half.modules():
            if isinstance(layer, nn.Linear):
                expected = (2 / layer.in_features) ** 0.5
                assert layer.weight.std().item() == pytest.approx(expected, rel=0.05)
