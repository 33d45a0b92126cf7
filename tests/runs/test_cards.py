"""Models that leave the house: saved to a folder, loaded without their data."""

import copy
import io
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import untwine
from untwine.data import opening
from untwine.errors import DataError, RunError
from untwine.registry import networks
from untwine.runs import cards
from untwine.runs.cards import data_shape
from untwine.runs.directory import open_run
from untwine.tools.sealed import read_json, write_json


@pytest.fixture
def model(tiny):
    built = untwine.build("beta-vae", tiny, latent=3, network="mlp", beta=2, **{"mlp.width": 8})
    untwine.fit(built, tiny, steps=3, batch=8, quiet=True)
    return built


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of 12 pictures, and a finished run trained on it."""
    place = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(12):
        pixels = rng.integers(0, 256, (9, 9, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:02d}.png")
    trained = untwine.train_run(
        *("vae", str(place), place.parent / "runs"),
        **{"size": 8, "network": "mlp", "width": 8, "steps": 3, "batch": 4, "quiet": True},
    )
    return place, trained


def test_a_model_has_a_card_that_says_how_it_was_built(model, tiny):
    card = model.card
    assert (card.model_name, card.latent, card.shape) == ("beta-vae", 3, tuple(tiny.shape))
    assert card.n_train == len(tiny) and card.data == tiny.name
    assert dict(card.model[0].params) == {"beta": 2.0}
    assert [one.exact for one in card.latents] == [True] * 3
    assert all(one.low <= one.mean <= one.high and one.deviation >= 0 for one in card.latents)


def test_a_model_folder_holds_json_and_safetensors_alone(model, tmp_path):
    model.save(tmp_path / "deep" / "folder")
    files = sorted(file.name for file in (tmp_path / "deep" / "folder").iterdir())
    assert files == ["model.json", "model.safetensors"]


def test_models_refuse_to_be_pickled_and_name_save(model):
    for dump in (pickle.dumps, lambda one: torch.save(one, io.BytesIO())):
        with pytest.raises(RunError, match=r"model\.save"):
            dump(model)


def test_models_can_still_be_copied(model, tiny):
    twin = copy.deepcopy(model)
    x = tiny.take([0, 1])
    assert torch.equal(twin.encode(x), model.encode(x))
    with torch.no_grad():
        next(twin.parameters()).add_(1)
    assert not torch.equal(next(twin.parameters()), next(model.parameters()))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "model.json").unlink(), "neither a model folder nor a run"),
        (lambda folder: (folder / "model.safetensors").unlink(), "damaged"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"no"), "damaged"),
        (lambda folder: edit(folder, format=99), "format 99"),
        (lambda folder: edit(folder, card={"model": []}), "damaged"),
        (lambda folder: edit(folder, card=[]), "damaged"),
    ],
)
def test_a_damaged_model_folder_is_refused_in_a_sentence(model, tmp_path, damage, sentence):
    damage(model.save(tmp_path))
    with pytest.raises(RunError, match=sentence):
        untwine.load(tmp_path)


def edit(folder, **changes):
    file = folder / "model.json"
    write_json(file, read_json(file) | changes)


def test_weights_of_another_model_are_refused(model, tiny, tmp_path):
    other = untwine.build("beta-vae", tiny, latent=4, network="mlp", **{"mlp.width": 8})
    other.save(tmp_path)
    card = json.loads((model.save(tmp_path / "first") / "model.json").read_text())["card"]
    edit(tmp_path, card=card)
    with pytest.raises(RunError, match="does not fit its specification"):
        untwine.load(tmp_path)


def test_a_run_opens_and_encodes_without_its_data(photos, tmp_path, monkeypatch):
    place, trained = photos
    x = trained.data.take([0, 1, 2])
    moved = shutil.copytree(trained.path, tmp_path / "elsewhere")
    hidden = place.rename(place.with_name("hidden"))
    monkeypatch.setattr(opening, "_LOADED", {})
    try:
        alone = open_run(moved)
        assert torch.equal(alone.model.encode(x), trained.model.encode(x))
        assert torch.equal(untwine.load(moved).sample(2, seed=0), trained.model.sample(2, seed=0))
        assert alone.model.card.latents == trained.model.card.latents != ()
        with pytest.raises(DataError, match="--data"):
            _ = alone.data
        again = open_run(moved, data=str(hidden))
        assert torch.equal(again.data.take([0, 1, 2]), x)
    finally:
        hidden.rename(place)


@pytest.mark.parametrize(
    ("data", "network", "shape"),
    [
        ("sprites(size=16)", "conv", (1, 16, 16)),
        ("sprites(size=32)", "conv", None),  # images of 28 pixels have the same weights
        ("circle", "mlp", (2,)),
        ("sprites(size=16)", "mlp", None),  # 256 numbers or an image of 16 pixels
    ],
)
def test_the_shape_of_data_is_read_from_weights_where_only_one_fits(data, network, shape, tmp_path):
    spec = untwine.plan("vae", data, network=network, steps=1, batch=4)
    trained = open_run(untwine.run(spec, tmp_path, quiet=True))
    assert data_shape(spec, trained.path / "model.safetensors") == shape


@pytest.mark.parametrize("network", ["conv", "conv-gated", "mlp"])
@pytest.mark.parametrize("side", [16, 28, 40, 64])
def test_likely_sides_are_tried_first_and_nothing_else_is_found(network, side, monkeypatch):
    spec = untwine.plan("vae", "sprites(size=16)", network=network, steps=1)
    state = networks.make(spec.network).encoder(torch.Size((1, side, side))).state_dict()
    shapes = {f"encoder.{name}": tuple(value.shape) for name, value in state.items()}
    monkeypatch.setattr(cards, "weight_shapes", lambda file: shapes)
    quick = data_shape(spec, Path())
    monkeypatch.setattr(cards, "_likely_sides", lambda encoder: set())
    assert quick == data_shape(spec, Path())
