"""Closed forms of the parts: Gaussian, likelihoods, networks, schedules."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from untwine.errors import IncompatibleError, ParameterError
from untwine.parts.gaussian import Gaussian
from untwine.parts.groups import product_of_experts, rows_of
from untwine.parts.likelihoods import bernoulli, gaussian, laplace
from untwine.parts.mixture import Mixture, categorical_kl, kl_to_each, uniform_kl
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
    likelihood = likelihoods.make(likelihoods.choose(name))
    px = likelihood.observe(torch.randn(2, 3 * likelihood.outputs, 8, 8))
    assert px.mean.shape == px.sample().shape == (2, 3, 8, 8)
    assert px.log_prob(torch.rand(2, 3, 8, 8)).shape == (2,)


@pytest.mark.parametrize(("name", "parameter"), [("gaussian", "variance"), ("laplace", "scale")])
def test_scales_must_be_positive(name, parameter):
    with pytest.raises(ParameterError, match="a number above 0"):
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


def test_mixture_of_one_component_is_the_component():
    part = Gaussian(double(0.5, -1)[None], double(0.2, 0.1)[None])
    z = torch.randn(5, 2).double()
    mixture = Mixture.even(part)
    assert torch.allclose(mixture.log_prob(z), part.log_prob(z))


def test_mixture_is_invariant_to_the_order_of_its_components():
    mean, logvar, logits = torch.randn(2, 4, 3), torch.randn(4, 3), torch.randn(4)
    order = torch.tensor([2, 0, 3, 1])
    weight = logits.log_softmax(0)
    a = Mixture(Gaussian(mean[0], logvar), weight)
    b = Mixture(Gaussian(mean[0][order], logvar[order]), weight[order])
    z = torch.randn(6, 3)
    assert torch.allclose(a.log_prob(z), b.log_prob(z), atol=1e-6)


def test_mixture_samples_follow_the_weights_and_the_shapes():
    torch.manual_seed(0)
    parts = Gaussian(double(-5, 5)[:, None], torch.full((2, 1), -4.0).double())
    mixture = Mixture(parts, double(0.2, 0.8).log())
    z = mixture.sample((20_000,))
    assert z.shape == (20_000, 1)
    assert (z > 0).double().mean().item() == pytest.approx(0.8, abs=0.01)
    several = Mixture(Gaussian(torch.randn(7, 2, 3), torch.zeros(7, 2, 3)), torch.zeros(2) - 0.7)
    assert several.sample().shape == (7, 3) and several.sample((4,)).shape == (4, 7, 3)


def test_discrete_divergences():
    rho = double(0.7310586, 0.2689414)
    assert uniform_kl(rho.log()).item() == pytest.approx(0.1109441, abs=1e-7)
    assert categorical_kl(rho.log(), rho.log()).item() == pytest.approx(0, abs=1e-12)


def test_a_certain_component_has_a_kl_of_log_k_and_a_finite_gradient():
    logits = torch.tensor([500.0, 0, 0, 0]).requires_grad_()
    kl = uniform_kl(logits.log_softmax(-1))
    kl.backward()
    assert kl.item() == pytest.approx(math.log(4)) and logits.grad.isfinite().all()


def test_kl_to_each_component():
    q = Gaussian(double(0)[None], double(0)[None])
    parts = Gaussian(double(0, 2)[:, None], torch.zeros(2, 1).double())
    assert torch.allclose(kl_to_each(q, parts), double(0, 2)[None])


def test_product_of_identical_experts_divides_the_variance():
    q = Gaussian(torch.full((4, 2), 1.5).double(), torch.full((4, 2), 0.3).double())
    g = product_of_experts(q, torch.zeros(4, dtype=torch.long))
    assert torch.allclose(g.mean, q.mean[:1])
    assert torch.allclose(g.variance, q.variance[:1] / 4)


def test_product_of_experts_survives_extreme_precisions():
    q = Gaussian(torch.tensor([[1.0], [2.0]]), torch.tensor([[-200.0], [150.0]]))
    g = product_of_experts(q, torch.tensor([0, 0]))
    assert g.mean.item() == 1.0 and g.logvar.item() == -200.0


def test_product_of_experts_keeps_groups_apart_whatever_their_order():
    q = Gaussian(torch.randn(6, 2).double(), torch.randn(6, 2).double())
    rows = torch.tensor([0, 1, 0, 2, 1, 0])
    g = product_of_experts(q, rows)
    order = torch.tensor([5, 3, 1, 0, 4, 2])
    again = product_of_experts(Gaussian(q.mean[order], q.logvar[order]), rows[order])
    assert torch.allclose(g.mean, again.mean) and torch.allclose(g.logvar, again.logvar)
    alone = product_of_experts(q, *rows_of(None, 6, q.mean.device))
    assert torch.allclose(alone.mean, q.mean) and torch.allclose(alone.logvar, q.logvar)
