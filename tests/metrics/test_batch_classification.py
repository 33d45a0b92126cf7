"""Support vector machines on codes that batches share."""

import numpy as np
import pytest

from untwine.errors import DataError, ParameterError
from untwine.metrics import batch_classification


def clouds(distance, batches=120, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    levels = np.arange(batches) % classes
    codes = rng.standard_normal((batches, 2))
    codes[:, 0] += distance * levels
    return codes, levels


def test_two_normals_far_apart_are_told_by_both_machines():
    found = batch_classification(*clouds(10))
    assert found["linear"] == found["rbf"] == found["linear_train"] == 1.0
    assert found["base_rate"] == 0.5


@pytest.mark.parametrize("classes", [2, 3])
def test_identical_normals_are_told_by_chance(classes):
    found = batch_classification(*clouds(0, batches=1200, classes=classes))
    assert found["linear"] == pytest.approx(1 / classes, abs=0.07)
    assert found["rbf"] == pytest.approx(1 / classes, abs=0.07)


def test_crossed_classes_need_the_gaussian_kernel():
    rng = np.random.default_rng(0)
    corners = rng.integers(2, size=(400, 2))
    codes = 10.0 * corners + rng.standard_normal((400, 2))
    found = batch_classification(codes, corners[:, 0] ^ corners[:, 1])
    assert found["rbf"] == 1.0
    assert found["linear"] < 0.8


def test_factors_are_averaged():
    (near, levels), (far, _) = clouds(0), clouds(10)
    both = batch_classification(np.stack([near, far]), np.stack([levels, levels]))
    alone = batch_classification(near, levels)["linear"]
    assert both["linear"] == pytest.approx((alone + 1) / 2, abs=0.1)
    assert both["linear"] > alone


def test_levels_keep_their_shares_on_both_sides():
    levels = np.repeat([0, 1], [80, 20])
    found = batch_classification(levels[:, None] * 10.0, levels)
    assert found["base_rate"] == 0.8


def test_the_seed_chooses_the_batches_held_back():
    codes, levels = clouds(1)
    scores = [batch_classification(codes, levels, seed=seed) for seed in (0, 0, 1)]
    assert scores[0] == scores[1] != scores[2]


def test_standardising_undoes_the_scale_of_a_latent():
    codes, levels = clouds(4)
    stretched = codes * [1e-3, 1e3]
    assert batch_classification(stretched, levels)["rbf"] < 0.8
    found, expected = (
        batch_classification(z, levels, standardise=True) for z in (stretched, codes)
    )
    assert found == pytest.approx(expected) and found["rbf"] > 0.9


def test_a_fifth_is_held_back_on_request():
    codes, levels = clouds(10, batches=10)
    assert batch_classification(codes, levels, held_back=0.2)["linear"] in (0, 0.5, 1)
    with pytest.raises(ParameterError, match="between 0 and 1"):
        batch_classification(codes, levels, held_back=1.0)


def test_levels_with_one_batch_and_factors_with_one_level_are_left_out():
    codes, levels = clouds(10, batches=21)
    levels[-1] = 7
    alone = batch_classification(codes, levels)
    both = batch_classification(np.stack([codes] * 2), np.stack([levels, 0 * levels]))
    assert alone == both and alone["linear"] == 1.0


@pytest.mark.parametrize("codes", [np.zeros((20, 3)), np.full((20, 1), 1e6)])
def test_constant_codes_reach_the_base_rate(codes):
    found = batch_classification(codes, np.arange(20) % 2)
    assert found["linear"] == found["rbf"] == found["base_rate"] == 0.5


def test_codes_of_a_huge_scale_do_not_take_forever():
    codes, levels = clouds(0.1, batches=200)
    assert 0 <= batch_classification(codes * 1e6, levels)["linear"] <= 1


@pytest.mark.parametrize(
    ("codes", "levels", "sentence"),
    [
        (np.zeros((4, 2)), np.zeros(3, int), r"codes \(K, M, D\)"),
        (np.zeros(4), np.zeros(4, int), r"codes \(K, M, D\)"),
        (np.full((4, 2), np.inf), np.arange(4) % 2, "infinity"),
        (np.zeros((4, 2)), np.full(4, 0.5), "whole numbers"),
        (np.zeros((4, 2)), np.zeros(4, int), "two levels"),
        (np.zeros((4, 2)), np.arange(4), "at least 2 batches"),
        (np.array([["a"]] * 4), np.arange(4), "real numbers"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(codes, levels, sentence):
    with pytest.raises(DataError, match=sentence):
        batch_classification(codes, levels)
