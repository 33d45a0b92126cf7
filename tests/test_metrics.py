"""Contracts over all metrics, exact values, and agreement with the reference implementation."""

import inspect
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.errors import DataError, IncompatibleError, ParameterError
from untwine.estimators.information import discretise, entropy, mutual_information
from untwine.metrics import mig, reconstruction
from untwine.registry import metrics
from untwine.scoring.references import reference_codes
from untwine.scoring.representation import CodeArrays, Representation
from untwine.scoring.scores import compute, metric_needs, score, with_variants

NAMES = list(metrics)
TRANSFORMS = {
    "permutation": lambda z: z[:, ::-1],
    "sign": lambda z: z * np.where(np.arange(z.shape[1]) % 2, 1.0, -1.0),
    "scale": lambda z: z * np.geomspace(0.5, 4.0, z.shape[1]),
    "shift": lambda z: z + np.linspace(-2.0, 3.0, z.shape[1]),
    "monotone": lambda z: np.tanh(z) + 0.1 * z**3,
    "dead": lambda z: np.hstack([z, np.full((len(z), 2), 1.5)]),
}
ROW_NEEDS = {"codes", "factors", "test_codes", "test_factors", "unordered"}
every_metric = pytest.mark.parametrize("name", NAMES)
of_codes = pytest.mark.parametrize(
    "name", [n for n in NAMES if {"codes", "factors"} <= set(metric_needs(metrics[n])) <= ROW_NEEDS]
)
of_rows = pytest.mark.parametrize(
    "name",
    [n for n in NAMES if set(metric_needs(metrics[n])) <= {*ROW_NEEDS, "sampled_codes"}],
)


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


def headline(name, subject):
    return next(iter(compute(subject, metrics.choose(name)).values()))


def binary_rows(kind="rotated", n=600):
    """Rows whose factors have 2, 3 and 5 levels, so that every metric has something to say."""
    factors = np.random.default_rng(0).integers((2, 3, 5), size=(n, 3))
    return reference_codes(factors)[kind]


@every_metric
def test_signature_is_the_schema(name):
    entry = metrics[name]
    assert all(
        hasattr(Representation, need) or hasattr(CodeArrays, need) for need in metric_needs(entry)
    )
    for p in entry.parameters.values():
        assert p.check(p.default) == p.default and p.help
    assert all(
        p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        for p in inspect.signature(entry.function).parameters.values()
    )


@every_metric
def test_declaration_is_complete(name):
    entry = metrics[name]
    assert entry.paper in entry.description and entry.url
    low, high = entry.metadata["range"]
    assert isinstance(entry.metadata["higher_is_better"], bool)
    assert high is None or low < high
    assert set(entry.metadata["unchanged_by"]) <= set(TRANSFORMS)
    assert "Blind spots:" in entry.description


@every_metric
def test_variants_have_names_of_their_own(name):
    for label in with_variants(name):
        choice = metrics.read(label)
        assert metrics.label(choice) == label
        assert metrics.from_json(json.loads(json.dumps(choice.to_json()))) == choice


@every_metric
def test_scores_of_a_model_are_plain_floats_in_range_and_repeat(name, tiny):
    entry = metrics[name]
    model = untwine.build("vae", tiny, network="mlp")
    if entry.metadata.get("slow") or "several_codes" in metric_needs(entry):
        pytest.skip("takes minutes, or more than one model")
    try:
        first, second = (
            compute(Representation(model, tiny, n_examples=300), metrics.choose(name))
            for _ in range(2)
        )
    except IncompatibleError as error:
        assert str(error)  # a plain VAE has no clusters and no shared latents
        return
    assert first == second
    assert all(type(value) is float and math.isfinite(value) for value in first.values())
    low, high = entry.metadata["range"]
    value = next(iter(first.values()))
    assert low - 1e-9 <= value <= (math.inf if high is None else high + 1e-9)


@of_codes
def test_perfect_codes_beat_noise(name):
    perfect, noise = (headline(name, binary_rows(kind)) for kind in ("perfect", "random"))
    assert perfect > noise if metrics[name].metadata["higher_is_better"] else perfect < noise


@of_rows
@pytest.mark.parametrize("change", TRANSFORMS)
def test_what_a_metric_promises_not_to_see_it_does_not_see(name, change):
    if change not in metrics[name].metadata["unchanged_by"]:
        pytest.skip(f"{name} does not promise it")
    rows = binary_rows()
    changed = CodeArrays(np.ascontiguousarray(TRANSFORMS[change](rows.codes)), rows.factors)
    assert headline(name, changed) == pytest.approx(headline(name, rows), abs=5e-3)


@of_codes
@pytest.mark.parametrize(
    ("codes", "factors", "sentence"),
    [
        (np.zeros((5, 2)), np.zeros((4, 1), int), "the same N"),
        (np.zeros(5), np.zeros((5, 1), int), "the same N"),
        (np.full((50, 2), np.nan), np.arange(50)[:, None] % 2, "NaN"),
        (np.zeros((1, 2)), np.zeros((1, 1), int), "at least 2"),
        (np.zeros((50, 2)), np.zeros((50, 1), int), "more than one level"),
        (np.zeros((4, 2)), np.array([[0.5], [1], [2], [3]]), "whole numbers"),
        (np.array([["a"]] * 4), np.arange(4), "real numbers"),
        (np.ones((4, 1), complex), np.arange(4), "real numbers"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(name, codes, factors, sentence):
    with pytest.raises(DataError, match=sentence):
        metrics[name].function(codes, factors)


@of_codes
@pytest.mark.parametrize("kind", ["one latent", "one factor", "dead latents", "few rows"])
def test_odd_shapes_score_or_are_refused_in_a_sentence(name, kind):
    rows = binary_rows()
    odd = {
        "one latent": CodeArrays(rows.codes[:, :1], rows.factors),
        "one factor": CodeArrays(rows.codes, rows.factors[:, :1]),
        "dead latents": CodeArrays(np.zeros_like(rows.codes), rows.factors),
        "few rows": CodeArrays(rows.codes[:12], rows.factors[:12]),
    }[kind]
    try:
        values = compute(odd, metrics.choose(name))
    except DataError as error:
        assert len(str(error)) > 20
        return
    assert all(math.isfinite(value) for value in values.values())


@of_codes
def test_torch_tensors_and_arrays_score_alike(name):
    rows = binary_rows()
    tensors = CodeArrays(torch.from_numpy(rows.codes), torch.from_numpy(rows.factors))
    assert compute(tensors, metrics.choose(name)) == compute(rows, metrics.choose(name))


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
