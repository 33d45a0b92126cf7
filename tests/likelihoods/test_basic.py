"""Closed forms of the Bernoulli, Gaussian and Laplace likelihoods."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from untwine.errors import ParameterError
from untwine.likelihoods.basic import bernoulli, gaussian, laplace
from untwine.registry import likelihoods


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


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
