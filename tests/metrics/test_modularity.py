"""Modularity: known matrices, what noise scores, and the reference's values."""

import numpy as np
import pytest

from untwine.errors import DataError
from untwine.metrics import modularity
from untwine.metrics.modularity import _latent_modularity

CASES = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


@pytest.mark.parametrize(
    ("information", "expected"),
    [
        (np.eye(3), 1),
        ([[1, 0], [0, 1], [0, 0]], 2 / 3),
        ([[2, 1]], 0.75),
        (np.ones((2, 3)), 0),
        ([[1, 1, 0], [0, 0, 3]], 0.75),
    ],
)
def test_modularity_of_known_information(information, expected):
    assert _latent_modularity(np.array(information, float)).mean() == pytest.approx(expected)


@pytest.mark.parametrize("case", CASES)
def test_modularity_agrees_with_the_reference(case, golden, rows):
    stored = rows(case)
    expected = golden["cases"][case]["fixed"]["modern"]["modularity_explicitness"]
    found = modularity(stored["z_train"], stored["f_train"])
    assert found == pytest.approx(expected["modularity_score"], abs=1e-9)


def test_constant_latents_count_as_zero_whatever_their_size():
    f = grid(5, 6, 7)
    dead = np.broadcast_to([0.0, 3.7, -1e9], f.shape)
    assert modularity(np.hstack([f, dead]), f) == pytest.approx(0.5, abs=1e-12)
    assert modularity(dead, f) == 0


def test_a_latent_without_any_factor_counts_as_zero_on_a_full_grid():
    f = grid(4, 5, 6)
    assert modularity(f, f[:, :2]) == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.parametrize(
    ("sizes", "chance"), [((4, 9, 18), 0.8737), ((5, 6, 7), 0.4306), ((3, 6, 40, 32, 32), 0.6793)]
)
def test_noise_looks_modular_unless_it_is_corrected(sizes, chance):
    rng = np.random.default_rng(0)
    codes, f = rng.standard_normal((10000, 10)), rng.integers(sizes, size=(10000, len(sizes)))
    assert modularity(codes, f) == pytest.approx(chance, abs=0.08)
    assert modularity(codes, f, corrected=True) == 0


def test_correction_leaves_clean_codes_alone():
    f = np.random.default_rng(0).integers((5, 6, 7), size=(2000, 3))
    assert modularity(f, f, corrected=True) == 1
    mixed = f @ np.array([[1, 0, 0], [0, 1, 0], [0, 0.5, 1]])
    assert modularity(mixed, f, corrected=True) == pytest.approx(modularity(mixed, f), abs=0.02)


def test_a_single_factor_is_refused():
    f = grid(4, 5)
    with pytest.raises(DataError, match="only one"):
        modularity(f, f * [1, 0])
