"""SAP: closed forms of the paper, the optimum of the machines, and the reference's values."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from untwine.errors import DataError, ParameterError
from untwine.estimators.arrays import Split, check, split
from untwine.estimators.linear import svm_accuracies, train_svms
from untwine.metrics import sap
from untwine.metrics.sap import _determination, balanced_accuracy

CASES = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]
SIZES = np.array([5, 6, 7])


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


def standard(factors):
    return (factors - (SIZES - 1) / 2) / np.sqrt((SIZES**2 - 1) / 12)


@pytest.fixture(scope="module")
def draws():
    """The levels that the reference's edge cases were drawn with."""
    states = (np.random.RandomState(1), 2000), (np.random.RandomState(2), 1000)
    return [np.stack([s.randint(m, size=n) for m in SIZES], 1) for s, n in states]


def test_a_binary_factor_has_the_best_threshold():
    y, z = np.array([0, 0, 0, 1, 1, 1]), np.array([1.0, 2, 4, 3, 5, 6])
    assert sap(z[:, None], y) == pytest.approx(5 / 6)
    assert sap(-z[:, None], y) == pytest.approx(5 / 6)
    assert sap(np.stack([z, 0 * z], 1), y) == pytest.approx(5 / 6)
    assert sap(y[:, None], y) == 1


def test_an_independent_latent_scores_one_half_on_a_binary_factor():
    rng = np.random.default_rng(0)
    assert sap(rng.standard_normal((20000, 1)), np.arange(20000) % 2) == pytest.approx(
        0.5, abs=0.01
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 4), st.integers(5, 9))
def test_thresholds_are_the_best_of_all(seed, levels, rows):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(levels), rng.integers(levels, size=rows - levels)])
    z = np.sort(rng.integers(6, size=rows)).astype(float)
    order = np.argsort([z[y == level].mean() for level in range(levels)], kind="stable")
    cuts = itertools.combinations_with_replacement(np.unique(np.append(z, 9)), levels - 1)
    interval = [np.searchsorted(cut, z, side="right") for cut in cuts]
    recalls = [[(order[i] == y)[y == c].mean() for c in range(levels)] for i in interval]
    assert balanced_accuracy(z, y) == pytest.approx(np.mean(recalls, axis=1).max())


def test_categorical_factors_are_told_by_position():
    factors = np.hstack([np.full((60, 1), 3), grid(3, 4, 5)])
    codes = np.hstack([np.array([0, 2, 1])[factors[:, 1:2]], factors[:, 2:]]).astype(float)
    assert sap(codes, factors, categorical=(1,)) == pytest.approx((2 / 3 + 2) / 3)
    assert sap(codes, factors) == pytest.approx((0.25 + 2) / 3)
    with pytest.raises(ParameterError, match="count from 0"):
        sap(codes, factors, categorical=(4,))


def test_the_paper_uses_the_rows_to_test_on_alone():
    f = grid(3, 4)
    noise = np.random.default_rng(0).standard_normal(f.shape)
    assert sap(noise, f, f.astype(float), f) == pytest.approx(1)
    assert sap(f.astype(float), f, noise, f) < 0.5
    with pytest.raises(DataError, match="come together"):
        sap(f, f, f)


@pytest.mark.parametrize("degrees", [0, 15, 30, 45])
@pytest.mark.parametrize("method", ["paper", "regression"])
def test_a_rotation_of_two_equal_factors_by_t_scores_cos_2t(degrees, method):
    f, t = grid(32, 32), math.radians(degrees)
    turn = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
    found = sap(f @ turn.T, f, method=method)
    assert found == pytest.approx(abs(math.cos(2 * t)), abs=1e-9)


def test_regression_has_no_eye_for_the_rows_to_test_on():
    f = grid(4, 5)
    assert sap(f, f, 0 * f, f, method="regression") == pytest.approx(1)


