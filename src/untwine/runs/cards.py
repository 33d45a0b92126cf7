"""Models on disk: from a card and weights to a model, without the data it was trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from untwine.data.dataset import Dataset
from untwine.errors import RunError
from untwine.records import LatentProfile, ModelCard
from untwine.registry import networks
from untwine.spec import Run, build_from_card
from untwine.tools.compute import seeded
from untwine.tools.files import read_json, sha256
from untwine.tools.weights import load_weights, weight_shapes
from untwine.vae import MODEL_FORMAT, VAE

MAX_CHANNELS = 4
SIDES = range(4, 257, 4)  # of images that are tried


def load_from_card(card: ModelCard, weights: bytes, origin: Path) -> VAE:
    """The model of a card with these weights, in evaluation mode on the CPU."""
    with seeded(0):  # every initial weight is replaced, also those that start from examples
        model = build_from_card(card, draw_examples=lambda n: torch.rand(n, *card.shape))
    load_weights(model, weights, origin)
    return model.eval()


def load_model(folder: Path) -> VAE:
    """The model that `VAE.save` wrote to a folder, in evaluation mode on the CPU."""
    file = folder / "model.json"
    record = read_json(file)
    if record.get("format") != MODEL_FORMAT:
        raise RunError(
            f"{file} has format {record.get('format')!r}; this version of untwine reads format "
            f"{MODEL_FORMAT}: update untwine, or save the model again with the version that made it"
        )
    weights = folder / "model.safetensors"
    content = weights.read_bytes() if weights.exists() else b""
    if sha256(content) != record.get("weights"):
        raise RunError(f"{weights} is damaged (its checksum differs); copy the folder again")
    return load_from_card(read_card(record.get("card"), file), content, weights)


def read_card(content: Any, file: Path) -> ModelCard:
    """The card in a file, checked."""
    try:
        return ModelCard.from_json(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{file} is damaged: its card has no proper {error}") from None


def run_card(
    path: Path,
    spec: Run,
    record: Mapping[str, Any],
    weights: bytes,
    open_data: Callable[[], Dataset],
) -> ModelCard:
    """The card of a finished run's model.

    Runs of earlier versions have none: theirs is made from the shapes of the weights or, where
    several shapes of data would fit these, from the data.
    """
    if "card" in record:
        card = read_card(record["card"], path / "run.json")
        return replace(
            card, latents=tuple(LatentProfile(**one) for one in record.get("latents", ()))
        )
    shape, n_train = data_shape(spec, weights), 1
    if shape is None:
        data = open_data()
        shape, n_train = tuple(data.shape), len(data)
    return ModelCard(
        spec.model, spec.network, spec.likelihood, spec.latent, shape, n_train, spec.data.name
    )


def data_shape(spec: Run, weights: bytes) -> tuple[int, ...] | None:
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

    fitting = [shape for shape in _candidates(encoder) if fits(shape)]
    return fitting[0] if len(fitting) == 1 else None


def _candidates(encoder: Mapping[str, tuple[int, ...]]) -> Iterable[tuple[int, ...]]:
    """Shapes of vectors and of square images that may fit the first weights of an encoder."""
    first = next((shape for shape in encoder.values() if len(shape) > 1), (0, 0))
    if len(first) == 4:
        yield from ((first[1], side, side) for side in SIDES)
        return
    yield (first[1],)
    for channels in range(1, MAX_CHANNELS + 1):
        side = math.isqrt(first[1] // channels)
        if side in SIDES and channels * side * side == first[1]:
            yield channels, side, side
