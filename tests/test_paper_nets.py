"""The pairs of single papers: their layers, the shapes they take, what they refuse."""

from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import untwine
from untwine.errors import IncompatibleError, ParameterError
from untwine.parts import paper_nets
from untwine.parts.nets import conv_k4
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
NORMALISED = ["conv-ug", "mlp-gm"]  # features of one example cannot be normalised


def make(name, **params):
    return networks.make(networks.choose(name, **params))


def pair(name, shape, code=10):
    """What the layers of both halves say of themselves."""
    network, shape = make(name), torch.Size(shape)
    encoder, decoder = network.encoder(shape), network.decoder(code, shape)
    assert encoder(torch.rand(2, *shape)).shape == (2, network.features)
    assert decoder(torch.rand(2, code)).shape == (2, *shape)
    return words(encoder), words(decoder)


def flat(lists):
    return list(chain.from_iterable(lists))


def words(module):
    return flat(describe(layer) for layer in module.children())


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
        case paper_nets._Norm():
            return describe(layer.norm)
        case paper_nets._Gated():
            assert describe(layer.h) == describe(layer.g)
            return [f"gated {text}" for text in describe(layer.h)]
        case paper_nets._Crop():
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


def test_burgess_at_64_pixels():
    encoder, decoder = pair("conv-burgess", (3, 64, 64))
    convs = [[f"conv {a}>32 k4 s2 p1", "relu"] for a in (3, 32, 32, 32)]
    assert encoder == [*flat(convs), "flatten", "fc 512>256", "relu", "fc 256>256", "relu"]
    ups = [["relu", f"up 32>{b} k4 s2 p1"] for b in (32, 32, 32, 3)]
    hidden = ["fc 10>256", "relu", "fc 256>256", "relu", "fc 256>512", "to 32x4x4"]
    assert decoder == [*hidden, *flat(ups)]


@pytest.mark.parametrize("side", [28, 32])
def test_burgess_has_three_convolutions_for_small_images(side):
    encoder, decoder = pair("conv-burgess", (1, side, side))
    assert sum("conv" in text for text in encoder) == sum("up" in text for text in decoder) == 3


def test_intel_at_28_pixels():
    encoder, decoder = pair("conv-intel", (1, 28, 28), code=50)
    first, second = (
        [f"conv {a}>{b} k4 s2 p1", f"bn {b}", "leaky 0.2"] for a, b in [(1, 32), (32, 64)]
    )
    third = ["pad (0, 1, 0, 1)", "conv 64>128 k4 s2 p1", "bn 128", "leaky 0.2"]
    assert encoder == [*first, *second, *third, "flatten"]
    stem = ["fc 50>6272", "to 128x7x7", "relu"]
    ups = [["bn 128", "relu", "up 128>64 k4 s2 p1"], ["bn 64", "relu", "up 64>32 k4 s2 p1"]]
    assert decoder == [*stem, *flat(ups), "bn 32", "relu", "up 32>1 k4 s1 p0", "crop 1:29"]
    assert make("conv-intel").features == 2048


def test_the_padding_of_seven_pixels_is_one_before_and_two_after():
    pad, conv = nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(1, 1, 4, 2, 1)
    x = torch.randn(1, 1, 7, 7)
    same = nn.functional.conv2d(nn.functional.pad(x, (1, 2, 1, 2)), conv.weight, conv.bias, 2)
    assert same.shape[2:] == (4, 4) and torch.allclose(conv(pad(x)), same, atol=1e-6)


def test_the_crop_of_the_last_layer_is_the_adjoint_of_that_padding():
    conv, crop = (
        nn.ConvTranspose2d(1, 1, 4, bias=False),
        paper_nets._Crop(torch.Size((1, 28, 28)), 1),
    )
    x, y = torch.randn(2, 1, 1, 28, 28)
    same = nn.functional.conv2d(nn.functional.pad(x, (1, 2, 1, 2)), conv.weight)
    assert torch.allclose((same * y).sum(), (x * crop(conv(y))).sum(), atol=1e-3)


def test_intel_for_celeba_at_64_pixels():
    encoder, decoder = pair("conv-intel-celeba", (3, 64, 64), code=64)
    channels = [(3, 64), (64, 128), (128, 256)]
    convs = [[f"conv {a}>{b} k4 s2 p1", f"bn {b}", "leaky 0.2"] for a, b in channels]
    assert encoder == [*flat(convs), "flatten"]
    ups = [[f"bn {b}", "relu", f"up {b}>{a} k4 s2 p1"] for a, b in reversed(channels)]
    assert decoder == ["fc 64>16384", "to 256x8x8", "relu", *flat(ups)]
    assert make("conv-intel-celeba").features == 16384


