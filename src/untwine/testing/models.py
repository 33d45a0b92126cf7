"""What every registered model, and every pair of models, must do."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from untwine.data.arrays import from_arrays
from untwine.data.dataset import Dataset, Shuffle
from untwine.data.opening import dataset
from untwine.errors import IncompatibleError
from untwine.records import Batch
from untwine.registry import metrics, models
from untwine.report.run import write_report
from untwine.runs.directory import load, read_scores
from untwine.runs.training import run
from untwine.scoring import scores
from untwine.scoring.representation import Representation
from untwine.spec import Run, build, plan
from untwine.state import PackedState, State
from untwine.testing.contracts import expect, expect_documented, run_checks
from untwine.train import fit
from untwine.vae import VAE

ModelCheck = Callable[[str, Dataset], None]
IMAGE_SHAPES = ((1, 28, 28), (3, 32, 32), (3, 64, 64), (1, 64, 64))
SMALL_MLP: dict[str, Any] = {"mlp.width": 16}
SMALL_CONV: dict[str, Any] = {"conv.width": 4, "conv.hidden": 8}
OF_CODES = {"codes", "factors", "test_codes", "test_factors"}  # the same code for every model


def check_model(name: str, *, data: Dataset | None = None) -> None:
    """Check that a registered model keeps the contract of models.

    It trains; every parameter gets a gradient; evaluation is deterministic and sees clean inputs;
    training resumes and a saved model loads bit for bit; usual shapes, blank images and a batch of
    one work or are refused; a run of it is scored and reported; it combines with every other model
    or is refused with a reason; and it is documented. Takes about a minute.

    Args:
        name: of the model; several joined with `+` are checked as one.
        data: small images with factors to train on; sprites of 16 pixels by default.
    """
    examples = _sprites() if data is None else data
    checks = [partial(check, name, examples) for check in MODEL_CHECKS]
    others = [other for other in models if other not in name.split("+")]
    pairs = [partial(check_pair, f"{name}+{other}", examples) for other in others]
    run_checks(name, [*checks, *pairs])


def check_pair(pair: str, data: Dataset | None = None) -> None:
    """Check that models joined with `+` train together, or are refused with a reason."""
    examples = _sprites() if data is None else data
    try:
        model = _make(pair, examples)
    except IncompatibleError as refusal:
        named = all(name in str(refusal) for name in pair.split("+"))
        expect(named, f"the refusal of {pair} must name its parts: {refusal}")
        return
    history = fit(model, examples, steps=3, batch=8, quiet=True)
    finite = all(value == value for value in history[-1].values())
    expect(finite, f"a term of {pair} is NaN after three steps")


def _sprites() -> Dataset:
    return dataset("sprites", size=16)


def _make(name: str, data: Dataset) -> VAE:
    return build(name, data, latent=4, network="mlp", **SMALL_MLP)


def _some(data: Dataset, n: int) -> torch.Tensor:
    return Shuffle(len(data), n, 0, torch.device("cpu")).at(0)


def _batch(data: Dataset, n: int = 8) -> Batch:
    return data.batch(_some(data, n), torch.zeros((), dtype=torch.long))


def _with_batch(model: VAE, data: Dataset, n: int = 8) -> tuple[VAE, Batch]:
    """The model for the labels of a batch, where it needs them, and the batch."""
    return model.given_data(data, _some(data, n)), _batch(data, n)


def trains(name: str, data: Dataset) -> None:
    """The likelihood rises in 200 steps with default parameters."""
    history = fit(_make(name, data), data, steps=200, batch=16, lr=3e-3, quiet=True)
    expect(history[-1]["nll"] < history[0]["nll"], "200 steps of training do not lower the nll")


def gives_every_parameter_a_gradient(name: str, data: Dataset) -> None:
    """No parameter is left out of the loss."""
    model = _make(name, data)
    terms = model.objective(model.trace(_batch(model.add_labels(data))))
    terms["loss"].backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None]
    expect(not idle, f"these parameters receive no gradient: {', '.join(idle)}")


def evaluates_deterministically(name: str, data: Dataset) -> None:
    """Outside training codes repeat, and the encoder sees the examples themselves."""
    model, batch = _with_batch(_make(name, data), data)
    repeats = torch.equal(model.encode(batch.x), model.encode(batch.x))
    expect(repeats, "the same examples are encoded to different codes")
    clean = model.eval().corruption(batch.x)[0] is batch.x
    expect(clean, "inputs are corrupted outside training")


def leaves_random_numbers_alone(name: str, data: Dataset) -> None:
    """Building draws from a generator of its own."""
    before = torch.get_rng_state()
    _make(name, data)
    expect(torch.equal(before, torch.get_rng_state()), "building changes torch's random numbers")


def keeps_adversaries_apart(name: str, data: Dataset) -> None:
    """The loss of an adversary gives gradients to the adversary alone."""
    model, batch = _with_batch(_make(name, data), data)
    for adversary in model.objective.adversaries():
        own = {id(p) for p in adversary.parameters()}
        z = model.trace(batch).z.detach()
        adversary.adversary_loss(z, z.flip(0)).backward()
        apart = all((p.grad is not None) == (id(p) in own) for p in model.parameters())
        expect(apart, "the loss of an adversary must reach all its parameters, and no others")


def resumes_bit_for_bit(name: str, data: Dataset) -> None:
    """Training that goes on from a checkpoint ends as if it had not stopped."""
    states: list[PackedState] = []
    whole, again = _make(name, data), _make(name, data)

    def store(state: State) -> None:
        tensors, values = state.pack()
        copies = {key: value.clone() for key, value in tensors.items()}
        states.append((copies, json.loads(json.dumps(values))))

    options: dict[str, Any] = {"steps": 25, "batch": 8, "quiet": True}
    history = fit(whole, data, checkpoint=store, checkpoint_every=13, **options)
    resumed = fit(again, data, resume=states[0], **options)
    expect(resumed == history, "resumed training has another history")
    pairs = zip(whole.parameters(), again.parameters(), strict=True)
    expect(all(torch.equal(p, q) for p, q in pairs), "resumed training ends at other weights")


def loads_as_it_was_saved(name: str, data: Dataset) -> None:
    """A saved model encodes and samples bit for bit as before, and remembers its latents."""
    model = _make(name, data)
    fit(model, data, steps=2, batch=8, quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        other = load(model.save(Path(folder, "model")))
    samples = torch.equal(model.sample(2, seed=1), other.sample(2, seed=1))
    expect(samples, "a loaded model gives other samples")
    first, second = (_with_batch(each, data)[0].encode(_batch(data).x) for each in (model, other))
    expect(torch.equal(first, second), "a loaded model gives other codes")
    card = model.card
    expect(other.card == card, "a loaded model has another card")
    expect(card and len(card.latents) == len(first[0]), "training must describe every latent")


def takes_blank_images(name: str, data: Dataset) -> None:
    """Losses and gradients of black and of white images are finite."""
    for shade in (0.0, 1.0):
        model = _make(name, data)
        batch = Batch(torch.full((8, *data.shape), shade))
        terms = model.objective(model.given_in_turn(8).trace(batch))
        terms["loss"].backward()
        finite = all(value.isfinite() for value in terms.values())
        expect(finite, f"a term is not finite on blank images of {shade}")
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        finite = all(gradient.isfinite().all() for gradient in gradients)
        expect(finite, f"a gradient is not finite on blank images of {shade}")


def makes_data_of_its_shape(name: str, data: Dataset) -> None:
    """Samples, reconstructions and traversals have the shape of the data."""
    model = _make(name, data)
    expect(model.sample(5).shape == (5, *data.shape), "samples have another shape than the data")
    model, x = model.given_in_turn(), _batch(data, 3).x
    expect(model.reconstruct(x).shape == x.shape, "reconstructions have another shape")
    rows = model.posterior_mean(x).shape[1]
    traversal = model.traverse(x[0], torch.linspace(-1, 1, 7)).shape
    expect(traversal == (rows, 7, *data.shape), "traversals have another shape")


def fits_usual_shapes(name: str, data: Dataset) -> None:
    """The usual sizes of images, grey and coloured, work with convolutions."""
    for channels, side, _ in IMAGE_SHAPES:
        images = from_arrays(torch.rand(8, side, side, channels).numpy(), np.arange(8) % 2)
        model = build(name, images, latent=4, **SMALL_CONV)
        made = model.given_in_turn().reconstruct(images.take([0, 1]))
        shape = (channels, side, side)
        expect(made.shape == (2, *shape), f"images of shape {shape} are not reconstructed")


def takes_one_example(name: str, data: Dataset) -> None:
    """A batch of one has a finite loss, or is refused in a sentence about batches."""
    model = _make(name, data)
    try:
        loss = model.objective(model.trace(_batch(model.add_labels(data), 1)))["loss"]
    except IncompatibleError as refusal:
        expect("batch" in str(refusal), f"a batch of one is refused without saying so: {refusal}")
    else:
        expect(loss.isfinite(), "the loss of a batch of one is not finite")


def is_documented(name: str, data: Dataset) -> None:
    """Its docstring names the paper and every parameter."""
    for part in name.split("+"):
        expect_documented(models[part])


def survives_json(name: str, data: Dataset) -> None:
    """A planned run of it is the same after a round trip through JSON."""
    planned = plan(name, "sprites", settings=["size=16"])
    again = Run.from_json(json.loads(json.dumps(planned.to_json())))
    expect(again == planned and again.hash == planned.hash, "a run of it changes through JSON")


def is_scored_and_reported(name: str, data: Dataset) -> None:
    """A run of it has scores, and a report with its title and a traversal of every latent."""
    numbers: dict[str, Any] = {"network": "mlp", "latent": 4, "batch": 8, "steps": 3}
    spec = plan(name, "sprites", settings=["sprites.size=16", "mlp.width=16"], **numbers)
    applicable = scores.applicable

    def few(subject: Representation) -> list[str]:
        """One metric of codes, and those that ask the model for more."""
        needs = {label: set(scores.metric_needs(metrics[label])) for label in applicable(subject)}
        return ["mig", *(label for label, need in needs.items() if not need <= OF_CODES)]

    with tempfile.TemporaryDirectory() as folder:
        path = run(spec, folder, quiet=True)
        with patch.object(scores, "applicable", few):
            page = write_report(path, n_examples=50).read_text("utf-8")
        stored = set(read_scores(path))
    expect(all(models[part].title in page for part in name.split("+")), "its title is not reported")
    expect("traversal of latent 3" in page, "the report has no traversals")
    expect({"mig", "reconstruction"} <= stored, f"it is scored by {sorted(stored)} alone")


MODEL_CHECKS: tuple[ModelCheck, ...] = (
    trains,
    gives_every_parameter_a_gradient,
    evaluates_deterministically,
    leaves_random_numbers_alone,
    keeps_adversaries_apart,
    resumes_bit_for_bit,
    loads_as_it_was_saved,
    takes_blank_images,
    makes_data_of_its_shape,
    fits_usual_shapes,
    takes_one_example,
    is_documented,
    survives_json,
    is_scored_and_reported,
)


def all_pairs() -> list[str]:
    """All pairs of registered models, joined with `+`."""
    return ["+".join(pair) for pair in itertools.combinations(models, 2)]
