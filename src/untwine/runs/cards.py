"""Models on disk: from a card and weights to a model, without the data it was trained on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from untwine.data.dataset import Dataset
from untwine.errors import DamagedFile
from untwine.records import LatentProfile, ModelCard
from untwine.registry import networks
from untwine.spec import MAX_MODEL_BYTES, build_from_card
from untwine.specification import NUMBER_BOUNDS, Run
from untwine.tools.files import regular_size
from untwine.tools.sealed import read_json
from untwine.tools.weights import load_weights, read_weights, weight_shapes
from untwine.vae import VAE

MAX_CHANNELS = 4
MIN_PIXELS = 16  # of an image
SIDES = range(4, 257, 4)  # of images that are tried
BYTES_BESIDES_WEIGHTS = 2**26  # that building a model takes
COPIES_OF_WEIGHTS = 4  # that it takes at most, with those of the first pass


CHOICE = {"name": str, str: object}
PROFILE = {
    "nats": float,
    "exact": bool,
    **dict.fromkeys(("mean", "deviation", "low", "high"), float),
}
CARD = {
    "model": [CHOICE],
    "network": CHOICE,
    "likelihood": CHOICE,
    "latent": int,
    "shape": [int],
    "n_train": int,
    "data": str,
    "preparation": {str: object},
    "latents": [PROFILE],
    "labels?": {str: [str]},
}
MODEL = {"weights": str, "card": CARD}
MAX_SIDE = 1 << 20  # numbers along one axis of an example


def load_from_card(card: ModelCard, file: Path, checksum: str, remedy: str) -> VAE:
    """The model of a card with the weights in a file, in evaluation mode on the CPU."""
    size = regular_size(file) if os.path.lexists(file) else 0
    model = build_empty(card, BYTES_BESIDES_WEIGHTS + COPIES_OF_WEIGHTS * size)
    load_weights(model, read_weights(file, checksum, model, remedy), file)
    return model.eval()


def load_from_bytes(card: ModelCard, weights: bytes, origin: str) -> VAE:
    """The model of a card with weights from `pack_weights`, in evaluation mode on the CPU."""
    model = build_empty(card)
    load_weights(model, weights, origin)
    return model.eval()


def build_empty(card: ModelCard, max_bytes: int = MAX_MODEL_BYTES) -> VAE:
    """The model of a card, with weights that are still to be replaced by the trained ones.

    A card whose model would be far larger than the file of its weights is refused.
    """
    return build_from_card(card, max_bytes=max_bytes, fill=False)


def load_model(folder: Path, *, remedy: str = "copy the folder again") -> VAE:
    """The model that `VAE.save` wrote to a folder, in evaluation mode on the CPU."""
    file = folder / "model.json"
    record = read_json(file, MODEL, remedy=remedy, sealed=True)
    card = read_card(record["card"], file)
    return load_from_card(card, folder / "model.safetensors", record["weights"], remedy)


def read_card(content: Any, file: Path) -> ModelCard:
    """The card in a file, checked."""
    sides = content["shape"]
    if not 1 <= len(sides) <= 4 or not all(1 <= side <= MAX_SIDE for side in sides):
        raise DamagedFile(f"{file} is damaged: its card has the shape {sides}")
    if not 1 <= content["latent"] <= NUMBER_BOUNDS["latent"][1] or content["n_train"] < 1:
        raise DamagedFile(f"{file} is damaged: its card has numbers out of range")
    return ModelCard.from_json(content)


def run_card(
    weights: Path,
    spec: Run,
    record: Mapping[str, Any],
    open_data: Callable[[], Dataset],
) -> ModelCard:
    """The card of a finished run's model.

    Runs of earlier versions have none: theirs is made from the shapes of the weights or, where
    several shapes of data would fit these, from the data.
    """
    if "card" in record:
        card = read_card(record["card"], weights.with_name("run.json"))
        return replace(
            card,
            model=spec.model,
            network=spec.network,
            likelihood=spec.likelihood,
            latent=spec.latent,
            latents=tuple(map(LatentProfile.from_json, record.get("latents", ()))),
        )
    shape, n_train = data_shape(spec, weights), 1
    if shape is None:
        data = open_data()
        shape, n_train = tuple(data.shape), len(data)
    return ModelCard(
        spec.model, spec.network, spec.likelihood, spec.latent, shape, n_train, spec.data.name
    )


def data_shape(spec: Run, weights: Path) -> tuple[int, ...] | None:
    """The shape of the data that the encoder's weights were made for; None if not certain."""
    shapes = weight_shapes(weights)
    encoder = {name: shape for name, shape in shapes.items() if name.startswith("encoder.")}
    make_encoder = networks.make(spec.network).encoder

    def fits(shape: tuple[int, ...]) -> bool:
        try:
            with torch.device("meta"):
                state = make_encoder(torch.Size(shape)).state_dict()
        except Exception:  # a network refuses shapes in its own way
            return False
        return {f"encoder.{name}": tuple(value.shape) for name, value in state.items()} == encoder

    candidates = list(_candidates(encoder, spec.data.name))
    for at, shape in enumerate(candidates):
        if shape[-1] in _likely_sides(encoder) and fits(shape):  # others that fit lie beside it
            beside = candidates[max(0, at - 1) : at] + candidates[at + 1 : at + 2]
            return None if any(map(fits, beside)) else shape
    fitting = [shape for shape in candidates if fits(shape)]
    return fitting[0] if len(fitting) == 1 else None


def _likely_sides(encoder: Mapping[str, tuple[int, ...]]) -> set[int]:
    """Sides of images that layers which halve them may make those of the first dense layer from.

    Trying these first saves trying all, which takes tens of milliseconds. None of vectors.
    """
    channels = [shape[0] for shape in encoder.values() if len(shape) == 4]
    features = [shape[1] for shape in encoder.values() if len(shape) == 2]
    if not channels or not features:
        return set()
    side = math.isqrt(features[0] // channels[-1])
    return {side << halvings for halvings in range(7)}


def _candidates(encoder: Mapping[str, tuple[int, ...]], data: str) -> Iterable[tuple[int, ...]]:
    """Shapes of vectors and of square images that may fit the first weights of an encoder.

    None for an array that may be of images, whose sides may differ.
    """
    first = next((shape for shape in encoder.values() if len(shape) > 1), (0, 0))
    if data == "array" and (len(first) == 4 or first[1] >= MIN_PIXELS):
        return
    if len(first) == 4:
        yield from ((first[1], side, side) for side in SIDES)
        return
    if data != "folder":
        yield (first[1],)
    for channels in range(1, MAX_CHANNELS + 1 if data != "table" else 1):
        side = math.isqrt(first[1] // channels)
        if side * side >= MIN_PIXELS and channels * side * side == first[1]:
            yield channels, side, side


def spec_rows(spec: Run) -> Sequence[tuple[str, str]]:
    """The specification as pairs to read."""
    pieces = [*spec.model, spec.data, spec.network, spec.likelihood]
    kinds = ["model"] * len(spec.model) + ["data", "network", "likelihood"]
    named = [(kind, str(piece)) for kind, piece in zip(kinds, pieces, strict=True)]
    titles = {"latent": "latents", "lr": "learning rate"}
    numbers = {titles.get(name, name): str(value) for name, value in spec.numbers.items()}
    options = {name.replace("_", " "): str(v) for name, v in spec.training.changed().items()}
    return [*named, *{**numbers, "steps": f"{spec.steps:,}", **options}.items()]
