"""What codes say about labels: attributes told by a line, and latents that classes switch on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data import Dataset
from untwine.errors import DataError
from untwine.measures import measure
from untwine.runs import Finished
from untwine.vae import VAE

CHUNK = 512  # examples encoded at a time
TESTED = 5_000  # rows to test on, at most
LOOKED_AT = 5_000  # examples whose latents are averaged by class

Codes = NDArray[np.floating]  # (N, D)
Levels = NDArray[np.int64]  # (N, K)
Means = NDArray[np.float64]  # (L, D) of each level of a factor


def encoded(model: VAE, data: Dataset, index: NDArray[np.integer]) -> Codes:
    """(N, D) the representation of the examples at these positions."""
    parts = [index[start : start + CHUNK] for start in range(0, len(index), CHUNK)]
    return np.concatenate([model.encode(data.take(part)).numpy() for part in parts])


def apart(data: Dataset, most: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from, at most so many, and rows to test on: a third, and none in both."""
    order = np.random.default_rng(seed).permutation(len(data))
    third = len(data) // 3
    return order[third:][:most], order[:third][:TESTED]


@measure
def attributes(
    finished: Finished,
    *,
    sizes: Sequence[int],
    each: Sequence[str] = (),
    repeats: int = 1,
    seed: int = 0,
) -> dict[str, float]:
    """Accuracy of lines that tell two-valued factors, learned from few rows (Miao et al., 2022).

    Args:
        finished: the run.
        sizes: numbers of rows to learn from; those that the data does not have are left out.
        each: factors whose own accuracy is told too, where the data has them.
        repeats: how often rows are chosen anew.
        seed: of the rows held back and of those chosen.

    Returns:
        `accuracy at N`, the mean over factors, and `accuracy` at the most rows; `NAME at N`;
        `base rate`, the accuracy of the more frequent answer in the rows to test on, and
        `base rate of NAME`.
    """
    factors = finished.data.factors
    binary = [k for k, n in enumerate(factors.sizes) if n == 2] if factors else []
    if factors is None or not binary:
        raise DataError("this data has no attribute that is there or not")
    learn, test = apart(finished.data, max(sizes), seed)
    codes, held = (encoded(finished.model, finished.data, rows) for rows in (learn, test))
    told, truth = (factors.of(rows)[:, binary] for rows in (learn, test))
    names = [factors.names[k] for k in binary]
    base = np.maximum(truth.mean(0), 1 - truth.mean(0))
    found = {"base rate": float(base.mean())}
    found |= {f"base rate of {n}": float(b) for n, b in zip(names, base, strict=True) if n in each}
    for size in (n for n in sorted(sizes) if n <= len(learn)):
        hits = _repeated(codes, told, held, truth, size, repeats, seed)
        found["accuracy"] = found[f"accuracy at {size}"] = float(hits.mean())
        found |= {
            f"{n} at {size}": float(hit) for n, hit in zip(names, hits, strict=True) if n in each
        }
    return found


def _repeated(
    codes: Codes, told: Levels, held: Codes, truth: Levels, size: int, repeats: int, seed: int
) -> NDArray[np.float64]:
    """(K,) the accuracy on each factor, over several choices of the rows to learn from."""
    total = np.zeros(told.shape[1])
    for repeat in range(repeats):
        rows = np.random.default_rng((seed, size, repeat)).permutation(len(codes))[:size]
        total += [
            float((_line(codes[rows], told[rows, k], held) == truth[:, k]).mean())
            for k in range(told.shape[1])
        ]
    return total / repeats


