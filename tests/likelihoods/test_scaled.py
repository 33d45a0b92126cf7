"""Closed forms of the likelihoods whose scale is learned."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.errors import ParameterError
from untwine.likelihoods.scaled import Logistic256, learned_gaussian, logistic256
from untwine.registry import likelihoods

NAMES = ["learned-gaussian", "logistic256"]


def bins(mean, log_scale):
    """(256,) the log-probabilities of all bytes in a pixel."""
    x = torch.arange(256, dtype=torch.float64)[:, None] / 255
    full = torch.full_like(x, mean), torch.full_like(x, log_scale)
    return Logistic256(*full).log_prob(x)


def test_learned_gaussian_is_the_density():
    x, raw = torch.rand(3, 2, 4, 4).double(), 3 * torch.randn(3, 4, 4, 4).double()
    std = torch.tanh(raw[:, 2:]).mul(0.5).exp()
    expected = torch.distributions.Normal(raw[:, :2], std).log_prob(x).sum((1, 2, 3))
    assert torch.allclose(learned_gaussian().observe(raw).log_prob(x), expected)


def test_learned_gaussian_of_a_known_value():
    raw = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    value = learned_gaussian().observe(raw).log_prob(torch.tensor([[1.5]]).double()).item()
    assert value == pytest.approx(-0.5 * (1 + math.log(2 * math.pi)), abs=1e-12)


@given(st.floats(-1e4, 1e4), st.floats(0.1, 10))
def test_the_log_variance_stays_within_its_bound(raw, bound):
    px = learned_gaussian(bound=bound).observe(torch.tensor([[0.0, raw]], dtype=torch.float64))
    assert abs(px.logvar.item()) <= bound


def test_a_wide_bound_does_nothing():
    raw = torch.randn(5, 2).double()
    assert torch.allclose(learned_gaussian(bound=1e6).observe(raw).logvar, raw[:, 1:])


def test_squash_keeps_the_mean_in_the_unit_interval():
    raw = torch.randn(5, 2).double()
    assert torch.equal(learned_gaussian().observe(raw).mean, raw[:, :1])
    assert torch.equal(learned_gaussian(squash=True).observe(raw).mean, raw[:, :1].sigmoid())


def test_samples_of_the_learned_gaussian_have_its_moments():
    torch.manual_seed(0)
    px = learned_gaussian().observe(torch.tensor([[2.0, -0.5]]).double().expand(100_000, 2))
    x = px.sample()
    assert x.mean().item() == pytest.approx(2, abs=0.01)
    assert x.var().log().item() == pytest.approx(math.tanh(-0.5), abs=0.02)


def test_a_bound_must_be_positive():
    with pytest.raises(ParameterError, match=r"learned-gaussian.bound must be a number above 0"):
        learned_gaussian(bound=0)


@settings(max_examples=100, deadline=None)
@given(st.floats(1 / 512, 511 / 512), st.floats(-4.5, 0))
def test_the_bins_sum_to_one(mean, log_scale):
    assert bins(mean, log_scale).exp().sum().item() == pytest.approx(1, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.floats(1 / 512, 511 / 512), st.floats(-4.5, 0))
def test_a_bin_is_a_difference_of_sigmoids(mean, log_scale):
    edges = torch.arange(257, dtype=torch.float64) / 256
    cdf = torch.sigmoid((edges - mean) / math.exp(log_scale))
    cdf[0], cdf[-1] = 0, 1
    assert torch.allclose(bins(mean, log_scale).exp(), cdf.diff(), atol=1e-14)


def test_away_from_the_edges_it_is_the_formula_of_the_paper():
    raw = torch.randn(3, 4, 5, 5).double()
    x = torch.rand(3, 2, 5, 5).double() * 0.98 + 0.01
    m, s = raw[:, :2].sigmoid(), raw[:, 2:].clamp(-4.5, 0).exp()
    low = (x * 256).floor() / 256
    p = torch.sigmoid((low + 1 / 256 - m) / s) - torch.sigmoid((low - m) / s)
    px = logistic256().observe(raw)
    assert torch.allclose(px.log_prob(x), p.log().sum((1, 2, 3)))
    assert torch.allclose(px.log_prob(x), (p + 1e-7).log().sum((1, 2, 3)), rtol=1e-3)


def test_mean_and_scale_of_the_logistic_are_bounded():
    px = logistic256().observe(torch.tensor([[-50.0, -50.0], [50.0, 50.0], [0.0, -2.0]]))
    assert px.mean.tolist() == [[1 / 512], [511 / 512], [0.5]]
    assert px.log_scale.tolist() == [[-4.5], [0.0], [-2.0]]


def test_bins_far_from_the_mean_keep_their_value_and_gradient():
    mean = torch.tensor([[1 / 512]], requires_grad=True)
    value = Logistic256(mean, torch.full((1, 1), -4.5)).log_prob(torch.tensor([[0.95]]))
    value.sum().backward()
    scale = math.exp(-4.5)
    low = math.floor(0.95 * 256) / 256
    expected = -(low - 1 / 512) / scale + math.log(-math.expm1(-1 / 256 / scale))
    assert value.item() == pytest.approx(expected, rel=1e-5)
    assert mean.grad.item() == pytest.approx(1 / scale, rel=1e-4)


@pytest.mark.parametrize(("x", "byte"), [(0.0, 0), (1.0, 255), (0.5, 128), (254 / 255, 254)])
def test_every_brightness_falls_into_its_bin(x, byte):
    one = Logistic256(torch.full((1, 1), 0.3), torch.full((1, 1), -2.0))
    assert one.log_prob(torch.tensor([[x]])).item() == pytest.approx(bins(0.3, -2)[byte].item())


def test_samples_of_the_logistic_are_bytes_in_proportion():
    torch.manual_seed(0)
    n = 200_000
    x = Logistic256(torch.full((n, 1), 0.2), torch.full((n, 1), -2.0)).sample()
    levels = (x * 255).round()
    assert torch.allclose(levels / 255, x) and levels.min() == 0 and levels.max() == 255
    counts = torch.bincount(levels.long().flatten(), minlength=256) / n
    assert torch.allclose(counts.double(), bins(0.2, -2).exp(), atol=0.002)


@pytest.mark.parametrize("name", NAMES)
def test_means_and_samples_have_the_shape_of_the_data(name):
    like = likelihoods.make(likelihoods.choose(name))
    for shape in [(3, 8, 8), (5,)]:
        px = like.observe(torch.randn(2, like.outputs * shape[0], *shape[1:]))
        assert px.mean.shape == px.sample().shape == (2, *shape)
        assert px.log_prob(torch.rand(2, *shape)).shape == (2,)


@pytest.mark.parametrize("name", NAMES)
def test_likelihoods_are_documented(name):
    entry = likelihoods[name]
    assert entry.paper in entry.description
    assert all(p.help for p in entry.parameters.values())


@pytest.mark.parametrize("network", ["conv", "conv-intel", "mlp-mlvae", "mlp-gated"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_trains_with_each_likelihood(name, network, tiny):
    model = untwine.build("vae", tiny, likelihood=name, network=network, width=8, latent=3)
    history = untwine.fit(model, tiny, steps=20, batch=16, lr=3e-3, quiet=True)
    assert history[-1]["loss"] < history[0]["loss"]
    assert model.sample(2, seed=0).shape == (2, *tiny.shape)


def test_points_in_the_plane_with_the_toy_network():
    points = np.random.default_rng(0).normal(size=(200, 2))
    data = untwine.from_arrays(points)
    build = dict(network="mlp-toy", likelihood="learned-gaussian", latent=1)
    model = untwine.build("vae", data, **build)
    history = untwine.fit(model, data, steps=20, batch=50, lr=1e-2, quiet=True)
    assert history[-1]["loss"] < history[0]["loss"]
    assert model.sample(3, seed=0).shape == (3, 2)
