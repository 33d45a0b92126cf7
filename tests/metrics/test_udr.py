"""Agreement between models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from untwine.errors import DataError
from untwine.metrics import udr
from untwine.metrics.udr import _agreement, _lasso, udr_scores


def orthogonal(n=8):
    """(n, 3) columns of ±1 that are exactly uncorrelated."""
    return np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), -1).reshape(-1, 3)[:n]


@pytest.mark.parametrize(
    ("method", "filtered"), [("lasso", True), ("lasso", False), ("spearman", True)]
)
def test_stored_models_agree_with_the_reference(method, filtered, golden, shared):
    stored = np.load(shared("golden/udr.npz"))
    expected = golden["udr"]["modern"][f"udr_{method}_filter{filtered}"]["model_scores"]
    scores = udr_scores(stored["codes"], stored["kl"], method=method, filtered=filtered)
    assert scores == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("strengths", "expected"),
    [
        (np.eye(3), 1.0),
        (0.9 * np.eye(3), 0.9),
        (np.ones((2, 2)), 0.5),
        (np.full((2, 2), np.sqrt(0.5) - 0.1), 0.303553),
        ([[1, 0, 0], [0, 1, 0]], 0.833333),
        (np.zeros((3, 2)), 0.0),
        (np.zeros((0, 2)), 0.0),
    ],
)
def test_agreement_of_known_strengths(strengths, expected):
    assert _agreement(np.asarray(strengths, float)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("method", "expected"), [("lasso", 0.9), ("spearman", 1.0)])
def test_order_sign_scale_and_offset_of_latents_cost_nothing(method, expected):
    z = orthogonal()
    models = [z, -z[:, [2, 0, 1]], 100 * z + 5, z / [1, 2, 3]]
    assert udr_scores(models, method=method) == pytest.approx(expected, abs=1e-9)


def test_spearman_sees_monotone_relations():
    z = np.random.default_rng(0).normal(size=(500, 3))
    same, stretched = (udr([z, other], method="spearman")["udr"] for other in (z, np.exp(3 * z)))
    assert same == pytest.approx(stretched)
    assert udr([z, np.exp(3 * z)])["udr"] < udr([z, z])["udr"] - 0.2


def test_rotated_models_agree_less():
    c = np.sqrt(0.5)
    z = orthogonal()[:, :2]
    assert udr([z, z @ [[c, c], [-c, c]]])["udr"] == pytest.approx(0.303553, abs=1e-6)


def test_uninformative_latents_are_left_out_or_counted_as_nothing():
    z = orthogonal()
    kl = [[1.0, 1.0, 0.01]] * 2  # at the threshold is not above it
    assert udr([z, z], kl)["udr"] == pytest.approx(0.9)
    assert udr([z, z], kl, filtered=False)["udr"] == pytest.approx(0.6)
    assert udr([z, z], kl, filtered=False, method="spearman")["udr"] == pytest.approx(2 / 3)
    assert udr([z, z], [[0.0] * 3] * 2)["udr"] == 0.0
    dead = np.hstack([z, np.full((8, 1), 0.1)])
    assert udr([dead, z])["udr"] == pytest.approx(0.9)


def test_models_may_differ_in_their_number_of_latents():
    z = orthogonal()
    assert udr([z, z[:, :2]])["udr"] == pytest.approx(0.9 * 5 / 6)


def test_every_model_has_a_score_which_is_a_median_over_the_others():
    z, noise = orthogonal(), np.random.default_rng(0).normal(size=(8, 3))
    scores = udr([z, -z, z[:, ::-1], noise])
    assert list(scores) == ["udr", "model 1", "model 2", "model 3", "model 4"]
    assert scores["model 1"] == pytest.approx(0.9) and scores["model 4"] < 0.8
    assert scores["udr"] == pytest.approx(np.median([*scores.values()][1:]))
    assert all(type(value) is float for value in scores.values())


@pytest.mark.parametrize("kind", ["independent", "collinear", "copies"])
def test_lasso_is_that_of_scikit_learn(kind):
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(0)
    base = rng.normal(size=(300, 6))
    few = base[:, :3]
    x = {
        "independent": base,
        "collinear": few @ rng.normal(size=(3, 6)) + 0.01 * base,
        "copies": np.hstack([few, few]),
    }[kind]
    y = x @ rng.normal(size=(6, 4)) + base[:, :4]
    x, y = ((v - v.mean(0)) / v.std(0) for v in (x, y))
    expected = Lasso(alpha=0.1, tol=1e-14, max_iter=100_000).fit(x, y).coef_.T
    w = _lasso(x.T @ x / 300, x.T @ y / 300, 0.1)
    assert x @ w == pytest.approx(x @ expected, abs=1e-8)
    if kind != "copies":  # whose weight can be shared in many ways
        assert w == pytest.approx(expected, abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9999), st.integers(1, 8), st.floats(0.01, 1), st.floats(0, 1))
def test_lasso_is_optimal(seed, d, alpha, noise):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 2)) @ rng.normal(size=(2, d)) + noise * rng.normal(size=(40, d))
    y = rng.normal(size=(40, 5))
    gram, targets = x.T @ x / 40, x.T @ y / 40
    w = _lasso(gram, targets, alpha)
    slope = targets - gram @ w
    assert (np.abs(slope) <= alpha + 1e-9).all()
    assert slope[w != 0] == pytest.approx(alpha * np.sign(w[w != 0]), abs=1e-9)


def test_what_cannot_be_compared_is_refused():
    z = orthogonal()
    with pytest.raises(DataError, match="at least 2 models"):
        udr([z])
    with pytest.raises(DataError, match="the same examples, not 8, 7"):
        udr([z, z[1:]])
    with pytest.raises(DataError, match="one number per latent"):
        udr([z, z], [[1.0, 1.0]] * 2)
    with pytest.raises(DataError, match="one number per latent"):
        udr([z, z], [[1.0, 1.0, 1.0]])
