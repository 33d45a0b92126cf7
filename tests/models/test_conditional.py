"""Facts special to conditional models: what sees the labels, and where they come from."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.errors import DataError, IncompatibleError, ParameterError, RunError, UnknownNameError
from untwine.estimators.classifier import train_classifier
from untwine.records import Batch

N = 24
LEVELS = np.stack([np.arange(N) % 3, np.arange(N) % 4], 1)
NAMES = {"shape": ("square", "ellipse", "heart")}


def make_data(levels=LEVELS, names=("shape", "scale"), level_names=NAMES):
    images = np.random.default_rng(0).random((len(levels), 8, 8))
    return untwine.from_arrays(images, levels, names=names, level_names=level_names)


@pytest.fixture(scope="module")
def data():
    return make_data()


def make(data, name="conditional", **settings):
    return untwine.build(name, data, latent=3, network="mlp", width=16, **settings)


@pytest.fixture(scope="module")
def model(data):
    return make(data, on="shape")


def test_the_labels_are_the_factors_it_is_told(data):
    assert make(data, on="shape").labels == NAMES
    scale = ("0", "1", "2", "3")
    assert make(data).labels == make(data, on="shape+scale").labels == {**NAMES, "scale": scale}
    assert untwine.build("vae", data, network="mlp").labels == {}


def test_encoder_and_decoder_see_the_labels(model, data):
    x, w = data.take([0]), torch.zeros(1, 3)
    each = [model.given(shape=level) for level in NAMES["shape"]]
    assert len({tuple(one.encode(x).flatten().tolist()) for one in each}) == 3
    assert len({tuple(one.decode(w).flatten().tolist()) for one in each}) == 3


def test_a_batch_with_labels_is_the_model_given_them(model, data):
    index = torch.tensor([5, 0, 7])
    with torch.random.fork_rng():
        torch.manual_seed(3)
        labels = torch.tensor(LEVELS[index.numpy(), :1])
        trace = model.trace(Batch(data.take(index), labels=labels))
        torch.manual_seed(3)
        again = model.given_data(data, index).trace(Batch(data.take(index)))
    assert torch.equal(trace.px.mean, again.px.mean) and torch.equal(trace.z, again.z)


def test_training_batches_carry_the_labels_in_the_order_of_the_examples(model, data):
    batch = model.add_labels(data).batch(torch.tensor([4, 2]), torch.tensor(0))
    assert batch.labels is not None and batch.labels.tolist() == [[1], [2]]
    plain = untwine.build("vae", data, network="mlp")
    assert plain.add_labels(data) is data and plain.given_data(data, [0]) is plain


def test_several_draws_of_an_example_have_its_label(data):
    model = make(data, "conditional+iwae", on="shape", draws=3).train()
    seen = []
    model.decoder.register_forward_hook(lambda module, args, out: seen.append(args[1]))
    model.trace(model.add_labels(data).batch(torch.tensor([0, 2]), torch.tensor(0)))
    assert seen[0].flatten().tolist() == [0, 0, 0, 2, 2, 2]


def test_levels_of_other_data_are_matched_by_name(model):
    other = make_data(np.array([[0], [1]]), ("shape",), {"shape": ("heart", "square")})
    own = make_data(np.array([[2], [0]]), ("shape",))
    assert np.array_equal(model.encode(other), model.encode(own))


def test_samples_take_the_levels_in_turn_or_the_one_given(model):
    drawn = model.sample(6, seed=1)
    for number, level in enumerate(NAMES["shape"]):
        alone = model.given(shape=level).sample(6, seed=1)
        assert torch.equal(drawn[[number, number + 3]], alone[[number, number + 3]])
    assert torch.equal(
        model.given(shape=2).sample(2, seed=0), model.given(shape="heart").sample(2, seed=0)
    )


@pytest.mark.parametrize(
    "chosen, sentence",
    [
        (
            {"shape": "hart"},
            "not seen shape 'hart'; the levels it knows are square, ellipse, heart",
        ),
        ({"shape": 3}, "not seen shape '3'"),
        ({"shape": True}, "not seen shape 'True'"),
        ({"digit": 3}, "no label of this model named 'digit'"),
        ({}, "needs a level of shape"),
        ({"shape": []}, "no levels"),
    ],
)
def test_bad_labels_are_refused(model, chosen, sentence):
    with pytest.raises(ParameterError, match=sentence):
        model.given(chosen)


def test_data_that_does_not_fit_is_refused(model, data):
    bare = untwine.from_arrays(np.zeros((3, 8, 8)))
    strange = make_data(np.array([[0]]), ("shape",), {"shape": ("star",)})
    for name in ("conditional", "conditional+beta-vae"):
        with pytest.raises(IncompatibleError, match="needs data with labels, and this has none"):
            make(bare, name)
    with pytest.raises(UnknownNameError, match="did you mean 'shape'"):
        make(data, on="shap")
    with pytest.raises(DataError, match="needs the labels of its examples \\(shape\\)"):
        model.encode(bare)
    with pytest.raises(DataError, match="not seen shape 'star'"):
        untwine.codes(model, strange)
    with pytest.raises(DataError, match="labels of 2 examples, but 3"):
        model.given(shape=[0, 1]).encode(data.take([0, 1, 2]))
    with pytest.raises(IncompatibleError, match="--label shape=square"):
        model.encode(data.take([0]))
    with pytest.raises(IncompatibleError, match="encodes inputs of its own"):
        make(data, "conditional+vamp-prior")
    with pytest.raises(IncompatibleError, match="has no labels"):
        make(data, "vae").given(shape=1)
    with pytest.raises(RunError, match="save the conditional model itself"):
        model.given(shape=1).save("nowhere")


def test_whole_arrays_are_encoded_with_a_label_for_each(model, data):
    images = data.take(range(N)).numpy()
    codes = model.given(shape=LEVELS[:, 0]).encode(images)
    assert np.allclose(codes, model.encode(data), atol=1e-6)


def test_cvae_finds_it(data):
    run = untwine.plan("cvae+beta-vae", "sprites", size=16, on="shape")
    assert run.model_name == "beta-vae+conditional"
    assert run.hash == untwine.plan("conditional+beta-vae", "sprites", size=16, on="shape").hash


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    options = {"network": "mlp(width=16)", "latent": 3, "steps": 30, "batch": 16, "quiet": True}
    place = tmp_path_factory.mktemp("runs")
    data = "digits(size=16,split=test)"
    return untwine.train_run("vae+conditional", data, place, on="digit", validation=0.2, **options)


def test_the_run_keeps_the_names_of_levels(trained):
    record = json.loads((trained.path / "run.json").read_text("utf-8"))
    assert record["card"]["labels"] == {"digit": [str(d) for d in range(10)]}
    assert untwine.open_run(trained.path).model.labels == trained.model.labels


def call(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception:
        raise result.exception


def test_the_commands_take_labels(trained, tmp_path):
    file = tmp_path / "out.npy"
    call("sample", trained.path, "--count", 4, "--label", "digit=3", "--out", file)
    assert np.array_equal(np.load(file), trained.model.given(digit=3).sample(4, seed=0).numpy())
    call("encode", trained.path, "--out", file, "-q")
    assert np.allclose(np.load(file), trained.model.encode(trained.data), atol=1e-6)
    call("decode", trained.path, file, "--label", "digit=3", "--out", tmp_path / "images.npy")
    with pytest.raises(IncompatibleError, match="--label digit=0"):
        call("decode", trained.path, file)
    for label, sentence in {"digit=x": "not seen digit 'x'", "digit": "NAME=LEVEL"}.items():
        with pytest.raises(ParameterError, match=sentence):
            call("sample", trained.path, "--label", label)
    call("reconstruct", trained.path, "--count", 290, "--out", tmp_path / "again.npy")
    x = trained.data.take(range(290))
    model = trained.model.given_data(trained.data, range(290))
    assert np.allclose(np.load(tmp_path / "again.npy"), model.reconstruct(x).numpy(), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_samples_of_a_digit_are_read_as_that_digit(seed, shared):
    data = untwine.dataset("mnist", path=str(shared("data/mnist")))
    index = np.random.default_rng(0).permutation(len(data))[:10_000]
    reader = train_classifier(data.take(index).numpy(), data.factors.levels_at(index), 0)
    model = untwine.build("conditional", data, seed=seed, network="mlp")
    untwine.fit(model, data, steps=6000, batch=64, lr=1e-3, seed=seed, quiet=True)
    digits = np.arange(1000) % 10
    read = reader.predict(model.given(digit=digits).sample(1000, seed=seed).numpy())[:, 0]
    assert (read == digits).mean() > 0.9
    codes = model.encode(data)[index]
    blind = untwine.build("vae", data, seed=seed, network="mlp")
    untwine.fit(blind, data, steps=6000, batch=64, lr=1e-3, seed=seed, quiet=True)
    levels = data.factors.levels_at(index)[:, 0]
    assert nearest_mean(codes, levels) < nearest_mean(blind.encode(data)[index], levels) - 0.2


def nearest_mean(codes, levels):
    """How often the nearest mean of codes tells the level."""
    means = np.stack([codes[levels == level].mean(0) for level in range(10)])
    return (np.square(codes[:, None] - means).sum(-1).argmin(1) == levels).mean()
