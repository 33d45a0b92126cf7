"""The evidence lower bound, the log-likelihood, and the error of reconstructions."""

import math

import numpy as np
import pytest
import torch

import untwine
from untwine.errors import DataError
from untwine.metrics import elbo, log_likelihood, reconstruction
from untwine.tools.compute import seeded


def test_bounds_are_averaged_with_a_standard_error():
    found = elbo(np.array([1.0, 2.0, 3.0, 4.0], np.float32))
    assert found == {"elbo": 2.5, "standard_error": pytest.approx(math.sqrt(5 / 3) / 2)}


def test_one_bound_has_no_standard_error():
    assert elbo([-3.0]) == {"elbo": -3.0}
    assert elbo([-3.0], 2)["bits_per_dimension"] == pytest.approx(1.5 / math.log(2))


@pytest.mark.parametrize("bad", [[], [[1.0]], ["a"], [np.nan], [-np.inf]])
def test_bounds_that_are_none_are_refused(bad):
    with pytest.raises(DataError, match=r"elbos|bounds"):
        elbo(bad)


def test_equal_weights_give_the_weight_itself():
    found = log_likelihood(np.full((3, 5), -700.0), draws=5)
    assert found["log_likelihood"] == pytest.approx(-700)
    assert found["standard_error"] == 0 and found["effective_draws"] == pytest.approx(5)


def test_the_mean_is_taken_over_weights_before_the_logarithm():
    weights = np.random.default_rng(0).random((4, 7))
    expected = np.log(weights.mean(1)).mean()
    assert log_likelihood(np.log(weights), draws=7)["log_likelihood"] == pytest.approx(expected)


def test_only_the_first_draws_are_used_and_more_of_them_raise_the_bound():
    w = np.random.default_rng(0).normal(size=(2000, 100))
    values = [log_likelihood(w, draws=k)["log_likelihood"] for k in (1, 10, 100)]
    assert values[0] == pytest.approx(w[:, 0].mean())
    assert values[0] < values[1] < values[2] < 0.5  # log E[exp(w)] for a standard normal w


def test_one_draw_that_carries_the_estimate_is_told():
    w = np.array([[0.0, -1000.0, -np.inf]])
    found = log_likelihood(w, draws=3)
    assert found["log_likelihood"] == pytest.approx(-math.log(3))
    assert found["effective_draws"] == 1.0 and "standard_error" not in found


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (np.zeros(4), r"shape \(N, S\)"),
        (np.zeros((4, 2)), "write draws=2"),
        (np.full((4, 3), np.nan), "NaN"),
        (np.full((4, 3), np.inf), "infinity"),
        (np.full((4, 3), -np.inf), "all 0"),
    ],
)
def test_bad_weights_are_refused_in_a_sentence(bad, sentence):
    with pytest.raises(DataError, match=sentence):
        log_likelihood(bad, draws=3)


def test_weights_of_a_model_agree_with_its_own_estimate(tiny):
    model = untwine.build("vae", tiny, network="mlp")
    x = tiny.take(torch.arange(5))
    with seeded(0):
        w = torch.stack([model.log_likelihood(x, samples=1) for _ in range(6)], 1)
    expected = model.log_likelihood(x, samples=6, seed=0).mean().item()
    assert log_likelihood(w, draws=6)["log_likelihood"] == pytest.approx(expected, rel=1e-5)


def test_reconstruction_says_what_it_cannot_see_and_promises_nothing():
    entry = untwine.registry.metrics["reconstruction"]
    assert entry.metadata["unchanged_by"] == () and "Blind spots:" in entry.description


def test_losing_a_small_sprite_costs_less_than_a_grey_background():
    x = np.zeros((1, 1, 16, 16))
    x[..., :2, :2] = 1
    lost, greyed = np.zeros_like(x), x.clip(0.2)
    scores = [reconstruction(x, y)["squared_error"] for y in (lost, greyed)]
    assert scores[0] < scores[1]
