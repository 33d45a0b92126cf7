"""The layers of the pairs with batch normalisation, and their initial weights."""

from itertools import chain

import pytest
import torch
from torch import nn

from untwine.networks import _convolutions
from untwine.registry import networks


def make(name, **params):
    return networks.make(networks.choose(name, **params))


def flat(lists):
    return list(chain.from_iterable(lists))


def test_intel_at_28_pixels(pair):
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
        _convolutions.Crop(torch.Size((1, 28, 28)), 1),
    )
    x, y = torch.randn(2, 1, 1, 28, 28)
    same = nn.functional.conv2d(nn.functional.pad(x, (1, 2, 1, 2)), conv.weight)
    assert torch.allclose((same * y).sum(), (x * crop(conv(y))).sum(), atol=1e-3)


def test_intel_for_celeba_at_64_pixels(pair):
    encoder, decoder = pair("conv-intel-celeba", (3, 64, 64), code=64)
    channels = [(3, 64), (64, 128), (128, 256)]
    convs = [[f"conv {a}>{b} k4 s2 p1", f"bn {b}", "leaky 0.2"] for a, b in channels]
    assert encoder == [*flat(convs), "flatten"]
    ups = [[f"bn {b}", "relu", f"up {b}>{a} k4 s2 p1"] for a, b in reversed(channels)]
    assert decoder == ["fc 64>16384", "to 256x8x8", "relu", *flat(ups)]
    assert make("conv-intel-celeba").features == 16384


def test_ug_at_64_pixels(pair):
    encoder, decoder = pair("conv-ug", (3, 64, 64), code=40)
    channels = [(3, 32), (32, 32), (32, 64), (64, 64)]
    convs = [[f"conv {a}>{b} k4 s2 p1", f"bn {b}", "relu"] for a, b in channels]
    assert encoder == [*flat(convs), "conv 64>256 k4 s1 p0", "flatten", "bn 256", "relu"]
    ups = [["relu", f"up {b}>{a} k4 s2 p1"] for a, b in reversed(channels)]
    stem = ["fc 40>256", "to 256x1x1", "relu", "up 256>64 k4 s1 p0"]
    assert decoder == [*stem, *flat(ups)]
    assert make("conv-ug").features == 256


def test_dcgan_at_32_pixels(pair):
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


def test_jigsaw_at_128_pixels(pair):
    encoder, decoder = pair("conv-jigsaw", (3, 128, 128), code=128)
    channels = [(3, 32), (32, 64), (64, 128), (128, 256), (256, 512)]
    convs = [[f"conv {a}>{b} k4 s2 p1", f"bn {b}", "leaky 0.2"] for a, b in channels]
    assert encoder == [*flat(convs), "flatten"]
    ups = [[f"bn {b}", "leaky 0.2", f"up {b}>{a} k4 s2 p1"] for a, b in reversed(channels)]
    assert decoder == ["fc 128>8192", "to 512x4x4", *flat(ups)]


def test_initial_weights_of_dcgan():
    torch.manual_seed(0)
    network, shape = make("conv-dcgan"), torch.Size((1, 32, 32))
    for half in (network.encoder(shape), network.decoder(50, shape)):
        for layer in half.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                assert layer.weight.std().item() == pytest.approx(0.02, rel=0.15)
