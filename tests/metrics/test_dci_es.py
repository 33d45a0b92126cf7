"""DCI-ES: explicitness of known curves, and forests that are cut at a depth."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from untwine.errors import DataError, ParameterError
from untwine.metrics import dci_es
from untwine.metrics.dci_es import _probe, curve_explicitness


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([0, 1], [1, 0], 0),
        ([0, 1], [0, 0], 1),
        ([0, 1], [1, 1], 1),
        ([0, 1, 2], [1, 0.5, 0], 0),
        ([0, 1, 2], [1, 0, 0], 0.5),
        ([0, 1, 2], [0.2, 0.4, 0], 0.7),
    ],
)
def test_explicitness_of_known_curves(x, y, expected):
    assert curve_explicitness(x, y, 1.0) == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0.1, 10), st.floats(-5, 5))
def test_units_of_capacity_and_loss_do_not_matter(losses, unit, start):
    x = np.arange(len(losses))
    plain = curve_explicitness(x, losses, 1.0)
    assert plain <= 1
    assert curve_explicitness(start + unit * x, losses, 1.0) == pytest.approx(plain, abs=1e-6)
    assert curve_explicitness(x, np.multiply(losses, 3), 3.0) == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "base"),
    [([1], [0.5], 1.0), ([1, 1], [0.5, 0.2], 1.0), ([1, 2], [0.5], 1.0), ([1, 2], [1, 0], 0.0)],
)
def test_curves_that_are_none_are_refused(x, y, base):
    with pytest.raises(DataError, match="at least two capacities"):
        curve_explicitness(x, y, base)


def test_a_forest_cut_at_a_depth_is_the_forest_of_that_depth():
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=800)
    x = (np.stack([y, y % 3, 0 * y], axis=1) + rng.normal(0, 0.7, (800, 3))).astype(np.float32)
    probe = _probe(x[:600], y[:600], x[600:], y[600:], [1, 2, 5], 10, 0)
    for t, depth in enumerate((1, 2, 5)):
        forest = RandomForestClassifier(10, max_depth=depth, max_features=None, random_state=0)
        forest.fit(x[:600], y[:600])
        assert 1 - probe.losses[t] == pytest.approx(forest.score(x[600:], y[600:]), abs=0.02)
        total = sum(t.tree_.compute_feature_importances(normalize=False) for t in forest)
        assert probe.importances[t] == pytest.approx(total / total.sum(), abs=0.01)


def test_perfect_codes_are_explicit_and_their_size_is_the_share_of_factors():
    factors = np.repeat(grid(5, 6, 7), 5, axis=0)
    codes = np.hstack([factors, np.zeros((len(factors), 3))])
    found = dci_es(codes, factors)
    assert found["disentanglement"] > 0.999 and found["completeness"] > 0.999
    assert found["informativeness"] == 1.0 and found["explicitness"] > 0.95
    assert found["size"] == 0.5


def test_mixed_codes_are_less_explicit_than_perfect_ones():
    factors = np.repeat(grid(5, 6, 7), 5, axis=0)
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))
    mixed, perfect = dci_es(factors @ turn, factors), dci_es(factors, factors)
    assert mixed["explicitness"] < perfect["explicitness"] - 0.03
    assert mixed["disentanglement"] < 0.7 * perfect["disentanglement"]


def test_a_useless_code_looks_explicit_but_not_disentangled():
    rng = np.random.default_rng(0)
    found = dci_es(rng.standard_normal((2000, 4)), rng.integers(5, size=(2000, 3)))
    assert found["explicitness"] > 0.95 and found["informativeness"] < 0.25
    assert found["disentanglement"] < 0.05


def test_one_depth_is_no_curve():
    with pytest.raises(ParameterError, match="two depths"):
        dci_es(np.zeros((30, 2)), np.arange(30) % 3, depths=(4, 4))


def test_constant_codes_one_latent_and_the_same_seed():
    factors = np.repeat(grid(3, 4), 10, axis=0)
    constant = dci_es(np.zeros((120, 2)), factors)
    assert constant["disentanglement"] == 0 and constant["explicitness"] == 1
    one = [dci_es(factors[:, :1], factors, seed=2) for _ in range(2)]
    assert one[0] == one[1] and one[0]["size"] == 2


def test_the_number_of_threads_changes_no_digit(monkeypatch):
    factors = np.repeat(grid(3, 4), 20, axis=0)
    codes = factors + np.random.default_rng(0).normal(0, 0.5, factors.shape)
    values = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        values.append(dci_es(codes, factors, trees=8))
    assert values[0] == values[1]
