"""Scores of codes alone: total correlation, Wasserstein correlation, information, active units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from untwine.errors import DataError
from untwine.metrics import (
    active_units,
    latent_information,
    total_correlation,
    wasserstein_correlation,
)
from untwine.metrics.total_correlation import covariance

STORED = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]


def with_covariance(wanted, n=50):
    """Codes whose sample covariance is exactly the wanted one."""
    z = np.random.default_rng(0).normal(size=(n, len(wanted)))
    z -= z.mean(0)
    white = np.linalg.cholesky(np.linalg.inv(np.atleast_2d(np.cov(z.T))))
    values, vectors = np.linalg.eigh(wanted)
    return z @ white @ (vectors * np.sqrt(values.clip(0))).T


@pytest.mark.parametrize("name", STORED)
def test_stored_rows_agree_with_the_reference(name, golden, rows):
    codes = rows(name)["z_train"]
    expected = golden["cases"][name]["fixed"]["modern"]["unsupervised"]
    distance = wasserstein_correlation(codes)
    values = {
        "gaussian_total_correlation": total_correlation(codes),
        "gaussian_wasserstein_correlation": distance["wasserstein_correlation"],
        "gaussian_wasserstein_correlation_norm": distance["normalised"],
        "mutual_info_score": latent_information(codes),
    }
    assert values == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("wanted", "correlation", "distance"),
    [
        ([[1, 0], [0, 1]], 0.0, 0.0),
        ([[1, 0.5], [0.5, 1]], 0.143841, 0.136297),
        ([[1, 0.9], [0.9, 1]], 0.830366, 0.610735),
        ([[4, 1], [1, 1]], 0.143841, 0.216707),
    ],
)
def test_known_covariances(wanted, correlation, distance):
    codes = with_covariance(np.array(wanted, float))
    assert total_correlation(codes) == pytest.approx(correlation, abs=1e-6)
    found = wasserstein_correlation(codes)
    assert found["wasserstein_correlation"] == pytest.approx(distance, abs=1e-6)
    assert found["normalised"] == pytest.approx(distance / np.trace(wanted), abs=1e-6)


def test_copies_are_infinitely_correlated_but_finitely_far():
    z = with_covariance(np.eye(1))
    copies = np.hstack([z, z])
    with pytest.raises(DataError, match="infinite"):
        total_correlation(copies)
    distance = wasserstein_correlation(copies)["wasserstein_correlation"]
    assert distance == pytest.approx(4 - 2 * np.sqrt(2), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_linear_combinations_and_too_few_rows_are_refused(seed):
    z = np.random.default_rng(seed).normal(size=(100, 3))
    with pytest.raises(DataError, match="linear combinations"):
        total_correlation(np.hstack([z, z @ [[1.0], [2.0], [-0.3]]]))
    with pytest.raises(DataError, match="more rows"):
        total_correlation(np.random.default_rng(seed).normal(size=(4, 6)))


def test_constant_latents_are_left_out():
    z = with_covariance(np.array([[1, 0.5], [0.5, 1]]))
    dead = np.hstack([z, np.full((len(z), 2), 0.1)])
    assert total_correlation(dead) == pytest.approx(0.143841, abs=1e-6)
    assert wasserstein_correlation(dead) == pytest.approx(wasserstein_correlation(z))
    nothing = np.full((5, 3), 0.1)
    assert total_correlation(nothing) == 0.0
    assert wasserstein_correlation(nothing) == {"wasserstein_correlation": 0.0, "normalised": 0.0}
    assert latent_information(nothing) == 0.0


def test_one_latent_shares_nothing():
    z = np.arange(9.0)[:, None]
    assert total_correlation(z) == latent_information(z) == 0.0
    assert wasserstein_correlation(z)["wasserstein_correlation"] == pytest.approx(0, abs=1e-12)


def test_independent_codes_show_the_bias_of_the_estimate():
    z = np.random.default_rng(0).uniform(size=(10_000, 5))
    assert latent_information(z) == pytest.approx(19 * 19 / 20_000, abs=2e-3)


def test_information_is_the_mean_over_pairs():
    z = np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0)
    other = np.tile([0.0, 1.0], 5)[:, None]
    pair = latent_information(np.hstack([z[:, :1], other]))
    expected = (np.log(2) + 2 * pair) / 3
    assert latent_information(np.hstack([z, other])) == pytest.approx(expected)


def test_covariance_is_that_of_numpy_whatever_the_precision_and_offset(monkeypatch):
    monkeypatch.setitem(covariance.__globals__, "ROWS", 7)
    z = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32) + np.float32(1e4)
    assert covariance(z) == pytest.approx(np.cov(z.T.astype(np.float64)), rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.floats(0.01, 100))
def test_scaling_changes_no_total_correlation_and_no_normalised_distance(seed, scale):
    z = np.random.default_rng(seed).normal(size=(30, 3)) @ np.array(
        [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
    )
    assert total_correlation(scale * z) == pytest.approx(total_correlation(z), rel=1e-9)
    both = [wasserstein_correlation(codes)["normalised"] for codes in (z, scale * z)]
    assert both[0] == pytest.approx(both[1], rel=1e-9) and both[0] > 0


def test_a_latent_is_active_above_the_threshold():
    sign = np.array([1.0, -1.0])[:, None]
    assert active_units(sign * np.sqrt([0.0099, 0.0101])) == 1.0
    assert active_units(sign * np.sqrt([0.0099, 0.0101]), threshold=0.005) == 2.0
    assert active_units(np.full((7, 3), 0.1), threshold=0.0) == 0.0


@pytest.mark.parametrize("name", STORED)
def test_active_units_of_stored_rows_are_those_that_encode(name, rows):
    codes, factors = rows(name)["z_train"], rows(name)["f_train"]
    k, d = factors.shape[1], codes.shape[1]
    expected = {"duplicated": 2 * k, "missing": k - 1, "noise": d}.get(name.split("__")[1], k)
    assert active_units(codes) == expected
