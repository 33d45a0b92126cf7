"""The convolutional pairs without batch normalisation: their layers, the shapes they take."""

from itertools import chain

import pytest
import torch
from torch import nn

from untwine.errors import IncompatibleError
from untwine.networks.conv import conv, conv_k4


def flat(lists):
    return list(chain.from_iterable(lists))


def layers(module, kind):
    return [m for m in module.modules() if isinstance(m, kind)]


@pytest.mark.parametrize(("network", "kernels"), [(conv, [4, 4, 2, 2]), (conv_k4, [4] * 4)])
def test_at_64_pixels_the_layers_are_the_papers(network, kernels):
    shape = torch.Size((3, 64, 64))
    encoder = network().encoder(shape)
    convolutions = layers(encoder, nn.Conv2d)
    assert [c.kernel_size[0] for c in convolutions] == kernels
    assert [(c.in_channels, c.out_channels) for c in convolutions] == [
        (3, 32),
        (32, 32),
        (32, 64),
        (64, 64),
    ]
    assert [(f.in_features, f.out_features) for f in layers(encoder, nn.Linear)] == [(1024, 256)]
    decoder = network().decoder(10, shape)
    back = layers(decoder, nn.ConvTranspose2d)
    assert [(c.in_channels, c.out_channels) for c in back] == [
        (64, 64),
        (64, 32),
        (32, 32),
        (32, 3),
    ]
    assert all((c.kernel_size[0], c.stride[0], c.padding[0]) == (4, 2, 1) for c in back)
    full = [(f.in_features, f.out_features) for f in layers(decoder, nn.Linear)]
    assert full == [(10, 256), (256, 1024)]


@pytest.mark.parametrize("side", [28, 32])
def test_smaller_siblings_have_three_convolutions(side):
    encoder = conv().encoder(torch.Size((1, side, side)))
    assert [c.out_channels for c in layers(encoder, nn.Conv2d)] == [32, 32, 64]


def test_networks_take_the_largest_image():
    shape = torch.Size((1, 256, 256))
    assert conv().encoder(shape)(torch.rand(1, *shape)).shape == (1, 256)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ((5,), "network mlp"),
        ((1, 7, 64), "8 to 256"),
        ((1, 64, 257), "8 to 256"),
        ((5, 64, 64), "1 to 4"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shape, sentence):
    with pytest.raises(IncompatibleError, match=sentence):
        conv().encoder(torch.Size(shape))


def test_burgess_at_64_pixels(pair):
    encoder, decoder = pair("conv-burgess", (3, 64, 64))
    convs = [[f"conv {a}>32 k4 s2 p1", "relu"] for a in (3, 32, 32, 32)]
    assert encoder == [*flat(convs), "flatten", "fc 512>256", "relu", "fc 256>256", "relu"]
    ups = [["relu", f"up 32>{b} k4 s2 p1"] for b in (32, 32, 32, 3)]
    hidden = ["fc 10>256", "relu", "fc 256>256", "relu", "fc 256>512", "to 32x4x4"]
    assert decoder == [*hidden, *flat(ups)]


@pytest.mark.parametrize("side", [28, 32])
def test_burgess_has_three_convolutions_for_small_images(side, pair):
    encoder, decoder = pair("conv-burgess", (1, side, side))
    assert sum("conv" in text for text in encoder) == sum("up" in text for text in decoder) == 3


def test_the_pair_of_variational_sparse_coding_is_already_there(words):
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
