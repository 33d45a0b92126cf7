"""Normalised mutual information and accuracy of clusters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from untwine.errors import DataError, ParameterError
from untwine.metrics import clustering


@pytest.mark.parametrize(
    ("normaliser", "expected"),
    [("arithmetic", 0.343711), ("geometric", 0.345592), ("min", 0.383689), ("max", 0.311278)],
)
def test_nmi_of_a_known_table_by_normaliser(normaliser, expected):
    found = clustering([0, 0, 0, 1], [0, 0, 1, 1], normaliser=normaliser)
    assert found["nmi"] == pytest.approx(expected, abs=1e-6)


def test_the_same_partition_under_other_names_is_perfect():
    y = np.arange(30) % 3
    assert clustering((y + 1) % 3 * 7, y) == {"nmi": 1.0, "accuracy": 1.0}


def test_independent_partitions_share_nothing():
    y, c = np.divmod(np.arange(36), 6)
    found = clustering(c, y)
    assert found["nmi"] == pytest.approx(0, abs=1e-12)
    assert found["accuracy"] == pytest.approx(1 / 6)


def test_a_single_cluster_has_no_information():
    assert clustering(np.zeros(4, int), [0, 0, 0, 1]) == {"nmi": 0.0, "accuracy": 0.75}


def test_each_cluster_is_matched_with_one_level_and_the_others_are_wrong():
    y = np.repeat([0, 1], [6, 4])
    c = np.repeat([0, 1, 2], [3, 3, 4])  # class 0 is split in two clean clusters
    assert clustering(c, y)["accuracy"] == 0.7


def test_the_matching_is_the_best_and_not_the_greedy_one():
    # Greedy takes the 5 and is left with 0; the best matching takes 4 and 4.
    y = np.repeat([0, 1, 0], [5, 4, 4])
    c = np.repeat([0, 0, 1], [5, 4, 4])
    assert clustering(c, y)["accuracy"] == 8 / 13


def test_the_factor_is_chosen_by_its_position():
    factors = np.stack([np.arange(12) % 2, np.arange(12) % 3], 1)
    assert clustering(factors[:, 1], factors, factor=1)["nmi"] == 1.0
    assert clustering(factors[:, 1], factors)["nmi"] == pytest.approx(0, abs=1e-12)
    with pytest.raises(ParameterError, match="the last of the 2 factors is 1"):
        clustering(factors[:, 1], factors, factor=2)


@pytest.mark.parametrize(
    ("assignments", "factors", "sentence"),
    [
        (np.zeros(4, int), np.zeros(4, int), "more than one level"),
        (np.zeros((4, 2), int), np.arange(4), r"shape \(N,\)"),
        (np.full(4, 0.5), np.arange(4), "whole numbers"),
        (np.full(4, np.nan), np.arange(4), "whole numbers"),
        (np.zeros(5, int), np.arange(4), "the same N"),
        (np.zeros(0, int), np.zeros(0, int), "the same N"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(assignments, factors, sentence):
    with pytest.raises(DataError, match=sentence):
        clustering(assignments, factors)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 5))
def test_nmi_equals_scikit_learns_and_names_do_not_matter(seed, clusters, levels):
    from sklearn.metrics import normalized_mutual_info_score

    rng = np.random.default_rng(seed)
    c, y = rng.integers(clusters, size=40), rng.integers(levels, size=40)
    y[:2] = 0, 1
    found = clustering(c, y)
    assert found["nmi"] == pytest.approx(normalized_mutual_info_score(y, c), abs=1e-9)
    renamed = clustering(rng.permutation(clusters)[c], rng.permutation(levels)[y])
    assert renamed == pytest.approx(found, abs=1e-12)