def test_ug_at_64_pixels():
    encoder, decoder = pair("conv-ug", (3, 64, 64), code=40)
    channels = [(3, 32), (32, 32), (32, 64), (64, 64)]
    convs = [[f"conv {a}>{b} k4 s2 p1", f"bn {b}", "relu"] for a, b in channels]
    assert encoder == [*flat(convs), "conv 64>256 k4 s1 p0", "flatten", "bn 256", "relu"]
    ups = [["relu", f"up {b}>{a} k4 s2 p1"] for a, b in reversed(channels)]
    stem = ["fc 40>256", "to 256x1x1", "relu", "up 256>64 k4 s1 p0"]
    assert decoder == [*stem, *flat(ups)]
    assert make("conv-ug").features == 256


def test_dcgan_at_32_pixels():
    encoder, decoder = pair("conv-dcgan", (1, 32, 32), code=50)
    convs = [
        [f"conv {a}>{b} k4 s2 p1 no bias", f"bn {b}", "leaky 0.2"] for a, b in [(32, 64), (64, 128)]
    ]
    assert encoder == [
        "conv 1>32 k4 s2 p1 no bias",
        "leaky 0.2",
        *flat(convs),
        "flatten",
    ]
    ups = [
        [f"bn {a}", "relu", f"up {a}>{b} k4 s2 p1 no bias"]
        for a, b in [(128, 64), (64, 32), (32, 1)]
    ]
    assert decoder == ["to 50x1x1", "up 50>128 k4 s1 p0 no bias", *flat(ups)]


def test_a_linear_head_on_the_features_of_dcgan_is_a_convolution_over_them():
    conv, h = nn.Conv2d(128, 5, 4), torch.randn(2, 128, 4, 4)
    linear = nn.functional.linear(h.flatten(1), conv.weight.flatten(1), conv.bias)
    assert torch.allclose(conv(h).flatten(1), linear, atol=1e-5)


def test_jigsaw_at_128_pixels():
    encoder, decoder = pair("conv-jigsaw", (3, 128, 128), code=128)
    channels = [(3, 32), (32, 64), (64, 128), (128, 256), (256, 512)]
    convs = [[f"conv {a}>{b} k4 s2 p1", f"bn {b}", "leaky 0.2"] for a, b in channels]
    assert encoder == [*flat(convs), "flatten"]
    ups = [[f"bn {b}", "leaky 0.2", f"up {b}>{a} k4 s2 p1"] for a, b in reversed(channels)]
    assert decoder == ["fc 128>8192", "to 512x4x4", *flat(ups)]


def test_gated_convolutions_at_28_pixels():
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


@pytest.mark.parametrize("name", FULLY_CONNECTED)
def test_fully_connected_pairs_at_28_pixels(name):
    encoder, decoder = FULLY_CONNECTED[name]
    assert pair(name, (1, 28, 28)) == (["flatten", *encoder], [*decoder, "to 1x28x28"])


def test_the_toy_pair_in_the_plane_with_mean_and_log_variance():
    network = make("mlp-toy")
    encoder = words(network.encoder(torch.Size((2,))))
    assert encoder == ["flatten", "fc 2>10", "relu", "fc 10>10", "relu"]
    decoder = words(network.decoder(1, torch.Size((4,))))
    assert decoder == ["fc 1>10", "relu", "fc 10>10", "relu", "fc 10>4", "to 4"]


def test_the_pair_of_variational_sparse_coding_is_already_there():
    shape = torch.Size((3, 64, 64))
    channels = [(3, 32), (32, 32), (32, 64), (64, 64)]
    convs = [[f"conv {a}>{b} k4 s2 p1", "relu"] for a, b in channels]
    assert words(conv_k4().encoder(shape)) == [*flat(convs), "flatten", "fc 1024>256", "relu"]
    assert words(conv_k4().decoder(10, shape))[:5] == [
        "fc 10>256",
        "relu",
        "fc 256>1024",
        "relu",
        "to 64x4x4",
    ]


def test_a_gate_multiplies():
    layer = paper_nets._Gated(lambda: nn.Linear(3, 2))
    x = torch.randn(5, 3)
    assert torch.equal(layer(x), layer.h(x) * torch.sigmoid(layer.g(x)))


def test_initial_weights_of_dcgan():
    torch.manual_seed(0)
    network, shape = make("conv-dcgan"), torch.Size((1, 32, 32))
    for half in (network.encoder(shape), network.decoder(50, shape)):
        for layer in half.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                assert layer.weight.std().item() == pytest.approx(0.02, rel=0.15)


def test_initial_weights_of_the_gated_layers():
    torch.manual_seed(0)
    network, shape = make("mlp-gated"), torch.Size((1, 28, 28))
    for half in (network.encoder(shape), network.decoder(40, shape)):
        for layer in half.modules():
            if isinstance(layer, nn.Linear):
                expected = (2 / layer.in_features) ** 0.5
                assert layer.weight.std().item() == pytest.approx(expected, rel=0.05)


def test_all_pairs_are_registered():
    assert set(NAMES) <= set(networks)
    registered = {name for name in networks if networks[name].function.__module__.endswith("_nets")}
    assert registered == set(NAMES)


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
    for parameter in networks[name].parameters:
        with pytest.raises(
            ParameterError, match=f"{name}.{parameter} must be a whole number of at least 1, not 0"
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
