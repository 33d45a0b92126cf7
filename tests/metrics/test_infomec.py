"""InfoM, InfoE and InfoC."""

import math

import numpy as np
import pytest

from untwine.metrics import infomec
from untwine.metrics.infomec import _concentration, _neighbour_information, _standardise

STORED = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]
VALUES = ("infom", "infoe", "infoc")


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


@pytest.mark.parametrize("latents", ["continuous", "discrete"])
@pytest.mark.parametrize("name", STORED)
def test_stored_rows_agree_with_the_authors_code(name, latents, golden, rows):
    expected = golden["infomec"]["cases"][name]
    expected = expected["discrete20"] if latents == "discrete" else expected
    scores = infomec(rows(name)["z_train"][:5000], rows(name)["f_train"][:5000], latents=latents)
    assert scores["active"] == sum(expected["active_latents"])
    for value in VALUES:
        if expected[value] == "nan":  # where nothing is known of a latent or factor, we skip it
            assert scores["empty_latents" if value == "infom" else "empty_factors"] > 0
        else:
            assert scores[value] == pytest.approx(expected[value], abs=0.01), value


def test_neighbour_estimate_is_that_of_scikit_learn():
    from sklearn.feature_selection import mutual_info_classif

    rng = np.random.default_rng(0)
    f = np.stack([rng.integers(6, size=900), rng.integers(2, size=900)], 1)
    f[0, 0] = 6  # a level of one row
    f[1:5, 0] = 7  # and one with fewer rows than neighbours
    x = _standardise(f @ rng.normal(size=(2, 3)) + rng.normal(size=(900, 3)))
    ours = _neighbour_information(x, f, 10, 0)
    theirs = [mutual_info_classif(x, column, n_neighbors=10, random_state=0) for column in f.T]
    # scikit-learn rounds the distances of few rows, so that a neighbour can count itself in
    assert ours[:, 0] == pytest.approx(theirs[0], abs=1e-4)
    assert ours[:, 1] == pytest.approx(theirs[1], abs=1e-9)
    assert ours.min() > 0.003


@pytest.mark.parametrize(
    ("shares", "modular", "compact"),
    [
        (np.eye(3), 1.0, 1.0),
        (np.full((3, 3), 0.2), 0.0, 0.0),
        (np.vstack([np.eye(3), np.eye(3)]), 1.0, 0.4),
        (np.vstack([np.eye(3), np.zeros((1, 3))]), 1.0, 1.0),
        (np.zeros((2, 3)), 0.0, 0.0),
        (np.zeros((0, 3)), 0.0, 0.0),
        (np.array([[0.5, 0.2]]), (0.5 / 0.7 - 0.5) / 0.5, 1.0),
    ],
)
def test_known_shares_of_latents_by_factors(shares, modular, compact):
    assert _concentration(shares) == pytest.approx(modular)
    assert _concentration(shares.T) == pytest.approx(compact)


@pytest.mark.parametrize("latents", ["continuous", "discrete"])
def test_perfect_codes_score_one_with_or_without_dead_latents(latents):
    factors = np.random.default_rng(0).integers((3, 4, 5), size=(2000, 3))
    codes = np.hstack([factors, np.full((2000, 2), 0.1)])
    scores = infomec(codes, factors, latents=latents)
    assert [scores[value] for value in VALUES] == pytest.approx([1, 1, 1], abs=0.02)
    assert scores["active"] == 3


def test_quantised_noise_makes_dead_latents_active():
    rng = np.random.default_rng(0)
    factors = rng.integers((5, 6, 7), size=(5000, 3))
    codes = np.hstack([factors, 0.01 * rng.normal(size=(5000, 3))])
    assert infomec(codes, factors)["active"] == 3
    scores = infomec(codes, factors, latents="discrete")
    assert scores["active"] == 6 and scores["infom"] < 0.7


def test_a_narrow_latent_is_inactive_beside_a_wide_one():
    factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    assert infomec(factors * [1.0, 21.0], factors)["active"] == 1
    assert infomec(factors * [1.0, 19.0], factors)["active"] == 2


@pytest.mark.parametrize("latents", ["continuous", "discrete"])
def test_constant_codes_hold_nothing(latents):
    scores = infomec(np.full((60, 2), 0.1), grid(3, 4, 5), latents=latents)
    assert [scores[value] for value in VALUES] == pytest.approx([0, 0, 0], abs=1e-9)
    assert scores["active"] == 0 and scores["empty_factors"] == 3


def test_one_latent_is_compact_and_one_factor_modular():
    factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    assert infomec(factors[:, :1], factors)["infoc"] == 1.0
    assert infomec(factors, factors[:, :1])["infom"] == 1.0


def test_noise_explains_nothing_and_unequal_classes_are_measured_against_a_guess():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(5000, 3))
    assert infomec(codes, rng.integers(4, size=(5000, 2)))["infoe"] == pytest.approx(0, abs=0.01)
    rare = (rng.random(5000) < 0.1).astype(int)
    assert infomec(codes, rare)["infoe"] == pytest.approx(0, abs=0.01)


def test_equal_codes_are_parted_by_the_seed_alone():
    factors = np.random.default_rng(0).integers(4, size=(500, 2))
    first, again, other = (infomec(factors, factors, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert all(type(v) is float and math.isfinite(v) for v in first.values())


def test_a_factor_whose_levels_occur_once_holds_no_neighbours():
    codes = np.random.default_rng(0).normal(size=(40, 2))
    scores = infomec(codes, np.stack([np.arange(40), np.arange(40) % 2], 1))
    assert scores["empty_factors"] >= 1 and all(map(math.isfinite, scores.values()))


def test_fewer_iterations_explain_less():
    factors = np.random.default_rng(0).integers(9, size=(500, 2))
    few, many = (infomec(factors, factors, iterations=n)["infoe"] for n in (2, 100))
    assert few < 0.9 < 0.999 < many
