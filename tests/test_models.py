"""Contracts: what every registered model, and every pair of models, must do."""

import itertools
import json

import numpy as np
import pytest
import torch

import untwine
from untwine.data.dataset import Shuffle
from untwine.errors import IncompatibleError
from untwine.records import Batch
from untwine.registry import metrics, models
from untwine.runs.directory import read_scores
from untwine.scoring import scores
from untwine.spec import Run, plan
from untwine.train import State

NAMES = list(models)
PAIRS = ["+".join(pair) for pair in itertools.combinations(NAMES, 2)]
every_model = pytest.mark.parametrize("name", NAMES)


def make(name, data):
    return untwine.build(name, data, latent=4, network="mlp", **{"mlp.width": 16})


def a_batch(data, n=8):
    index = Shuffle(len(data), n, 0, torch.device("cpu")).at(0)
    return data.batch(index, torch.zeros((), dtype=torch.long))


def with_batch(model, data, n=8):
    """The model for the labels of a batch, where it needs them, and the batch."""
    index = Shuffle(len(data), n, 0, torch.device("cpu")).at(0)
    return model.given_data(data, index), a_batch(data, n)


@every_model
def test_default_recipe_trains(name, tiny):
    model = make(name, tiny)
    history = untwine.fit(model, tiny, steps=200, batch=16, lr=3e-3, quiet=True)
    assert history[-1]["nll"] < history[0]["nll"]


@every_model
def test_every_parameter_receives_a_gradient(name, tiny):
    model = make(name, tiny)
    terms = model.objective(model.trace(a_batch(model.add_labels(tiny))))
    terms["loss"].backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


@every_model
def test_evaluation_is_deterministic_and_uncorrupted(name, tiny):
    model, batch = with_batch(make(name, tiny), tiny)
    assert torch.equal(model.encode(batch.x), model.encode(batch.x))
    assert model.eval().corruption(batch.x)[0] is batch.x


@every_model
def test_building_leaves_the_random_numbers_alone(name, tiny):
    before = torch.get_rng_state()
    make(name, tiny)
    assert torch.equal(before, torch.get_rng_state())


@every_model
def test_adversaries_leave_no_gradient_outside_themselves(name, tiny):
    model, batch = with_batch(make(name, tiny), tiny)
    for adversary in model.objective.adversaries():
        own = {id(p) for p in adversary.parameters()}
        z = model.trace(batch).z.detach()
        adversary.adversary_loss(z, z.flip(0)).backward()
        assert all((p.grad is not None) == (id(p) in own) for p in model.parameters())


@every_model
def test_resumed_training_is_bit_identical(name, tiny):
    states = []
    whole, again = make(name, tiny), make(name, tiny)

    def keep(state: State):
        tensors, values = state.pack()
        states.append(({k: v.clone() for k, v in tensors.items()}, json.loads(json.dumps(values))))

    options = {"steps": 25, "batch": 8, "quiet": True}
    history = untwine.fit(whole, tiny, checkpoint=keep, checkpoint_every=13, **options)
    assert untwine.fit(again, tiny, resume=states[0], **options) == history
    for p, q in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(p, q)


@every_model
def test_a_saved_model_is_loaded_bit_for_bit(name, tiny, tmp_path):
    model = make(name, tiny)
    untwine.fit(model, tiny, steps=2, batch=8, quiet=True)
    other = untwine.load(model.save(tmp_path / "model"))
    assert torch.equal(model.sample(2, seed=1), other.sample(2, seed=1))
    codes = [with_batch(each, tiny)[0].encode(a_batch(tiny).x) for each in (model, other)]
    assert torch.equal(*codes)
    assert other.card == model.card and len(other.card.latents) == len(codes[0][0])


@every_model
@pytest.mark.parametrize("shade", [0.0, 1.0])
def test_blank_images_have_finite_losses_and_gradients(name, shade, tiny):
    model = make(name, tiny)
    batch = Batch(torch.full((8, *tiny.shape), shade))
    terms = model.objective(model.given_in_turn(8).trace(batch))
    terms["loss"].backward()
    assert all(value.isfinite() for value in terms.values())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@every_model
def test_samples_reconstructions_and_traversals_have_the_shape_of_the_data(name, tiny):
    model = make(name, tiny)
    assert model.sample(5).shape == (5, *tiny.shape)
    model, x = model.given_in_turn(), a_batch(tiny, 3).x
    assert model.reconstruct(x).shape == x.shape
    rows = model.posterior_mean(x).shape[1]
    assert model.traverse(x[0], torch.linspace(-1, 1, 7)).shape == (rows, 7, *tiny.shape)


@every_model
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64), (1, 64, 64)])
def test_model_fits_usual_image_shapes(name, shape, tiny):
    channels, side, _ = shape
    images = torch.rand(8, side, side, channels).numpy()
    data = untwine.from_arrays(images, np.arange(8) % 2)
    model = untwine.build(name, data, latent=4, **{"conv.width": 4, "conv.hidden": 8})
    assert model.given_in_turn().reconstruct(data.take([0, 1])).shape == (2, *shape)


@every_model
def test_batch_of_one_works_or_is_refused_in_a_sentence(name, tiny):
    model = make(name, tiny)
    try:
        loss = model.objective(model.trace(a_batch(model.add_labels(tiny), 1)))["loss"]
    except IncompatibleError as refusal:
        assert "batch" in str(refusal)
    else:
        assert loss.isfinite()


@every_model
def test_signature_is_the_schema(name):
    entry = models[name]
    for p in entry.parameters.values():
        assert p.check(p.default) == p.default
        assert p.help, f"{p.name} is not documented under Args"


@every_model
def test_docstring_names_its_paper(name):
    entry = models[name]
    assert entry.paper in entry.description
    assert entry.title and entry.url


@every_model
def test_run_survives_json(name):
    run = plan(name, "sprites", settings=["size=16"])
    again = Run.from_json(json.loads(json.dumps(run.to_json())))
    assert again == run and again.hash == run.hash


@every_model
def test_a_run_of_it_is_scored_and_reported(name, tmp_path, monkeypatch):
    settings = ["sprites.size=16", "mlp.width=16"]
    numbers = {"network": "mlp", "latent": 4, "batch": 8, "steps": 3}
    path = untwine.run(plan(name, "sprites", settings=settings, **numbers), tmp_path, quiet=True)
    of_codes = {"codes", "factors", "test_codes", "test_factors"}  # the same code for every model

    def few(subject):
        needs = {name: set(scores.metric_needs(metrics[name])) for name in applicable(subject)}
        return ["mig", *(name for name, need in needs.items() if not need <= of_codes)]

    applicable = scores.applicable
    monkeypatch.setattr(scores, "applicable", few)
    page = untwine.write_report(path, n_examples=50).read_text("utf-8")
    assert models[name].title in page and "traversal of latent 3" in page
    assert {"mig", "reconstruction"} <= set(read_scores(path))


@pytest.mark.parametrize("pair", PAIRS)
def test_every_pair_trains_or_is_refused_with_a_reason(pair, tiny):
    try:
        model = make(pair, tiny)
    except IncompatibleError as refusal:
        assert all(name in str(refusal) for name in pair.split("+"))
        return
    history = untwine.fit(model, tiny, steps=3, batch=8, quiet=True)
    assert all(value == value for value in history[-1].values())
