"""The fully connected pairs: their layers."""

import pytest
import torch
from torch import nn

import untwine
from untwine.networks.mlp import mlp_tanh
from untwine.registry import networks

FULLY_CONNECTED = {
    "mlp-ug": (["fc 784>256", "relu"], ["fc 10>256", "relu", "fc 256>784"]),
    "mlp-tgm": (
        ["fc 784>384", "relu"],
        ["fc 10>64", "relu", "fc 64>384", "relu", "fc 384>784"],
    ),
    "mlp-mlvae": (["fc 784>500", "tanh"], ["fc 10>500", "tanh", "fc 500>784"]),
    "mlp-gm": (
        ["fc 784>500", "bn 500", "relu", "fc 500>500", "bn 500", "relu"],
        ["fc 10>500", "relu", "fc 500>500", "relu", "fc 500>784"],
    ),
    "mlp-gated": (
        ["gated fc 784>300", "gated fc 300>300"],
        ["gated fc 10>300", "gated fc 300>300", "fc 300>784"],
    ),
}


def make(name, **params):
    return networks.make(networks.choose(name, **params))


def layers(module, kind):
    return [m for m in module.modules() if isinstance(m, kind)]


def test_the_fully_connected_pair_for_dsprites():
    network = mlp_tanh()
    shape = torch.Size((1, 64, 64))
    widths = [m.out_features for m in layers(network.encoder(shape), nn.Linear)]
    assert widths == [1200, 1200]
    decoder = network.decoder(10, shape)
    assert [m.out_features for m in layers(decoder, nn.Linear)] == [1200, 1200, 1200, 4096]
    assert len(layers(decoder, nn.Tanh)) == 3


@pytest.mark.parametrize("name", FULLY_CONNECTED)
def test_fully_connected_pairs_at_28_pixels(name, pair):
    encoder, decoder = FULLY_CONNECTED[name]
    assert pair(name, (1, 28, 28)) == (["flatten", *encoder], [*decoder, "to 1x28x28"])


def test_the_toy_pair_in_the_plane_with_mean_and_log_variance(words):
    network = make("mlp-toy")
    encoder = words(network.encoder(torch.Size((2,))))
    assert encoder == ["flatten", "fc 2>10", "relu", "fc 10>10", "relu"]
    decoder = words(network.decoder(1, torch.Size((4,))))
    assert decoder == ["fc 1>10", "relu", "fc 10>10", "relu", "fc 10>4", "to 4"]


def test_weights_as_in_keras_reach_every_layer_and_change_nothing_else():
    untouched, started = (
        untwine.build("vae", untwine.dataset("circle", count=50), latent=2, network=network)
        for network in ("mlp-toy", "mlp-toy(weights=keras)")
    )
    assert [p.shape for p in started.parameters()] == [p.shape for p in untouched.parameters()]
    for layer in layers(started, nn.Linear):
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert not layer.bias.any()
        assert bound / 2 < layer.weight.abs().max() <= bound
    assert all(layer.bias.any() for layer in layers(untouched, nn.Linear))
