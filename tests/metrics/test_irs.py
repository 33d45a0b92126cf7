"""Interventional robustness."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from untwine.metrics import irs

STORED = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


def standard(factors):
    return (factors - factors.mean(0)) / factors.std(0)


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize(
    ("key", "params"),
    [
        ("IRS", {"bins": 20}),
        ("IRS_quantile_1.0", {"bins": 20, "quantile": 1.0}),
        ("IRS_without_factor_binning", {}),
    ],
)
def test_stored_rows_agree_with_the_reference(name, key, params, golden, rows):
    expected = golden["cases"][name]["fixed"]["modern"]["irs"]
    if key not in expected:
        pytest.skip("not recorded for this case")
    value = irs(rows(name)["z_train"], rows(name)["f_train"], **params)
    assert value == pytest.approx(expected[key], abs=1e-5)


def test_perfect_codes_of_a_full_grid_score_one():
    assert irs(standard(grid(5, 6, 7)), grid(5, 6, 7)) == pytest.approx(1.0, abs=1e-12)


def test_a_sum_of_two_factors_is_half_robust():
    factors = grid(2, 2)
    assert irs((2 * factors - 1).sum(1, keepdims=True), factors) == 0.5


@pytest.mark.parametrize("degrees", [0, 15, 30, 45])
@pytest.mark.parametrize("quantile", [0.99, 1.0])
def test_rotated_codes_follow_the_closed_form(degrees, quantile):
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    codes = (grid(32, 32) - 15.5) @ np.array([[c, s], [-s, c]])
    expected = c / (c + s)
    assert irs(codes, grid(32, 32), quantile=quantile) == pytest.approx(expected, abs=1e-9)


def test_a_half_mixed_latent_has_a_known_score():
    g = standard(grid(5, 6, 7))
    codes = np.stack([g[:, 0] + g[:, 1] / 2, g[:, 1], g[:, 2]], 1)
    assert irs(codes, grid(5, 6, 7), quantile=1.0) == pytest.approx(0.856766, abs=1e-6)
    assert irs(codes[:, :1], grid(5, 6, 7), quantile=1.0) == pytest.approx(0.658957, abs=1e-6)


def test_constant_latents_are_left_out():
    factors = grid(5, 6)
    assert irs(np.hstack([factors, np.full((30, 2), 0.1)]), factors) == pytest.approx(1.0)
    assert irs(np.full((30, 2), 0.1), factors) == 0.0


def test_noise_is_not_zero_below_the_maximum():
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(10_000, 4)), rng.integers(5, size=(10_000, 3))
    assert 0.3 < irs(codes, factors) < 0.45
    assert irs(codes, factors, quantile=1.0) < 0.2


def test_large_offsets_of_single_precision_do_no_harm():
    factors = grid(5, 6, 7)
    assert irs((factors + 1e6).astype(np.float32), factors) == pytest.approx(1.0, abs=1e-9)


def test_wide_latents_weigh_more():
    rng = np.random.default_rng(0)
    factors = rng.integers(5, size=(2000, 2))
    noise = rng.normal(size=2000)
    wide, narrow = (irs(np.stack([factors[:, 0], s * noise], 1), factors) for s in (9, 0.1))
    assert narrow > 0.85 > 0.5 > wide


def test_binning_merges_levels():
    factors = np.arange(40)[:, None]
    assert irs(factors, factors) == 1.0
    assert irs(factors, factors, bins=20) < 1.0


@settings(max_examples=30, deadline=None)
@given(arrays.arrays(np.float64, (12, 2), elements=st.floats(-1e3, 1e3)), st.floats(0, 1))
def test_values_lie_between_minus_one_and_one(codes, quantile):
    assert -1 - 1e-9 <= irs(codes, grid(3, 4), quantile=quantile) <= 1 + 1e-9
