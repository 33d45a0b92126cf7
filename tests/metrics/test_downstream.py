"""Downstream accuracy: rows that take turns, known answers, and the reference's replay."""

import numpy as np
import pytest

from untwine.errors import DataError, ParameterError
from untwine.metrics import downstream
from untwine.metrics.downstream import _balanced_order
from untwine.registry import metrics

VARIANTS = metrics["downstream"].metadata["variants"]
PREDICTORS = {"boosting": "gbt", "2019": "lr_cv"}
PREDICTED = ["forest", "boosting", "linear", "2019"]


def clusters(n=400, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.integers(2, size=(n, 2))
    return factors + rng.normal(0, noise, (n, 2)), factors


@pytest.mark.parametrize("variant", PREDICTED)
def test_separate_clusters_are_learned_from_ten_rows(variant):
    settings = {**VARIANTS.get(variant, {}), "sizes": (10,)}
    assert downstream(*clusters(), **settings)["accuracy at 10"] > 0.9


def test_ten_balanced_rows_are_enough_for_a_forest():
    rng = np.random.default_rng(0)
    factor = rng.integers(2, size=(400, 1))
    assert downstream(factor + rng.normal(0, 0.1, (400, 3)), factor, sizes=(10,))["accuracy"] == 1.0


def test_random_levels_are_guessed():
    rng = np.random.default_rng(0)
    codes, factors = rng.standard_normal((3000, 4)), rng.integers(10, size=(3000, 2))
    found = downstream(codes, factors, sizes=(100, 1000))
    assert all(value == pytest.approx(0.1, abs=0.03) for value in found.values())


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("case", ["perfect", "rotated", "missing", "noise", "monotone"])
@pytest.mark.parametrize("variant", PREDICTORS)
def test_the_replay_of_the_reference(variant, case, size, golden, rows):
    if variant == "2019" and (case, size) != ("rotated", 100):
        pytest.skip("takes seconds; one of them tells enough")
    stored = rows(f"k3b__{case}")
    start = 0 if size == 100 else 2100
    z, f = (stored[name][start : start + size + 2000] for name in ("z_train", "f_train"))
    settings = {**VARIANTS[variant], "sizes": (size,)}
    found = downstream(z[:size], f[:size], z[size:], f[size:], **settings)
    expected = golden["downstream"]["results"][f"downstream_{PREDICTORS[variant]}__k3b__{case}"]
    assert found["accuracy"] == pytest.approx(expected[f"{size}:mean_test_accuracy"], abs=0.01)


@pytest.mark.slow
def test_one_line_per_level_finds_ordered_levels_where_one_against_the_rest_does_not(rows):
    stored = rows("k3b__perfect")
    z, f = stored["z_train"][:1500], stored["f_train"][:1500]
    all_levels, one = (
        downstream(z, f, **{**VARIANTS[name], "sizes": (1000,)})["accuracy"]
        for name in ("linear", "2019")
    )
    assert all_levels > 0.99 and one < 0.5


def test_sizes_end_at_the_rows_there_are_and_the_largest_comes_first():
    found = downstream(*clusters(90), sizes=(50, 10, 5000, 7000))
    assert list(found) == ["accuracy", "accuracy at 10", "accuracy at 50", "accuracy at 60"]
    assert found["accuracy"] == found["accuracy at 60"]


def test_no_sizes_are_refused():
    with pytest.raises(ParameterError, match="at least one"):
        downstream(*clusters(60), sizes=())


def test_levels_take_turns_in_the_given_order():
    levels = np.array([2, 0, 0, 0, 1, 1, 2])
    order = np.array([3, 0, 6, 2, 4, 5, 1])
    chosen = _balanced_order(levels, order)
    assert chosen.tolist() == [3, 4, 0, 2, 5, 6, 1]


@pytest.mark.parametrize("variant", PREDICTED)
def test_rows_with_a_single_level_predict_it(variant):
    codes, factors = clusters(60)
    factors[:] = 0
    factors[:2] = 1
    settings = {**VARIANTS.get(variant, {}), "sizes": (2, 5)}
    found = downstream(codes, factors, codes, factors, **settings)
    assert all(0 <= value <= 1 for value in found.values())


def test_the_seed_fixes_every_digit():
    codes, factors = clusters(100, noise=0.5)
    settings = {"sizes": (20,), "repeats": 2}
    first, second = (downstream(codes, factors, **settings, seed=5) for _ in range(2))
    assert first == second
    assert first != downstream(codes, factors, **settings, seed=6)


@pytest.mark.parametrize("case", ["perfect__remove1", "duplicated__remove1", "duplicated__remove2"])
def test_without_its_latents_a_factor_is_lost_and_the_others_are_not(case, golden, rows):
    name, _, removed = case.partition("__remove")
    stored = rows(f"k3b__{name}")
    z, f = stored["z_train"][:1500], stored["f_train"][:1500]
    settings = {**VARIANTS["reduced"], "remove": int(removed)}
    found = downstream(z[:1000], f[:1000], z[1000:], f[1000:], **settings)
    expected = golden["reduced_downstream"]["results"][f"reduced_downstream__k3b__{case}"]
    own, others = (
        expected[f"1000:mean_test_accuracy_{which}"]
        for which in ("reduced_factor", "other_factors")
    )
    assert found["own"] == pytest.approx(own, abs=0.02)
    assert found["others"] == pytest.approx(others, abs=0.005)
    assert found["gap"] == pytest.approx(found["others"] - found["own"])


def test_removal_needs_boosting_two_factors_and_enough_latents():
    codes, factors = clusters(60)
    with pytest.raises(ParameterError, match="importances of boosting"):
        downstream(codes, factors, remove=1)
    for z, f, remove in ((codes, factors, 2), (codes, factors[:, :1], 1)):
        with pytest.raises(DataError, match="needs more than"):
            downstream(z, f, remove=remove, method="boosting")
