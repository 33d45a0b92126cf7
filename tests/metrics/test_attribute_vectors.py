"""Attributes told by a difference of means and an exact hinge bias."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from untwine.metrics import attribute_vectors
from untwine.metrics.attribute_vectors import hinge_bias


def hinge(s, positive, bias):
    return np.maximum(0, 1 - np.where(positive, 1, -1) * (s + bias)).sum()


def test_the_bias_is_the_middle_of_the_best_interval():
    s = np.array([-8.0, -8.0, 8.0, 8.0])
    assert hinge_bias(s, s > 0) == 0
    assert hinge(s, s > 0, 6.9) == hinge(s, s > 0, -6.9) == 0


def test_a_narrow_projection_moves_the_bias_to_the_majority():
    s = np.array([-0.1, -0.1, -0.1, 0.1])
    bias = hinge_bias(s, s > 0)
    assert bias == pytest.approx(-0.9)
    assert ((s + bias > 0) == (s > 0)).mean() == 0.75


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.floats(0.01, 10))
def test_no_other_bias_has_a_smaller_loss(seed, rows, scale):
    rng = np.random.default_rng(seed)
    s, positive = rng.normal(0, scale, rows), np.arange(rows) < rng.integers(1, rows)
    best = hinge(s, positive, hinge_bias(s, positive))
    others = np.concatenate([1 - s, -1 - s, rng.normal(0, 2 * scale, 50)])
    assert best <= min(hinge(s, positive, b) for b in others) + 1e-9


def test_separated_classes_are_told_and_the_base_rate_is_beside():
    y = np.repeat([0, 1], [30, 10])
    codes = np.stack([np.where(y, 2.0, -2.0), np.zeros(40)], 1)
    assert attribute_vectors(codes, y, codes, y) == {"accuracy": 1.0, "base_rate": 0.75}


def test_codes_of_a_small_scale_fall_back_to_the_majority():
    y = np.repeat([0, 1], [30, 10])
    codes = np.where(y, 0.1, -0.1)[:, None]
    found = attribute_vectors(codes, y, codes, y)
    assert found["accuracy"] == found["base_rate"] == 0.75


def test_codes_that_say_nothing_reach_the_base_rate():
    y = np.repeat([0, 1], [30, 10])
    found = attribute_vectors(np.zeros((40, 3)), y, np.zeros((40, 3)), y)
    assert found["accuracy"] == found["base_rate"] == 0.75


def test_more_than_two_levels_are_told_one_by_one_against_the_rest():
    y = np.arange(30) % 3
    codes = 10.0 * np.eye(3)[y]
    found = attribute_vectors(codes, y, codes, y)
    assert found == {"accuracy": 1.0, "base_rate": pytest.approx(2 / 3)}


def test_factors_count_alike_whatever_their_number_of_levels():
    factors = np.stack([np.arange(60) % 2, np.arange(60) % 3], 1)
    codes = 10.0 * np.eye(3)[factors[:, 1]]  # tells the second factor alone
    found = attribute_vectors(codes, factors, codes, factors)
    first = attribute_vectors(codes, factors[:, 0], codes, factors[:, 0])["accuracy"]
    assert found["accuracy"] == pytest.approx((first + 1) / 2)
    assert found["base_rate"] == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_a_level_that_was_not_learned_is_left_out():
    codes = np.array([[-3.0], [3.0], [-3.0], [3.0]])
    found = attribute_vectors(codes, [0, 1, 0, 1], np.array([[-3.0], [3.0], [-3.0]]), [0, 1, 2])
    assert found["accuracy"] == 1.0


def test_a_third_is_held_back_by_the_seed():
    rng = np.random.default_rng(0)
    codes, y = rng.standard_normal((90, 2)), np.arange(90) % 2
    codes[:, 0] += y
    scores = [attribute_vectors(codes, y, seed=seed) for seed in (0, 0, 1)]
    assert scores[0] == scores[1] != scores[2]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_rotating_and_shifting_the_code_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    codes, y = rng.standard_normal((60, 3)), np.arange(60) % 2
    codes[:, 0] += 2 * y
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    moved = codes @ rotation + 5
    assert attribute_vectors(moved, y) == pytest.approx(attribute_vectors(codes, y), abs=1e-9)


def test_unit_variance_makes_the_scale_of_each_latent_irrelevant():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    codes = rng.standard_normal((400, 3)) + y[:, None]
    small = codes * [0.01, 3.0, 0.2]
    unit = attribute_vectors(codes, y, unit=True)
    assert attribute_vectors(small, y, unit=True) == pytest.approx(unit)
    assert attribute_vectors(small, y)["accuracy"] < unit["accuracy"]
    standard = codes / codes[:, :].std(0)
    assert attribute_vectors(standard, y, standard, y) == pytest.approx(
        attribute_vectors(small, y, small, y, unit=True)
    )


def test_latents_that_never_change_stay_out_of_unit_codes():
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=200)
    codes = rng.standard_normal((200, 2)) + y[:, None]
    dead = np.hstack([codes, np.full((200, 1), 0.1)])
    assert attribute_vectors(dead, y, unit=True) == attribute_vectors(codes, y, unit=True)
