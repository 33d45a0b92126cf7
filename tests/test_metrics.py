"""Contracts over all metrics, exact values, and agreement with the reference implementation."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.errors import DataError, ParameterError
from untwine.estimators.information import discretise, entropy, mutual_information
from untwine.metrics import mig, reconstruction
from untwine.registry import metrics
from untwine.scoring.scores import score
from untwine.testing.metrics import METRIC_CHECKS, scores_a_model

every_metric = pytest.mark.parametrize("name", list(metrics))


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


@every_metric
@pytest.mark.parametrize("check", METRIC_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(name, check):
    check(name)


@every_metric
def test_scores_of_a_model_are_plain_floats_in_range_and_repeat(name, tiny):
    scores_a_model(name, tiny)


@every_metric
def test_the_paper_has_an_address(name):
    assert metrics[name].url


def test_bins_are_closed_on_the_left_and_the_maximum_joins_the_last():
    assert (discretise(np.arange(21.0)[:, None], 20)[:, 0] + 1).tolist() == [*range(1, 21), 20]
    assert (discretise(np.array([[0.0], [0.0], [1.0]]), 20)[:, 0] + 1).tolist() == [1, 1, 20]
    assert (discretise(np.full((4, 1), 3.7), 20)[:, 0] + 1).tolist() == [11] * 4


def test_information_of_a_known_table():
    a = np.repeat([0, 0, 1, 1], [40, 10, 10, 40])[:, None]
    b = np.repeat([0, 1, 0, 1], [40, 10, 10, 40])[:, None]
    assert mutual_information(a, b)[0, 0] == pytest.approx(0.192745, abs=1e-6)
    assert mutual_information(a, b)[0, 0] / entropy(b)[0] == pytest.approx(0.278072, abs=1e-6)
    assert mig(np.hstack([a, 0 * a]).astype(float), b) == pytest.approx(0.278072, abs=1e-6)


@pytest.mark.parametrize("sizes", [(5, 6, 7), (3, 4)])
def test_mig_of_a_perfect_code_on_a_full_grid_is_one(sizes):
    factors = grid(*sizes)
    codes = np.hstack([factors, np.zeros((len(factors), 1))])
    assert mig(codes, factors) == pytest.approx(1.0, abs=1e-12)


def test_mig_of_duplicated_or_constant_codes_is_zero():
    factors = grid(5, 6)
    assert mig(np.hstack([factors, factors]).astype(float), factors) == 0
    assert mig(np.zeros((30, 3)), factors) == 0


@pytest.mark.parametrize(
    ("degrees", "expected"), [(0, 0.85), (15, 0.357675), (30, 0.144664), (45, 0.001945)]
)
def test_mig_of_a_rotated_grid(degrees, expected):
    factors = grid(32, 32)
    t = math.radians(degrees)
    turn = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
    assert mig((factors - 15.5) @ turn.T, factors) == pytest.approx(expected, abs=2e-3)


def test_mig_of_one_latent_takes_zero_as_the_second_best():
    factors = np.arange(10)[:, None]
    assert mig(factors.astype(float), factors) == pytest.approx(1.0)


def test_mig_leaves_out_a_factor_with_one_level():
    factors = np.hstack([grid(4, 5), np.full((20, 1), 3)])
    assert mig(factors[:, :2].astype(float), factors) == pytest.approx(1.0)


def test_mig_refuses_a_single_bin():
    with pytest.raises(ParameterError, match="from 2 to"):
        mig(np.zeros((4, 1)), np.arange(4)[:, None], bins=1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 3))
def test_mig_stays_between_zero_and_one(seed, latents, factors):
    rng = np.random.default_rng(seed)
    levels = rng.integers(4, size=(50, factors))
    levels[:4] = np.arange(4)[:, None]
    assert 0 <= mig(rng.standard_normal((50, latents)), levels) <= 1


def test_mig_agrees_with_the_reference_on_every_case(shared):
    golden = json.loads(shared("golden/golden.json").read_text())
    checked = 0
    for name, case in golden["cases"].items():
        file = shared("golden") / f"{name}.npz"
        if file.exists():
            stored = np.load(file)
            expected = case["fixed"]["modern"]["mig"]["discrete_mig"]
            assert mig(stored["z_train"], stored["f_train"]) == pytest.approx(expected, abs=1e-9)
            checked += 1
    assert checked == 16


def test_reconstruction_of_a_binary_image_by_one_half():
    x = (np.arange(32).reshape(2, 1, 4, 4) % 2).astype(float)
    found = reconstruction(x, np.full_like(x, 0.5))
    assert found == {"squared_error": 0.25, "cross_entropy": pytest.approx(math.log(2))}


def test_reconstruction_of_unbounded_data_has_no_cross_entropy():
    assert set(reconstruction(np.full((2, 3), 5.0), np.zeros((2, 3)))) == {"squared_error"}


def test_reconstruction_refuses_other_shapes():
    with pytest.raises(DataError, match="one shape"):
        reconstruction(np.zeros((2, 3)), np.zeros((3, 2)))


def test_everything_is_encoded_once_for_all_metrics(tiny, monkeypatch):
    model = untwine.build("vae", tiny, network="mlp")
    calls = []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda x: calls.append(len(x)) or encode(x))
    representation = untwine.Representation(model, tiny, n_examples=1024)
    for name in ("mig", "reconstruction", "sap", "modularity") * 2:
        score(representation, metrics.choose(name))
    codes, held_back = 1024, 512  # reconstructions are made from codes
    assert sum(calls) == codes + held_back


def test_factors_are_asked_for_in_a_sentence_where_there_are_none():
    data = untwine.from_arrays(np.random.default_rng(0).random((20, 8, 8)))
    model = untwine.build("vae", data, network="mlp")
    assert "reconstruction" in untwine.evaluate(model, data, n_examples=10)
    with pytest.raises(DataError, match="no factors"):
        untwine.evaluate(model, data, ["mig"], n_examples=10)


@pytest.mark.parametrize("column", [np.full(40, 1e9), np.nextafter(np.full(40, 1e9), 2e9)])
def test_constant_latents_of_any_size_fall_into_one_bin(column):
    column = column.astype(np.float32)
    column[0] = np.nextafter(column[0], np.float32(0))
    assert len(set(discretise(column[:, None], 20)[:, 0])) <= 2
    factors = np.arange(40) % 4
    assert mig(np.stack([column, factors], 1), factors) == pytest.approx(1.0, abs=0.1)


def test_a_refusing_metric_is_left_out_unless_it_was_asked_for(capsys):
    data = untwine.from_arrays(np.random.default_rng(0).random((20, 8, 8)), np.zeros((20, 1), int))
    model = untwine.build("vae", data, network="mlp")
    assert "reconstruction" in untwine.evaluate(model, data, n_examples=10)
    assert "mig is left out" in capsys.readouterr().err
    with pytest.raises(DataError, match="more than one level"):
        untwine.evaluate(model, data, "mig", n_examples=10)


def test_metrics_take_settings(tiny):
    model = untwine.build("vae", tiny, network="mlp")
    few, many = (
        untwine.evaluate(model, tiny, "mig", n_examples=200, bins=bins) for bins in (2, 50)
    )
    assert few["mig"] != many["mig"]
    with pytest.raises(untwine.UnknownNameError, match="did you mean 'bins'"):
        untwine.evaluate(model, tiny, "mig", n_examples=200, bin=3)


def test_every_example_is_encoded_in_a_batch_of_the_size_asked_for(tiny, monkeypatch):
    """UG-VAE's codes depend on the batch they are encoded in, so a ragged last one would differ."""
    model = untwine.build("ug-vae", tiny, network="mlp", shared=2)
    sizes = []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda x: sizes.append(len(x)) or encode(x))
    representation = untwine.Representation(model, tiny, n_examples=100, chunk=16)
    assert len(representation.codes) == 100 and set(sizes) == {16}
    expected = encode(tiny.take(representation.index[84:]))[-4:]
    assert np.allclose(representation.codes[96:], expected.numpy(), atol=1e-5)
