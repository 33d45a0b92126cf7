"""From what a person types to a run, and from a run to its model and data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.data.derived import split_randomly
from untwine.data.in_memory import hold
from untwine.data.opening import (
    absolute_paths,
    choice_of,
    entries_of,
    load_dataset,
    reopen_with,
    require_text,
    resolve_dataset,
)
from untwine.data.tables import check_columns
from untwine.errors import DataError, IncompatibleError, ParameterError, UnknownNameError
from untwine.optimisers import Training
from untwine.records import ModelCard, Sizes, is_image
from untwine.registry import (
    Choice,
    Entry,
    datasets,
    likelihoods,
    models,
    networks,
    plugins_of,
)
from untwine.schema import Value
from untwine.settings import Settings
from untwine.specification import NUMBERS, OPTIONS, Run
from untwine.tools.compute import AllocationLimit, seeded
from untwine.train import count_steps
from untwine.vae import VAE, Recipe, probe

MAX_MODEL_BYTES = 2**30  # of weights and whatever else is made while a model is built
DEFAULT_STEPS = 10_000
MAX_EXAMPLES_CHECKED = 256


@dataclass(frozen=True)
class ModelSpec:
    """The names and numbers of a model."""

    model: tuple[Choice, ...]
    network: Choice
    likelihood: Choice


def resolve_model(
    model: str,
    data: Dataset,
    asked: Settings,
    *,
    network: str | None = None,
    likelihood: str | None = None,
    others: Iterable[Entry] = (),
) -> ModelSpec:
    """A model from what a person types; the data decides where no network or likelihood is named.

    `others` are further entries to which a setting may belong.
    """
    check_columns(data)
    parts = [models[name] for name in model_names(model)]
    net, net_params = networks.parse(network or default_network(data.shape))
    like, like_params = likelihoods.parse(likelihood or data.likelihood.name)
    asked.check([*parts, net, like, *others], also=(*NUMBERS, *OPTIONS))
    if like.metadata.get("bounded") and not data.in_unit_interval:
        raise IncompatibleError(
            f"the likelihood {like.name} needs data in [0, 1], which this is not; choose gaussian"
        )
    if like.metadata.get("counts"):
        require_counts(data)
    declared = {k: v for k, v in data.likelihood.params.items() if k in like.parameters}
    pieces = ModelSpec(
        model=tuple(models.choose(part.name, **asked.params_of(part)) for part in parts),
        network=networks.choose(net.name, **_together(net, net_params, asked)),
        likelihood=likelihoods.choose(
            like.name, **{**declared, **_together(like, like_params, asked)}
        ),
    )
    likelihoods.make(pieces.likelihood).weight(data.shape)  # refuses pixels of what is no image
    return pieces


def _together(entry: Entry, named: Mapping[str, Value], asked: Settings) -> dict[str, Value]:
    """The numbers written with a name and those that are set, each once."""
    own = asked.params_of(entry)
    for key in named.keys() & own.keys():
        raise ParameterError(f"{entry.name}.{key} is set twice; set it once")
    return {**named, **own}


def require_counts(data: Dataset) -> None:
    """Refuse data that is not made of whole numbers from 0, as its first examples tell."""
    x = data.take_repeatably(range(min(len(data), MAX_EXAMPLES_CHECKED)))
    if bool((x < 0).any()) or not torch.equal(x, x.round()):
        raise IncompatibleError(
            "the likelihood counts needs whole numbers from 0, which this data is not; choose "
            "gaussian, or give the counts before scaling and logarithms"
        )


def plan(
    model: str,
    data: Any,
    *,
    network: str | None = None,
    likelihood: str | None = None,
    latent: int = 10,
    batch: int = 64,
    steps: int | None = None,
    epochs: int | None = None,
    lr: float = 1e-4,
    seed: int = 0,
    validation: float | str = 0.0,
    patience: int = 0,
    optimiser: str = "adam",
    weight_decay: float = 0.0,
    clip: float = 0.0,
    schedule: str = "constant",
    warm_up: int = 0,
    settings: Iterable[str] = (),
    **params: Value,
) -> Run:
    """Plan a run: everything that determines a trained model, checked.

    Args:
        model: one name or several, as in `"jigsaw+beta-tcvae"`.
        data: a dataset such as `"sprites(size=32)"`, a folder of images, an .npy or .npz file,
            or a table (.csv, .parquet); or anything that `as_dataset` takes.
        network: encoder and decoder, such as `"mlp(width=128)"`; `conv` for images and `mlp` for
            vectors by default.
        likelihood: of the data, such as `"gaussian(variance=0.1)"`; what the dataset declares by
            default.
        latent: number of latents.
        batch: examples per step.
        steps: optimiser steps; 10,000 by default.
        epochs: passes through the training data, instead of steps.
        lr: learning rate.
        seed: of weights, held-out examples, data order and noise.
        validation: share of the data to hold out, or a split of the dataset, as in `"test"`.
        patience, optimiser, weight_decay, clip, schedule, warm_up: as in `untwine.fit`.
        settings: `NAME=VALUE` lines, as on the command line.
        params: parameters of the pieces named above, by their own names.

    >>> run = plan("beta-vae", "sprites", beta=6, size=32, steps=500)
    >>> run.model_name, dict(run.data.params), run.network.name, run.steps
    ('beta-vae', {'size': 32}, 'conv', 500)
    """
    asked = Settings.read(settings) | Settings(params)
    model_names(model)  # a misspelt model is reported before any data is read
    entry, placed = _resolve(data)
    own = asked.params_of(entry)
    for name in placed.keys() & own.keys():
        raise ParameterError(f"{name} is set by {data} already; do not set it again")
    choice = datasets.choose(entry.name, **{**placed, **absolute_paths(entry, own)})
    require_text(choice)
    loaded = load_dataset(choice)
    pieces = resolve_model(
        model, loaded, asked, network=network, likelihood=likelihood, others=[entry]
    )
    digest = {"digest": loaded.digest} if loaded.digest else {}
    parts = [*(models[part.name] for part in pieces.model), *entries_of(choice)]
    parts += [networks[pieces.network.name], likelihoods[pieces.likelihood.name]]
    run = Run(
        model=pieces.model,
        data=datasets.choose(choice.name, **{**choice.params, **digest}),
        network=pieces.network,
        likelihood=pieces.likelihood,
        latent=latent,
        batch=batch,
        steps=DEFAULT_STEPS if steps is None else steps,
        lr=lr,
        seed=seed,
        training=Training(validation, patience, optimiser, weight_decay, clip, schedule, warm_up),
        plugins=plugins_of(parts),
    )
    training_data, _ = split_data(run, loaded)
    if epochs is None:
        return run
    return replace(run, steps=count_steps(steps, epochs, len(training_data), batch))


def _resolve(data: Any) -> tuple[Entry, dict[str, Value]]:
    """The entry of a dataset and its settings, from what a person names or gives."""
    if isinstance(data, str | Path):
        return resolve_dataset(str(data))
    dataset = as_dataset(data)
    choice = choice_of(dataset)
    if choice is not None:
        return datasets[choice.name], dict(choice.params)
    return datasets["memory"], {"digest": hold(dataset).digest}


def split_data(run: Run, data: Dataset) -> tuple[Dataset, Dataset | None]:
    """What a run is trained on, and what it is validated on, of its data."""
    held_out = run.training.validation
    if not held_out:
        return data, None
    if not isinstance(held_out, str):
        return split_randomly(data, held_out, seed=run.seed)
    if run.data.params.get("split") == held_out:
        raise ParameterError(f"the split {held_out} is what is trained on; choose another")
    return data, open_split(run.data, held_out)


def open_split(data: Choice, name: str) -> Dataset:
    """Another split of a dataset, by name."""
    try:
        return reopen_with(data, split=name)
    except UnknownNameError:
        raise DataError(f"{data.name} has no splits; hold out a share, for example 0.1") from None


def default_network(shape: torch.Size) -> str:
    """The name of the network for data of this shape when none is chosen."""
    return "conv" if is_image(shape) else "mlp"


def model_names(text: str) -> list[str]:
    """The names in `jigsaw+beta-tcvae`, each once."""
    names = [models[name.strip()].name for name in text.split("+")]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{name} is named twice in {text!r}; name it once")
    return names


def merge_recipes(parts: Sequence[Choice]) -> Recipe:
    """The recipes of all parts merged, or a sentence that names those that clash."""
    total, names = Recipe(), ""
    for part in parts:
        try:
            total = total | models.make(part)
        except IncompatibleError as error:
            raise IncompatibleError(f"{names} and {part.name} do not combine: {error}") from None
        names = f"{names}+{part.name}".lstrip("+")
    return total


def build_model(
    pieces: ModelSpec | Run, data: Dataset, *, latent: int, seed: int, batch: int = 4
) -> VAE:
    """The model of a design for this data, with weights that depend on the seed alone."""
    card = model_card(pieces, data, latent=latent)
    with seeded(seed):
        return build_from_card(card, draw_examples=data.example_drawer(seed), batch=batch)


def model_card(pieces: ModelSpec | Run, data: Dataset, *, latent: int) -> ModelCard:
    """The names and numbers of a model for this data."""
    condition = merge_recipes(pieces.model).condition
    return ModelCard(
        model=pieces.model,
        network=pieces.network,
        likelihood=pieces.likelihood,
        latent=latent,
        shape=tuple(data.shape),
        n_train=len(data),
        data=data.name,
        preparation=data.preparation,
        labels=condition.labels(data) if condition else {},
    )


def build_from_card(
    card: ModelCard,
    *,
    draw_examples: Callable[[int], Tensor] | None = None,
    batch: int = 4,
    max_bytes: int = MAX_MODEL_BYTES,
    fill: bool = True,
) -> VAE:
    """The model that a card describes, with weights from torch's random numbers.

    It is made without filling its weights first, where every tensor is counted before it is made.
    So a model of more than `max_bytes` is refused at once and without taking more. Unless `fill`,
    its weights are zero, and are to be replaced.
    """

    def assemble(examples: Callable[[int], Tensor] | None) -> VAE:
        network, likelihood = networks.make(card.network), likelihoods.make(card.likelihood)
        sizes = Sizes(
            torch.Size(card.shape),
            card.latent,
            n_train=card.n_train,
            draw_examples=examples,
            labels=card.labels,
        )
        return merge_recipes(card.model).assemble(sizes, network, likelihood)

    try:
        with seeded(0), AllocationLimit(min(max_bytes, MAX_MODEL_BYTES)):
            model = assemble(lambda n: torch.zeros(n, *card.shape))
        if fill:
            model = assemble(draw_examples)
        else:
            for weights in model.parameters():
                weights.data.zero_()
        probe(model, batch)
    except IncompatibleError as error:
        raise IncompatibleError(f"{card.model_name} cannot be built: {error}") from None
    model.card = card
    return model


def build(
    model: str,
    data: Any,
    *,
    latent: int = 10,
    network: str | None = None,
    likelihood: str | None = None,
    seed: int = 0,
    **settings: Value,
) -> VAE:
    """A model for this data, with fresh weights.

    Args:
        model: one name or several, as in `"jigsaw+beta-tcvae"`.
        data: what it will be trained on; gives shape, likelihood and number of examples. A dataset
            or anything that `as_dataset` takes.
        latent: number of latents.
        network: encoder and decoder, such as `"mlp(width=128)"`; `conv` for images and `mlp` for
            vectors by default.
        likelihood: of the data, such as `"gaussian(variance=0.1)"`; what the dataset declares by
            default.
        seed: of the initial weights.
        settings: parameters of the pieces named above, by their own names.

    >>> import untwine
    >>> model = untwine.build("beta-vae", untwine.dataset("sprites", size=16), beta=6)
    >>> tuple(model.sample(3).shape)
    (3, 1, 16, 16)
    """
    data = as_dataset(data)
    pieces = resolve_model(model, data, Settings(settings), network=network, likelihood=likelihood)
    return build_model(pieces, data, latent=latent, seed=seed)
