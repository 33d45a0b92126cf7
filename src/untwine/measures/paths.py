"""Whether a feature fades or vanishes on the way from one image to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.errors import DataError
from untwine.measures import measure
from untwine.measures.features import Judge, Wanted, judge_of
from untwine.metrics._classifier import Images
from untwine.runs import Finished
from untwine.vae import VAE


class Ends(NamedTuple):
    """Real images with a feature, each beside one without."""

    first: Images  # (P, C, H, W)
    last: Images


def ends_of(judge: Judge, feature: str, pairs: int) -> Ends:
    """Pairs of held-back images: those that show the feature most clearly, and random others."""
    place = judge.names.index(feature)
    clear = judge.probabilities(judge.images)[:, place]
    has = judge.present[:, place] == 1
    first = np.flatnonzero(has)[np.argsort(-clear[has], kind="stable")][:pairs]
    if not len(first) or has.all():
        raise DataError(f"the images held back must be with and without {feature}; take more data")
    last = np.random.default_rng(0).choice(np.flatnonzero(~has), len(first))
    return Ends(judge.images[first], judge.images[last])


@torch.no_grad()
def between(model: VAE, first: Tensor, last: Tensor, steps: int) -> Tensor:
    """(P, S, C, H, W) images on straight lines between the codes of pairs (P, C, H, W)."""
    a, b = model.codes(first), model.codes(last)  # (P, D)
    share = torch.linspace(0, 1, steps)[:, None].to(a)  # (S, 1)
    z = a[:, None] + share * (b - a)[:, None]  # (P, S, D)
    return model.decode(model.mapping(z.flatten(0, 1))[0]).unflatten(0, z.shape[:2])


def abruptness(p: NDArray[np.floating]) -> float:
    """How much of all change on paths (P, S) falls to the largest step of each.

    1 if all changes at once, 1/(S−1) if it changes evenly or not at all.

    >>> abruptness(np.array([[1.0, 1.0, 0.0, 0.0]])), abruptness(np.array([[1.0, 0.5, 0.0]]))
    (1.0, 0.5)
    """
    change = np.abs(np.diff(p.astype(np.float64), axis=1))  # (P, S - 1)
    total = change.sum()
    return float(change.max(1).sum() / total) if total > 0 else 1 / change.shape[1]


@measure
def paths(
    finished: Finished, *, feature: str, features: Wanted, pairs: int = 100, steps: int = 7
) -> dict[str, float]:
    """The classifier's probability of a feature along straight paths between codes.

    From images with the feature to images without. `at 1` … is the mean probability at each step,
    `lost` its fall from the first real image to that image's reconstruction, `abruptness` the
    share of all change that falls to the largest step.
    """
    judge = judge_of(finished.data, features)
    place = judge.names.index(feature)
    first, last = ends_of(judge, feature, pairs)
    images = between(finished.model, torch.tensor(first), torch.tensor(last), steps)
    seen = judge.probabilities(images.flatten(0, 1).numpy().clip(0, 1))[:, place]
    p = seen.reshape(len(first), steps)
    real = judge.probabilities(first)[:, place].mean()
    return {
        **{f"at {step + 1}": float(value) for step, value in enumerate(p.mean(0))},
        "real": float(real),
        "lost": float(real - p[:, 0].mean()),
        "abruptness": abruptness(p),
        "pairs": float(len(first)),
    }
