"""Closed forms of the parts: Gaussian, likelihoods, networks, schedules."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from untwine.errors import IncompatibleError, ParameterError
from untwine.parts.gaussian import Gaussian
from untwine.parts.likelihoods import bernoulli, gaussian, laplace
from untwine.parts.nets import conv, conv_k4, mlp, mlp_tanh
from untwine.parts.schedules import linear
from untwine.registry import likelihoods, networks


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_kl_of_a_known_gaussian():
    q = Gaussian(double(1, 0), double(0, math.log(4)))
    assert q.kl().item() == pytest.approx(1.3068528194400547, abs=1e-15)
    assert Gaussian(double(0, 0), double(0, 0)).kl().item() == 0


def test_kl_to_the_standard_normal_written_out_is_the_same():
    q, p = Gaussian(double(1, -2), double(0.3, -1)), Gaussian(double(0, 0), double(0, 0))
    assert q.kl(p).item() == pytest.approx(q.kl().item(), abs=1e-14)


def test_kl_agrees_with_torch():
    q, p = Gaussian(double(1, -2), double(0.3, -1)), Gaussian(double(0.5, 3), double(1, -0.2))
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(q.mean, q.std), normal(p.mean, p.std))
    assert torch.allclose(q.kl_per_dim(p), expected)


def test_gradients_of_the_kl():
    mean, logvar = double(0.7, -1.2).requires_grad_(), double(0.4, -2).requires_grad_()
    Gaussian(mean, logvar).kl().backward()
    assert torch.allclose(mean.grad, mean)
    assert torch.allclose(logvar.grad, (logvar.exp() - 1) / 2)


def test_one_sample_estimates_average_to_the_kl():
    torch.manual_seed(0)
    q = Gaussian(double(0.5, -1), double(-1, 0.5))
    p = Gaussian(double(0, 0), double(0, 0))
    z = q.sample((400_000,))
    assert (q.log_prob(z) - p.log_prob(z)).mean().item() == pytest.approx(q.kl().item(), abs=0.01)


def test_log_prob_keeps_its_constant():
    q = Gaussian(double(0), double(0))
    assert q.log_prob(double(0)).item() == pytest.approx(-math.log(2 * math.pi) / 2)


@settings(max_examples=50, deadline=None)
@given(st.floats(-30, 30), st.floats(0, 1))
def test_bernoulli_is_softplus_minus_product(logit, x):
    value = bernoulli().observe(double(logit)[None]).log_prob(double(x)[None]).item()
    expected = -(max(logit, 0) + math.log1p(math.exp(-abs(logit))) - x * logit)
    assert value == pytest.approx(expected, abs=1e-9)


def test_gaussian_likelihood_is_the_density():
    x, raw = torch.rand(3, 1, 4, 4).double(), torch.randn(3, 1, 4, 4).double()
    expected = torch.distributions.Normal(raw, math.sqrt(0.2)).log_prob(x).sum((1, 2, 3))
    px = gaussian(variance=0.2, squash=False).observe(raw)
    assert torch.allclose(px.log_prob(x), expected)


def test_variance_one_half_is_the_sum_of_squares_up_to_a_constant():
    x, raw = torch.rand(2, 1, 3, 3).double(), torch.rand(2, 1, 3, 3).double()
    px = gaussian(variance=0.5, squash=False).observe(raw)
    rest = px.log_prob(x) + (x - raw).square().sum((1, 2, 3))
    assert torch.allclose(rest, torch.full((2,), -4.5 * math.log(math.pi), dtype=torch.float64))


def test_laplace_likelihood_is_the_density():
    x, raw = torch.rand(3, 2).double(), torch.randn(3, 2).double()
    expected = torch.distributions.Laplace(raw, 0.1).log_prob(x).sum(1)
    assert torch.allclose(laplace(scale=0.1, squash=False).observe(raw).log_prob(x), expected)


@pytest.mark.parametrize("name", list(likelihoods))
def test_likelihood_means_and_samples_have_the_shape_of_the_data(name):
    px = likelihoods.make(likelihoods.choose(name)).observe(torch.randn(2, 3, 8, 8))
    assert px.mean.shape == px.sample().shape == (2, 3, 8, 8)
    assert px.log_prob(torch.rand(2, 3, 8, 8)).shape == (2,)


@pytest.mark.parametrize(("name", "parameter"), [("gaussian", "variance"), ("laplace", "scale")])
def test_scales_must_be_positive(name, parameter):
    with pytest.raises(ParameterError, match="greater than 0"):
        likelihoods.make(likelihoods.choose(name, **{parameter: 0}))


def layers(module, kind):
    return [m for m in module.modules() if isinstance(m, kind)]


@pytest.mark.parametrize(("network", "kernels"), [(conv, [4, 4, 2, 2]), (conv_k4, [4] * 4)])
def test_at_64_pixels_the_layers_are_the_papers(network, kernels):
    shape = torch.Size((3, 64, 64))
    encoder = network().encoder(shape)
    found = layers(encoder, nn.Conv2d)
    assert [c.kernel_size[0] for c in found] == kernels
    assert [(c.in_channels, c.out_channels) for c in found] == [
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


def test_the_fully_connected_pair_for_dsprites():
    network = mlp_tanh()
    shape = torch.Size((1, 64, 64))
    widths = [m.out_features for m in layers(network.encoder(shape), nn.Linear)]
    assert widths == [1200, 1200]
    decoder = network.decoder(10, shape)
    assert [m.out_features for m in layers(decoder, nn.Linear)] == [1200, 1200, 1200, 4096]
    assert len(layers(decoder, nn.Tanh)) == 3


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(networks)), st.integers(1, 4), st.integers(8, 80), st.integers(8, 80))
def test_networks_return_to_any_image_shape(name, channels, height, width):
    network = networks.make(networks.choose(name, width=4))
    shape = torch.Size((channels, height, width))
    h = network.encoder(shape)(torch.rand(2, *shape))
    assert h.shape == (2, network.features)
    assert network.decoder(3, shape)(torch.rand(2, 3)).shape == (2, *shape)


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


@pytest.mark.parametrize(
    "make", [lambda: conv(width=0), lambda: mlp(depth=0), lambda: mlp_tanh(width=0)]
)
def test_empty_networks_are_refused(make):
    with pytest.raises(ParameterError, match="at least"):
        make()


@pytest.mark.parametrize(
    ("step", "value"), [(0, 0.0), (25_000, 6.25), (100_000, 25.0), (10**6, 25.0)]
)
def test_linear_schedule(step, value):
    assert linear(0.0, 25.0, 100_000)(torch.tensor(step)).item() == value