def _line(codes: Codes, levels: NDArray[np.int64], held: Codes) -> NDArray[np.int64]:
    """What logistic regression makes of the held codes; the only answer, where there is one."""
    from sklearn.linear_model import LogisticRegression

    if (levels == levels[0]).all():
        return np.full(len(held), levels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # codes of any scale need not converge in 100 steps
        line: Any = LogisticRegression().fit(codes, levels)
    return line.predict(held)


def magnitudes(finished: Finished, *, factor: int = 0, seed: int = 0) -> Means:
    """(L, D) the mean |z| of each latent for each level of a factor; 0 for levels not seen."""
    factors = finished.data.factors
    if factors is None:
        raise DataError("this data has no classes to average over")
    order = np.random.default_rng(seed).permutation(len(finished.data))[:LOOKED_AT]
    size = np.abs(encoded(finished.model, finished.data, order))
    levels = factors.of(order)[:, factor]
    means = [size[levels == level] for level in range(factors.sizes[factor])]
    return np.stack([m.mean(0) if len(m) else np.zeros(size.shape[1]) for m in means])


def active(means: Means, share: float) -> NDArray[np.bool_]:
    """(L, D) which latents are on: whose mean |z| is above a share of the largest of the class.

    >>> active(np.array([[1.0, 0.05, 0.2]]), 0.1).tolist()
    [[True, False, True]]
    """
    return means > share * means.max(1, keepdims=True)


def overlap(on: NDArray[np.bool_]) -> float:
    """How far classes share latents: |both on| / |either on|, the mean over pairs of classes.

    >>> overlap(np.array([[True, True, False], [False, True, True]]))
    0.3333333333333333
    """
    pairs = [(a & b).sum() / max(1, (a | b).sum()) for a, b in combinations(on, 2)]
    return float(np.mean(pairs)) if pairs else 1.0


@measure
def activity(finished: Finished, *, factor: int = 0, share: float = 0.1) -> dict[str, float]:
    """The share of latents that a class switches on, and how far classes share them.

    Args:
        finished: the run.
        factor: whose levels are the classes.
        share: of the largest mean |z| of a class, above which a latent is on.
    """
    on = active(magnitudes(finished, factor=factor), share)
    each = on.mean(1)
    return {"active": float(each.mean()), "most": float(each.max()), "overlap": overlap(on)}


@measure
def levels(finished: Finished, *, examples: int = 500, seed: int = 0) -> dict[str, float]:
    """What changes as each level of a hierarchical code in turn is drawn anew from the prior.

    Args:
        finished: the run of a model whose mapping has levels.
        examples: images to start from.
        seed: of the images, the draws and the classifier.

    Returns:
        `class by level i`, the share of images that a classifier of the data then takes for
        another class, and `pixels by level i`, the mean squared change; level 0 is the top.
    """
    from untwine.metrics._classifier import learn

    model, data = finished.model, finished.data
    if data.factors is None or not hasattr(model.mapping, "levels"):
        raise DataError("levels need data with classes and a model whose code has levels")
    order = np.random.default_rng(seed).permutation(len(data))[:LOOKED_AT]
    classifier = learn(data.take(order).numpy(), data.factors.of(order)[:, :1], seed)
    z = model.codes(data.take(order[:examples]))
    before = _decoded(model, z)
    seen = classifier.predict(before)
    drawn = torch.randn(z.shape, generator=torch.Generator().manual_seed(seed))
    found: dict[str, float] = {}
    for level, part in enumerate(parts(model)):
        changed = z.clone()
        changed[:, part] = drawn[:, part]
        after = _decoded(model, changed)
        found[f"class by level {level}"] = float((classifier.predict(after) != seen).mean())
        found[f"pixels by level {level}"] = float(np.square(after - before).mean())
    return found


def parts(model: VAE) -> list[slice]:
    """Where each level of a model's code lies."""
    ends = np.cumsum([0, *getattr(model.mapping, "levels", (model.sizes.latent,))]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


@torch.no_grad()
def _decoded(model: VAE, z: torch.Tensor) -> NDArray[np.float32]:
    """(B, *shape) the images of codes before the mapping."""
    return model.decode(model.mapping(z)[0]).clamp(0, 1).numpy()
