"""What models of coloured digits find when the colour no longer tells the digit."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data import Dataset
from untwine.datasets.coloured_mnist import COLOURS
from untwine.errors import DataError
from untwine.measures import measure
from untwine.measures._varied import varied
from untwine.metrics.clustering import clustering
from untwine.parts.latents import NoCorruption
from untwine.runs import Finished
from untwine.vae import VAE, forked

CHUNK = 500  # images at a time
YELLOW = 5  # the digit whose colour all have in the paper's figure


@measure
def colours(finished: Finished, *, examples: int = 5_000) -> dict[str, float]:
    """NMI of clusters and digits on test digits in their own colours, and all in one.

    `multi` is with the colours of training, `single K` with all digits in the colour of the digit
    K, and `median`, `lowest` and `highest` are over the ten. Where the encoder sees something else
    than the image while training, a shuffled one for jigsaw, `multi, altered` and
    `median, altered` are for test images that are altered in the same way.
    """
    _require_colours(finished)
    multi = varied(finished.spec.data, split="test", colours="multi")
    single = [
        varied(finished.spec.data, split="test", colours="single", colour=k)
        for k in range(len(COLOURS))
    ]
    model = finished.model
    each = [_nmi(model, data, examples) for data in single]
    found = {
        "multi": _nmi(model, multi, examples),
        "median": float(np.median(each)),
        "lowest": min(each),
        "highest": max(each),
        **{f"single {k}": value for k, value in enumerate(each)},
    }
    if not isinstance(model.corruption, NoCorruption):
        altered = [_nmi(model, data, examples, altered=True) for data in (multi, *single)]
        found["multi, altered"] = altered[0]
        found["median, altered"] = float(np.median(altered[1:]))
    return found


def _require_colours(finished: Finished) -> None:
    name = finished.spec.data.name
    if name != "coloured-mnist":
        raise DataError(f"colours are told of models of coloured-mnist, not of {name}")


def _nmi(model: VAE, data: Dataset, examples: int, *, altered: bool = False) -> float:
    """Of the first test examples, as they are or altered as while training."""
    index = np.arange(min(examples, len(data)))
    assert data.factors is not None
    with forked(0):
        found = torch.cat(
            [model.assign(_seen(model, data.take(part), altered)) for part in _parts(index)]
        )
    return clustering(found.numpy(), data.factors.of(index))["nmi"]


def _parts(index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.array_split(index, -(-len(index) // CHUNK))


def _seen(model: VAE, x: Tensor, altered: bool) -> Tensor:
    return model.corruption.corrupt(x)[0] if altered else x


@measure
def recoloured(
    finished: Finished, *, colour: int = YELLOW, examples: int = 2_000
) -> dict[str, float]:
    """In what colour a model reconstructs test digits that are all in one.

    `recovered` is the share in the colour that the digit had in training, `kept` the share in the
    colour that it has now; digits whose own colour it is are left out.
    """
    _require_colours(finished)
    data = varied(finished.spec.data, split="test", colours="single", colour=colour)
    index = np.arange(min(examples, len(data)))
    assert data.factors is not None
    digit = data.factors.of(index)[:, 0]
    index, digit = index[digit != colour], digit[digit != colour]
    found = torch.cat(
        [nearest_colour(finished.model.reconstruct(data.take(part))) for part in _parts(index)]
    ).numpy()
    return {
        "recovered": float((found == digit).mean()),
        "kept": float((found == colour).mean()),
    }


def nearest_colour(images: Tensor) -> Tensor:
    """(B,) which of the ten colours images (B, 3, H, W) on black are nearest to.

    What counts is the hue: the sum over pixels, and the colours, are scaled to a largest channel
    of 1.

    >>> nearest_colour(torch.tensor([[[[0.5]], [[0.5]], [[0.1]]]])).tolist()  # nearly yellow
    [5]
    """
    total = images.sum((2, 3))  # (B, 3)
    hue = total / total.amax(1, keepdim=True).clamp(min=1e-6)
    known = torch.tensor(COLOURS).float()
    known = (known / known.amax(1, keepdim=True)).to(hue)
    return torch.cdist(hue, known).argmin(1)
