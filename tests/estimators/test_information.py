"""Bins and counts: exact where they can be, and equal to the reference everywhere else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from untwine.estimators import information
from untwine.estimators.information import (
    binned_information,
    discretise,
    entropy,
    mutual_information,
)
from untwine.metrics import mig

CASES = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]


def edges_say(column, bins):
    return np.searchsorted(np.histogram_bin_edges(column, bins)[1:-1], column, side="right")


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3, 20, 100]),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.floats(-1e3, 1e3),
    st.floats(1e-2, 1e2),
)
def test_bins_are_those_of_the_edges_in_the_type_of_the_codes(seed, bins, kind, shift, scale):
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, rng.integers(2, 200), 100)  # many fall onto an edge
    column = (shift + scale * levels).astype(kind)
    try:
        expected = edges_say(column, bins)
    except ValueError:  # too narrow for so many bins
        expected = np.zeros(100)
    assert discretise(column[:, None], bins)[:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-30, 1e30])
def test_bins_of_very_small_and_very_large_numbers(scale):
    found = discretise(np.array([[0.0], [1.0], [4.0]]) * scale, 20)[:, 0]
    assert found.tolist() == ([0, 5, 19] if scale > 1e-300 else [0, 0, 0])


def test_information_is_that_of_every_pair():
    rng = np.random.default_rng(0)
    a = rng.integers((2, 5, 30), size=(500, 3)) * [1, -7, 10**12] - [3, 0, 5]
    b = rng.integers((4, 40), size=(500, 2)) * [1, 2**40] + a[:, :2] % 3
    expected = [[mutual_info_score(x, y) for y in b.T] for x in a.T]
    assert mutual_information(a, b) == pytest.approx(np.array(expected), abs=1e-12)
    assert entropy(b) == pytest.approx([mutual_info_score(y, y) for y in b.T], abs=1e-12)


def test_rows_and_latents_are_counted_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    codes, factors = rng.standard_normal((1000, 3)), rng.integers((3, 7), size=(1000, 2))
    whole, bins = binned_information(codes, factors, 20), discretise(codes, 20)
    monkeypatch.setattr(information, "BLOCK_ROWS", 64)
    monkeypatch.setattr(information, "MAX_CELLS", 2 * 20 * 10)
    assert (binned_information(codes, factors, 20) == whole).all()
    assert (discretise(codes, 20) == bins).all()
    assert (mutual_information(bins, factors) == whole).all()


def test_levels_of_any_type_and_order_in_memory_count_alike():
    rng = np.random.default_rng(0)
    codes, factors = rng.standard_normal((200, 4)), rng.integers(5, size=(200, 2))
    expected = binned_information(codes, factors, 20)
    other = binned_information(np.asfortranarray(codes), factors.astype(np.uint8), 20)
    assert (other == expected).all()
    assert (binned_information(codes[:, ::-1], factors, 20) == expected[::-1]).all()
    assert (binned_information(codes, (factors * 60 - 120).astype(np.int8), 20) == expected).all()


def test_independent_levels_share_exactly_nothing():
    grid = np.stack(np.meshgrid(*map(np.arange, (3, 7, 11))), -1).reshape(-1, 3)
    information = mutual_information(grid, grid)
    assert (information[~np.eye(3, dtype=bool)] == 0).all()
    assert (binned_information(np.full((231, 2), 3.7), grid, 20) == 0).all()


@pytest.mark.parametrize("case", CASES)
def test_information_agrees_with_the_reference(case, golden, rows):
    stored, expected = rows(case), golden["cases"][case]["fixed"]["modern"]["mig"]
    found = binned_information(stored["z_train"], stored["f_train"], 20)
    assert found == pytest.approx(np.array(expected["mi_matrix"]), abs=1e-9)
    assert entropy(stored["f_train"]) == pytest.approx(expected["entropy"], abs=1e-9)


@pytest.mark.parametrize(("levels", "ceiling"), [(20, 1.0), (21, 0.978317), (40, 0.812098)])
def test_mig_of_more_levels_than_bins_has_a_ceiling(levels, ceiling):
    levels = np.arange(levels)[:, None]
    assert mig(levels, levels) == pytest.approx(ceiling, abs=1e-6)


def test_one_outlier_squeezes_the_bins():
    levels = np.arange(100) % 10
    codes = np.append(levels, 1000.0)[:, None]
    assert mig(codes, np.append(levels, 0)) < 0.1 < mig(codes[:-1], levels)
