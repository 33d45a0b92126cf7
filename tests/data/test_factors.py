"""What factors know of their levels: which have no order, and what they are called."""

import numpy as np
import pytest

import untwine
from untwine.data.dataset import Factors
from untwine.data.derived import subset
from untwine.errors import DataError
from untwine.metrics import sap
from untwine.registry import metrics
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.references import reference_codes
from untwine.scoring.representation import Representation
from untwine.scoring.scores import compute, score

SHAPES = ("square", "ellipse", "heart")
IMAGES = np.zeros((6, 8, 8), np.uint8)
LEVELS = np.array([[0, 0], [1, 0], [1, 1], [0, 2], [1, 3], [0, 1]])
UNORDERED = {
    "sprites": "shape",
    "colour-dsprites": "shape",
    "shapes3d-render": "shape",
    "digits": "digit",
    "clusters": "cluster",
    "mixed(first=sprites, second=sprites)": "domain shape",
    "held-out": "shape",
    "coloured-mnist(of=digits)": "digit colour",
    "faces(count=40)": "",
}


def test_factors_refuse_names_that_do_not_fit():
    with pytest.raises(DataError, match="did you mean 'shape'"):
        Factors(("shape", "scale"), (3, 6), unordered=("shap",))
    with pytest.raises(DataError, match="shape has 3 levels but 2 names of levels"):
        Factors(("shape", "scale"), (3, 6), level_names={"shape": ("square", "heart")})


def test_arrays_come_with_an_order_and_with_names():
    data = untwine.from_arrays(
        IMAGES,
        LEVELS,
        names=("shape", "scale"),
        unordered=("shape",),
        level_names={"shape": SHAPES},
    )
    assert data.factors.sizes == (3, 4)  # no example is a heart
    assert data.factors.unordered_columns == (0,)
    assert data.factors.level_name(0, 2) == "heart" and data.factors.level_name(1, 3) == "3"
    part = subset(data, np.array([0, 3]))
    assert part.factors.level_names == {"shape": SHAPES} and part.factors.unordered == ("shape",)
    with pytest.raises(DataError, match="give factors too"):
        untwine.from_arrays(IMAGES, unordered=("shape",))


def test_a_file_says_the_same(tmp_path):
    np.savez(
        tmp_path / "own.npz",
        images=IMAGES,
        factors=LEVELS,
        factor_names=["shape", "scale"],
        unordered=["shape"],
        **{"levels.shape": SHAPES},
    )
    factors = untwine.dataset(str(tmp_path / "own.npz")).factors
    assert factors.unordered == ("shape",) and factors.level_names == {"shape": SHAPES}
    np.savez(tmp_path / "wrong.npz", images=IMAGES, factors=LEVELS, unordered=["shape"])
    with pytest.raises(DataError, match=r"wrong\.npz: there is no factor named 'shape'"):
        untwine.dataset(str(tmp_path / "wrong.npz"))


@pytest.mark.parametrize(("name", "expected"), UNORDERED.items())
def test_datasets_say_which_factors_have_no_order(name, expected):
    factors = untwine.dataset(name).factors
    assert factors.unordered == tuple(expected.split())
    for levels in factors.level_names.values():
        assert len({*levels}) == len(levels) and all(levels)


def test_sap_takes_the_order_from_the_data(tiny):
    representation = Representation(untwine.build("vae", tiny), tiny, n_examples=600)
    z, f = representation.test_codes, representation.test_factors
    choose = metrics.choose
    assert compute(representation, choose("sap"))["sap"] == sap(z, f, categorical=(0,))
    assert compute(representation, choose("sap", order="all"))["sap"] == sap(z, f)
    assert sap(z, f) != sap(z, f, categorical=(0,))
    both = compute(representation, choose("sap", categorical=(1,)))["sap"]
    assert both == sap(z, f, categorical=(0, 1))
    other = compute(representation, choose("sap", order="all", categorical=(1,)))["sap"]
    assert other == sap(z, f, categorical=(1,))


def test_reference_codes_keep_the_positions_of_factors():
    """A factor that never changes must not shift those behind it."""
    rng = np.random.default_rng(0)
    factors = np.stack(
        [np.zeros(300, int), rng.integers(6, size=300), rng.integers(3, size=300)], 1
    )
    codes = CodeArrays(rng.standard_normal((300, 2)), factors, unordered=(2,))
    references = score(codes, metrics.choose("sap")).references
    perfect = reference_codes(factors)["perfect"].codes
    assert references["perfect"]["sap"] == sap(perfect, factors[:, 1:], categorical=(1,))
