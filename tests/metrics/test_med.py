"""MED: known matrices of shares, the choice of the top, and the reference's values."""

import math

import numpy as np
import pytest

from untwine.metrics import med
from untwine.metrics.dci import completeness, disentanglement
from untwine.metrics.med import _shares, _top_latents

CASES = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]
HALF = 1 - math.log(2) / math.log(6)


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


@pytest.mark.parametrize(
    ("information", "clean", "complete"),
    [
        (7 * np.eye(5), 1, 1),
        (np.ones((3, 3)), 0, 0),
        (np.zeros((4, 3)), 0, 0),
        ([[0.9, 0.2], [0.1, 1.8]], 0.531004, 0.531004),
        (np.vstack([np.eye(3), np.eye(3)]), 1, HALF),
        (np.hstack([np.eye(3), 2 * np.eye(3)]), HALF, 1),
        ([[3, 0], [0, 1], [0, 0]], 1, 1),
        ([[0.8, 0.3, 0], [0.2, 0.7, 0], [0, 0, 1]], 0.659788, 0.662827),
    ],
)
def test_known_information(information, clean, complete):
    shares = _shares(np.array(information, float))
    assert disentanglement(shares) == pytest.approx(clean, abs=1e-6)
    assert completeness(shares) == pytest.approx(complete, abs=1e-6)


def test_columns_are_shares_even_of_nothing():
    found = _shares(np.array([[2.0, 0.0], [6.0, 0.0]]))
    assert found.tolist() == [[0.25, 0], [0.75, 0]]


@pytest.mark.parametrize(("most", "kept"), [(1, [0, 3]), (2, [0, 1, 3, 4]), (9, [0, 1, 2, 3, 4])])
def test_the_top_holds_the_cleanest_latents_of_each_factor(most, kept):
    shares = np.array([[9.0, 0], [9, 1], [9, 2], [0, 9], [4, 9]])
    assert sorted(_top_latents(shares, most)) == kept


@pytest.mark.parametrize("case", CASES)
def test_med_agrees_with_the_reference(case, golden, rows):
    stored, expected = rows(case), golden["med"][case]
    found = med(stored["z_train"], stored["f_train"])
    assert list(found.values()) == pytest.approx(
        [
            expected["disentanglement"],
            expected["completeness"],
            expected["top1_disentanglement"],
            expected["top1_completeness"],
        ],
        abs=1e-9,
    )


@pytest.mark.parametrize("case", CASES)
def test_informativeness_agrees_with_the_reference(case, golden, rows):
    stored, expected = rows(case), golden["med"][case]
    given = [stored[name] for name in ("z_train", "f_train", "z_test", "f_test")]
    found = med(*given, informativeness=True)
    # codes on a lattice fall into a class or out of it many at a time
    assert [found["informativeness"], found["informativeness_train"]] == pytest.approx(
        [expected["informativeness_test"], expected["informativeness_train"]], abs=3e-3
    )


def test_constant_codes_know_nothing():
    found = med(np.zeros((60, 4)), grid(3, 4, 5))
    assert list(found.values()) == pytest.approx([0, 0, 0, 0], abs=1e-12)


def test_one_latent_and_one_factor_have_nothing_to_tell_apart():
    f = grid(3, 4)
    assert med(f[:, :1], f)["completeness"] == 0
    assert med(f, f[:, 0])["disentanglement"] == 0


def test_dead_latents_leave_disentanglement_alone():
    f = grid(5, 6, 7)
    codes = f @ np.array([[1, 0.4, 0], [0, 1, 0], [0, 0, 1]])
    wider = med(np.hstack([codes, 0 * codes]), f)
    assert wider["disentanglement"] == pytest.approx(med(codes, f)["disentanglement"])
    assert wider["completeness"] > med(codes, f)["completeness"]
