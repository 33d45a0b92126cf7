"""Hoyer sparsity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.errors import DataError
from untwine.metrics import hoyer
from untwine.registry import metrics
from untwine.scoring.representation import Representation
from untwine.scoring.scores import compute

NORMAL = {10: 0.266098, 32: 0.237917, 50: 0.230749, 64: 0.227420, 128: 0.220001}


def test_one_latent_at_a_time_is_perfectly_sparse():
    assert hoyer(np.eye(4))["hoyer"] == pytest.approx(1.0)
    assert hoyer(np.eye(4) * [1, 5, -2, 100])["hoyer"] == pytest.approx(1.0)


def test_equal_sizes_are_not_sparse():
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(50, 6))
    assert hoyer(signs, normalise=False)["hoyer"] == pytest.approx(0.0, abs=1e-12)
    assert hoyer(np.tile(signs, (2, 1)) * np.repeat([[1], [-1]], 50, 0))["hoyer"] < 1e-12


def test_three_and_four_have_a_known_sparsity():
    assert hoyer([[3, 4], [4, 3]], normalise=False)["hoyer"] == pytest.approx(0.034315, abs=1e-6)


@pytest.mark.parametrize("d", NORMAL)
def test_excess_is_over_the_closed_form_of_normal_codes(d):
    scores = hoyer(np.eye(d))
    assert scores["hoyer"] - scores["excess"] == pytest.approx(NORMAL[d], abs=1e-6)
    drawn = hoyer(np.random.default_rng(0).normal(size=(20_000, d)))
    assert drawn["excess"] == pytest.approx(0, abs=2e-3)


def test_scaling_keeps_unequal_latents_from_looking_sparse():
    z = np.random.default_rng(0).normal(size=(20_000, 10)) * [1.0, *[0.01] * 9]
    assert hoyer(z)["hoyer"] == pytest.approx(0.2666, abs=2e-3)
    assert hoyer(z, normalise=False)["hoyer"] == pytest.approx(0.8976, abs=2e-3)


def test_constant_latents_do_not_count_and_zero_rows_are_skipped():
    z = np.random.default_rng(0).normal(size=(100, 5))
    dead = np.hstack([z, np.full((100, 3), 0.1)])
    assert hoyer(dead) == pytest.approx(hoyer(z))
    zeros = np.vstack([z, np.zeros((4, 5))])
    raw = hoyer(z, normalise=False)["hoyer"]
    assert hoyer(zeros, normalise=False)["hoyer"] == pytest.approx(raw)


def test_codes_are_not_centred():
    z = np.random.default_rng(0).normal(size=(500, 5))
    assert hoyer(z + 100)["hoyer"] < 0.01 < hoyer(z)["hoyer"]


def test_what_has_no_sparsity_is_refused():
    with pytest.raises(DataError, match="at least 2 latents"):
        hoyer(np.arange(5.0)[:, None])
    with pytest.raises(DataError, match="not 1"):
        hoyer(np.hstack([np.arange(5.0)[:, None], np.ones((5, 2))]))
    with pytest.raises(DataError, match="all codes are 0"):
        hoyer(np.zeros((5, 3)), normalise=False)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 9999), st.integers(2, 9), st.floats(-150, 30))
def test_sparsity_lies_between_zero_and_one_at_any_scale(seed, d, exponent):
    z = np.random.default_rng(seed).normal(size=(20, d))
    value = hoyer(z)["hoyer"]
    assert 0 <= value <= 1
    assert hoyer(z * 10.0**exponent)["hoyer"] == pytest.approx(value, rel=1e-6)


def test_means_are_scored_instead_of_samples():
    rng = np.random.default_rng(0)
    samples, means = rng.standard_normal((200, 4)), np.eye(4)[rng.integers(4, size=200)]
    assert hoyer(samples, means, means=True) == hoyer(means)
    assert hoyer(samples, means) == hoyer(samples)
    with pytest.raises(DataError, match="give them as codes"):
        hoyer(samples, means=True)


def test_the_means_of_a_model_are_those_of_its_posterior(tiny):
    model = untwine.build("vsc", tiny, network="mlp(width=8)")
    seen = Representation(model, tiny, n_examples=200)
    for variant, codes in (("hoyer", seen.sampled_codes), ("hoyer[means]", seen.codes)):
        assert compute(seen, metrics.read(variant)) == hoyer(codes)