@pytest.mark.parametrize("case", CASES)
def test_regression_agrees_with_the_reference(case, golden, rows):
    stored, expected = rows(case), golden["cases"][case]["fixed"]["modern"]["sap_continuous"]
    z, f = check(stored["z_train"], stored["f_train"])
    assert _determination(z, f) == pytest.approx(np.array(expected["score_matrix"]), abs=1e-8)
    assert sap(z, f, method="regression") == pytest.approx(expected["SAP_score"], abs=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_machines_agree_with_the_reference(case, golden, rows):
    stored, expected = rows(case), golden["cases"][case]["fixed"]["modern"]["sap_discrete"]
    given = [stored[name] for name in ("z_train", "f_train", "z_test", "f_test")]
    scores = svm_accuracies(split(*given, 0), 0.01)
    assert scores == pytest.approx(np.array(expected["score_matrix"]), abs=2e-3)
    assert sap(*given, method="svm") == pytest.approx(expected["SAP_score"], abs=1e-3)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scale_1e-3", lambda z: z * np.float32(1e-3)),
        ("scale_1e3", lambda z: z * np.float32(1e3)),
        ("offset_1e6_float32", lambda z: z + np.float32(1e6)),
        ("const_dims_exact_zero (z=[g,0,0,0])", lambda z: np.hstack([z, 0 * z])),
        ("exact_duplicate_dims (z=[g,g] bitwise)", lambda z: np.hstack([z, z])),
        ("all_dims_constant", lambda z: 0 * z),
    ],
)
def test_machines_agree_with_the_reference_on_odd_codes(name, change, golden, draws):
    train, test = (change(standard(f).astype(np.float32)) for f in draws)
    expected = golden["edge_cases"]["modern"][name]["sap_discrete"]["SAP_score"]
    found = sap(train, draws[0], test, draws[1], method="svm")
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_level_may_be_missing_from_the_rows_to_test_on_or_to_learn_from(golden, draws):
    f, test = draws
    kept = test[test[:, 2] != 6]
    expected = golden["edge_cases"]["modern"]["test_set_misses_a_class"]["sap_discrete"]
    codes, test_codes = (standard(x).astype(np.float32) for x in (f, kept))
    found = sap(codes, f, test_codes, kept, method="svm")
    assert found == pytest.approx(expected["SAP_score"], abs=1e-6)
    fewer = f[f[:, 2] != 3]
    assert 0 < sap(standard(fewer), fewer, standard(test), test, method="svm") < 1


def objective(z, y, level, w, b, cost):
    """The value, and what could still be gained: half of gᵀ H⁻¹ g."""
    z, own, n = z.astype(np.longdouble), y == level, len(set(y))
    others = 1.0 if n > 2 else len(y) / (2 * (~own).sum())
    weight = np.where(own, len(y) / (n * own.sum()), others)
    sign = np.where(own, 1, -1)
    short = np.maximum(0, 1 - sign * (w * z + b))
    value = (w * w + b * b) / 2 + cost * (weight * short**2).sum()
    force, active = 2 * cost * weight * short * sign, 2 * cost * weight * (short > 0)
    g = np.array([w - (force * z).sum(), b - force.sum()])
    total, mean = active.sum(), (active * z).sum() / max(active.sum(), 1e-9)
    h = 1 + (active * z * z).sum(), (active * z).sum(), 1 + total
    determinant = 1 + (active * (1 + z * z)).sum() + total * (active * (z - mean) ** 2).sum()
    gain = (h[2] * g[0] ** 2 - 2 * h[1] * g[0] * g[1] + h[0] * g[1] ** 2) / determinant
    return float(value), float(gain / 2)


@pytest.mark.parametrize("levels", [2, 3, 10])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
def test_machines_are_at_their_optimum(levels, scale, shift):
    rng = np.random.default_rng(0)
    y = np.arange(500) % levels
    for raw in (rng.standard_normal(500) + y, rng.standard_cauchy(500), y * 1.0, 0.0 * y + 3.7):
        z = raw * scale + shift
        centre, spread, order = z.mean(), z.std() or 1.0, np.argsort(z)
        lines = train_svms((z[order] - centre) / spread, y[order], centre, spread, 0.01)
        for level in range(levels == 2, levels):
            slope, height = lines[level]
            w = np.longdouble(slope) / spread
            value, gain = objective(z, y, level, w, height - w * centre, 0.01)
            assert gain < 1e-10 * value


def test_machines_of_two_levels_weigh_both():
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.2).astype(int)[:, None]
    z = rng.standard_normal((600, 1)) + 0.7 * y
    machine = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-9)
    expected = machine.fit(z[:400], y[:400, 0]).score(z[400:], y[400:, 0])
    rows = Split(z[:400], y[:400], z[400:], y[400:], np.arange(1))
    assert svm_accuracies(rows, 0.01)[0, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("method", ["paper", "svm", "regression"])
def test_duplicated_and_constant_codes_have_no_gap(method):
    f = np.tile(grid(3, 4), (10, 1))
    assert sap(np.hstack([f, f]), f, method=method) == pytest.approx(0)
    assert sap(np.full((120, 3), 1.5), f, method=method) == 0


def test_held_back_rows_are_chosen_by_the_seed():
    rng = np.random.default_rng(0)
    f = rng.integers(4, size=(300, 2))
    codes = f + rng.standard_normal((300, 2))
    first, again, other = (sap(codes, f, method="svm", seed=seed) for seed in (0, 0, 1))
    assert first == again != other
