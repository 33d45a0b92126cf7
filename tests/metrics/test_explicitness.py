"""Explicitness: areas by ranks, the optimum of the models, and the reference's values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.multiclass import OneVsRestClassifier

from untwine.errors import DataError
from untwine.estimators.arrays import split
from untwine.estimators.linear import auc_ranking, fit_logistic, logistic_inputs
from untwine.metrics import explicitness

CASES = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]
SOLVERS = {"multinomial": "modern", "2019": "vintage"}


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


def noisy(levels, n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(levels, size=n)
    return np.eye(levels)[y] @ rng.standard_normal((levels, 3)) + rng.standard_normal((n, 3)), y


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", CASES)
def test_explicitness_agrees_with_the_reference(case, solver, golden, rows):
    stored = rows(case)
    given = [stored[name] for name in ("z_train", "f_train", "z_test", "f_test")]
    expected = golden["cases"][case]["fixed"][SOLVERS[solver]]["modularity_explicitness"]
    found = explicitness(*given, solver=solver)
    assert found["explicitness"] == pytest.approx(expected["explicitness_score_test"], abs=1e-3)
    assert found["train"] == pytest.approx(expected["explicitness_score_train"], abs=1e-3)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_areas_are_those_under_the_curves(seed, levels):
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(levels), rng.integers(levels, size=40))
    scores = rng.integers(10, size=(len(y), levels)) / 10  # with many ties
    expected = np.mean([roc_auc_score(y == c, scores[:, c]) for c in range(levels)])
    assert auc_ranking(scores, y, np.arange(levels)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("levels", [2, 4])
def test_multinomial_models_have_free_biases(levels):
    z, y = noisy(levels)
    x = np.hstack([z, np.ones((len(z), 1))])
    model = LogisticRegression(tol=1e-8, max_iter=1000).fit(z, y)
    found = np.exp(fit_logistic(x, y, "multinomial").log_probabilities(x))
    assert found == pytest.approx(model.predict_proba(z), abs=2e-3)


@pytest.mark.parametrize("levels", [2, 4])
def test_models_of_2019_are_one_for_each_level_with_penalised_biases(levels):
    z, y = noisy(levels)
    x = np.hstack([z, np.ones((len(z), 1))])
    one = LogisticRegression(solver="liblinear", tol=1e-9, max_iter=1000)
    model = (one if levels == 2 else OneVsRestClassifier(one)).fit(z, y)
    found = np.exp(fit_logistic(x, y, "2019").log_probabilities(x))
    assert found == pytest.approx(model.predict_proba(z), abs=2e-3)


def test_constant_latents_are_left_out():
    z, y = noisy(3)
    dead = np.hstack([z, np.full((len(z), 2), 3.7)]).astype(np.float32)
    for solver in SOLVERS:
        expected = explicitness(z.astype(np.float32), y, solver=solver)
        assert explicitness(dead, y, solver=solver) == pytest.approx(expected, abs=1e-4)
    assert explicitness(0 * z, y) == {"explicitness": 0.5, "train": 0.5}


def test_inputs_are_standard_by_the_rows_to_learn_from():
    z, y = noisy(3)
    x, test_x = logistic_inputs(split(z + 1e6, y, 2 * z + 1e6, y, 0))
    assert x[:, :-1].mean(0) == pytest.approx(0, abs=1e-6)
    assert x[:, :-1].std(0) == pytest.approx(1, abs=1e-6)
    assert test_x[:, :-1].std(0) == pytest.approx(2, abs=1e-6)


def test_a_level_may_be_missing_on_either_side():
    z, y = noisy(4)
    some = y < 3
    whole = explicitness(z, y, z, y)["explicitness"]
    assert 0.5 < explicitness(z, y, z[some], y[some])["explicitness"] < 1
    assert 0.5 < explicitness(z[some], y[some], z, y)["explicitness"] < 1
    assert whole == pytest.approx(explicitness(z, y, z, y)["train"])


def test_rows_to_test_on_need_two_levels():
    z, y = noisy(3)
    with pytest.raises(DataError, match="two levels"):
        explicitness(z, y, z[y == 0], y[y == 0])


def test_a_rotation_changes_nothing():
    f = np.tile(grid(3, 4), (20, 1))
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))
    z = (f - f.mean(0)) / f.std(0)
    codes = z + 0.3 * np.random.default_rng(1).standard_normal(z.shape)
    turned = explicitness(codes @ turn, f)["explicitness"]
    assert turned == pytest.approx(explicitness(codes, f)["explicitness"], abs=5e-3)
