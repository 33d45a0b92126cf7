"""What holds for every pair: the shapes it takes, what it refuses, that it trains."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.errors import IncompatibleError, ParameterError
from untwine.networks.conv import conv
from untwine.networks.mlp import mlp, mlp_tanh
from untwine.registry import networks

CONV = [
    "conv-burgess",
    "conv-dcgan",
    "conv-gated",
    "conv-intel",
    "conv-intel-celeba",
    "conv-jigsaw",
    "conv-ug",
]
MLP = ["mlp-gated", "mlp-gm", "mlp-mlvae", "mlp-tgm", "mlp-toy", "mlp-ug"]
NAMES = CONV + MLP
GENERAL = ["conv", "conv-k4", "mlp", "mlp-tanh"]  # of several papers
NORMALISED = ["conv-ug", "mlp-gm"]  # features of one example cannot be normalised


def make(name, **params):
    return networks.make(networks.choose(name, **params))


def test_all_pairs_are_registered():
    assert set(networks) == {*NAMES, *GENERAL}


@pytest.mark.parametrize("name", NAMES)
def test_pairs_are_documented(name):
    entry = networks[name]
    assert entry.paper in entry.description
    assert all(p.help for p in entry.parameters.values())


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NAMES), st.integers(1, 4), st.integers(8, 70), st.integers(8, 70))
def test_pairs_return_to_any_image_shape(name, channels, height, width):
    network, shape = make(name, width=4), torch.Size((channels, height, width))
    h = network.encoder(shape)(torch.rand(2, *shape))
    assert h.shape == (2, network.features)
    assert network.decoder(3, shape)(torch.rand(2, 3)).shape == (2, *shape)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 256, 256)])
def test_pairs_take_common_sizes(name, shape):
    network, shape = make(name, width=2), torch.Size(shape)
    assert network.encoder(shape)(torch.rand(2, *shape)).shape == (2, network.features)
    assert network.decoder(3, shape)(torch.rand(2, 3)).shape == (2, *shape)


@pytest.mark.parametrize("name", CONV)
def test_decoders_give_as_many_channels_as_a_likelihood_wants(name):
    decoder = make(name, width=2).decoder(3, torch.Size((8, 16, 16)))
    assert decoder(torch.rand(2, 3)).shape == (2, 8, 16, 16)


@pytest.mark.parametrize("name", MLP)
def test_fully_connected_pairs_take_vectors(name):
    network, shape = make(name, width=4), torch.Size((5,))
    assert network.encoder(shape)(torch.rand(2, 5)).shape == (2, 4)
    assert network.decoder(3, shape)(torch.rand(2, 3)).shape == (2, 5)


@pytest.mark.parametrize("side", [16, 20])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter(name, side):
    torch.manual_seed(0)
    network, shape = make(name, width=8), torch.Size((1, side, side))
    encoder, decoder = network.encoder(shape), network.decoder(4, shape)
    encoder(torch.rand(6, *shape)).square().sum().backward()
    decoder(torch.randn(6, 4)).square().sum().backward()
    for half in (encoder, decoder):
        for key, parameter in half.named_parameters():
            assert parameter.grad is not None
            # A bias before batch normalisation changes nothing.
            assert key.endswith("bias") or parameter.grad.abs().sum() > 0


@pytest.mark.parametrize("name", CONV)
@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ((5,), "network mlp"),
        ((1, 7, 64), "8 to 256"),
        ((1, 64, 257), "8 to 256"),
        ((5, 9, 9), "1 to 4"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name, shape, sentence):
    with pytest.raises(IncompatibleError, match=sentence):
        make(name).encoder(torch.Size(shape))


@pytest.mark.parametrize("name", NAMES)
def test_empty_pairs_are_refused(name):
    for parameter, kind in networks[name].parameters.items():
        if isinstance(kind.default, str):
            continue
        with pytest.raises(
            ParameterError,
            match=f"{name}.{parameter} must be a whole number (of at least 1|from 1 to)",
        ):
            make(name, **{parameter: 0})


@pytest.mark.parametrize("name", NAMES)
def test_one_example_is_encoded_or_refused(name):
    network, shape = make(name, width=4), torch.Size((1, 16, 16))
    encoder, x = network.encoder(shape), torch.rand(1, 1, 16, 16)
    assert encoder.eval()(x).shape == (1, network.features)
    encoder.train()
    if name not in NORMALISED:
        assert encoder(x).isfinite().all()
        return
    with pytest.raises(IncompatibleError, match="batch of at least 2"):
        encoder(x)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_trains_with_each_pair(name, tiny):
    model = untwine.build("vae", tiny, network=name, width=8, latent=3)
    history = untwine.fit(model, tiny, steps=20, batch=16, lr=3e-3, quiet=True)
    assert history[-1]["loss"] < history[0]["loss"]
    x = tiny.take([0, 1, 2])
    assert torch.allclose(model.encode(x)[:1], model.encode(x[:1]), atol=1e-5)
    assert model.sample(2, seed=0).shape == (2, *tiny.shape)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(networks)), st.integers(1, 4), st.integers(8, 80), st.integers(8, 80))
def test_networks_return_to_any_image_shape(name, channels, height, width):
    network = networks.make(networks.choose(name, width=4))
    shape = torch.Size((channels, height, width))
    h = network.encoder(shape)(torch.rand(2, *shape))
    assert h.shape == (2, network.features)
    assert network.decoder(3, shape)(torch.rand(2, 3)).shape == (2, *shape)


@pytest.mark.parametrize(
    "make", [lambda: conv(width=0), lambda: mlp(depth=0), lambda: mlp_tanh(width=0)]
)
def test_empty_networks_are_refused(make):
    with pytest.raises(ParameterError, match=r"at least|from 1 to"):
        make()
