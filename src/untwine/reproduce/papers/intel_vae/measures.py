"""Measures of InteL-VAE: attributes, active latents, levels of a code, proportions of clusters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.errors import DataError, IncompatibleError
from untwine.models.intel_clusters import Clusters
from untwine.reproduce.appearance import greyness, slant
from untwine.reproduce.registry import measure
from untwine.runs.directory import TrainedRun
from untwine.tools.compute import seeded
from untwine.vae import VAE

ENCODE_CHUNK = 512  # examples per batch
MAX_TEST_ROWS = 5_000
MAX_EXAMPLES = 5_000  # from which averages of a class are estimated
MIN_VARIANCE = 0.01  # of a code between examples, above which a latent varies
MIN_LEVEL_NATS = 0.1  # below which a level of a code does not take part
CodeArray = NDArray[np.floating]  # (N, D)
CodeKind = Literal["means", "sampled"]
LevelArray = NDArray[np.int64]  # (N, K)
Means = NDArray[np.float64]  # (L, D) of each level of a factor
CountTable = NDArray[np.int64]  # (clusters, levels)


@measure
def attributes(
    run: TrainedRun,
    *,
    sizes: Sequence[int],
    each: Sequence[str] = (),
    repeats: int = 1,
    codes: CodeKind = "means",
    penalty: float = 1.0,
    seed: int = 0,
) -> dict[str, float]:
    """Accuracy of linear classifiers of binary factors, from few labels (Miao et al., 2022).

    The authors' code draws each code from its posterior once and does not penalise the weights of
    its classifier: `codes: sampled, penalty: 0`. Latents that are not used are then noise.

    Args:
        run: the trained run.
        sizes: numbers of training rows; sizes larger than the data are skipped.
        each: factors whose own accuracy is returned too, if the data has them.
        repeats: number of random choices of the training rows.
        codes: posterior means, or one sample of the posterior of each example.
        penalty: weight of the squared weights of a classifier; 0 for none.
        seed: of the held-out rows, of the training rows and of the samples.

    Returns:
        `accuracy at N`, the mean over factors, `accuracy` at the largest N, and `loss`, how much
        lower it is at the smallest; `NAME at N`; `base rate`, the accuracy of the majority class on
        the test rows, and `base rate of NAME`.
    """
    data = run.data.evaluation or run.data
    factors = data.factors
    binary = [k for k, n in enumerate(factors.sizes) if n == 2] if factors else []
    if factors is None or not binary:
        raise DataError("attributes need data with a factor of two levels, which this has not")
    learn, test = split_rows(data, max(sizes), seed)
    with seeded(seed):
        z, held_out = (encode_at(run.model, data, rows, codes) for rows in (learn, test))
    levels, truth = (factors.levels_at(rows)[:, binary] for rows in (learn, test))
    names = [factors.names[k] for k in binary]
    base = np.maximum(truth.mean(0), 1 - truth.mean(0))
    scores = {"base rate": float(base.mean())}
    scores |= {f"base rate of {n}": float(b) for n, b in zip(names, base, strict=True) if n in each}
    for size in (n for n in sorted(sizes) if n <= len(learn)):
        hits = _probe_accuracy(z, levels, held_out, truth, size, repeats, penalty, seed)
        scores["accuracy"] = scores[f"accuracy at {size}"] = float(hits.mean())
        scores |= {
            f"{n} at {size}": float(hit) for n, hit in zip(names, hits, strict=True) if n in each
        }
    return {**scores, "loss": scores["accuracy"] - scores[f"accuracy at {min(sizes)}"]}


def split_rows(
    data: Dataset, max_rows: int, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return disjoint training rows, at most `max_rows`, and test rows, a third of the data."""
    order = np.random.default_rng(seed).permutation(len(data))
    third = len(data) // 3
    return order[third:][:max_rows], order[:third][:MAX_TEST_ROWS]


def encode_at(
    model: VAE, data: Dataset, index: NDArray[np.integer], codes: CodeKind = "means"
) -> CodeArray:
    """Return (N, D) the representation of the examples at these indices."""
    encode = model.encode if codes == "means" else model.sample_codes
    parts = [index[start : start + ENCODE_CHUNK] for start in range(0, len(index), ENCODE_CHUNK)]
    return np.concatenate([encode(data.take(part)).numpy() for part in parts])


def _probe_accuracy(
    codes: CodeArray,
    levels: LevelArray,
    held_out: CodeArray,
    truth: LevelArray,
    size: int,
    repeats: int,
    penalty: float,
    seed: int,
) -> NDArray[np.float64]:
    """Return (K,) the accuracy for each factor, averaged over choices of the training rows."""
    total = np.zeros(levels.shape[1])
    for repeat in range(repeats):
        rows = np.random.default_rng((seed, size, repeat)).permutation(len(codes))[:size]
        for k in range(levels.shape[1]):
            predicted = _predict_levels(codes[rows], levels[rows, k], held_out, penalty)
            total[k] += (predicted == truth[:, k]).mean()
    return total / repeats


def _predict_levels(
    codes: CodeArray, levels: NDArray[np.int64], held_out: CodeArray, penalty: float
) -> NDArray[np.int64]:
    """Predict the levels of held-out codes by logistic regression."""
    from sklearn.linear_model import LogisticRegression

    if (levels == levels[0]).all():
        return np.full(len(held_out), levels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # badly scaled codes may not converge in 100 steps
        line: Any = LogisticRegression(C=1 / penalty if penalty else np.inf).fit(codes, levels)
    return line.predict(held_out)


@measure
def activity(run: TrainedRun, *, factor: int = 0, share: float = 0.1) -> dict[str, float]:
    """The share of latents active for a class, and how far classes share them.

    Args:
        run: the trained run.
        factor: the factor whose levels are the classes.
        share: of the largest mean |z| of a class, above which a latent is active.

    Returns:
        `active`, `most` and `overlap` by that threshold; without one, `effective`, the effective
        number of latents for a class, `varying`, how many latents vary at all, and
        `effective_share`, the first as a share of the second
    """
    means = mean_magnitudes(run, factor=factor)
    active = active_latents(means, share)
    each = active.mean(1)
    varying = varying_latents(run)
    effective = effective_number(means[:, varying])
    return {
        "active": float(each.mean()),
        "most": float(each.max()),
        "overlap": mean_overlap(active),
        "effective": effective,
        "varying": float(varying.sum()),
        "effective_share": effective / max(1, int(varying.sum())),
    }


def varying_latents(run: TrainedRun, *, seed: int = 0) -> NDArray[np.bool_]:
    """Return (D,) the latents whose code varies between examples, by more than 0.01 in variance."""
    order = np.random.default_rng(seed).permutation(len(run.data))[:MAX_EXAMPLES]
    return encode_at(run.model, run.data, order).var(0) > MIN_VARIANCE


def effective_number(means: Means) -> float:
    """Return exp of the entropy of the shares of latents in (L, D) means; mean over classes.

    >>> round(effective_number(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0]])), 6)
    1.5
    """
    seen = means[means.sum(1) > 0]
    if not seen.size:
        return 0.0
    p = seen / seen.sum(1, keepdims=True)
    logs = np.log(np.where(p > 0, p, 1))
    return float(np.exp(-(p * logs).sum(1)).mean())


@measure
def strokes(run: TrainedRun, *, samples: int = 2_000, seed: int = 0) -> dict[str, float]:
    """How crisp samples of two digits are, and how much the slant of the ones varies.

    `grey` is the `greyness` of samples, `data_grey` that of data and `grey_gap` how far the two are
    apart. `imbalance` is how far the share of ones is from a half, in percent, by a linear
    classifier of the data. `slant` is the standard deviation of the slant of samples that it takes
    for ones, `data_slant` that of the data's own.
    """
    from untwine.metrics.class_shares import class_probabilities

    data, factors = run.data, run.data.factors
    if factors is None or factors.sizes[0] != 2:
        raise DataError("strokes need data of two classes")
    order = np.random.default_rng(seed).permutation(len(data))[:MAX_EXAMPLES]
    real, level = data.take(order).numpy(), factors.levels_at(order)[:, 0]
    made = run.model.sample(samples, seed=seed).clamp(0, 1).numpy()
    (p,) = class_probabilities(real.reshape(len(real), -1), level, (made.reshape(samples, -1),))
    ones = made[p.argmax(1) == 1]
    grey, data_grey = float(greyness(made).mean()), float(greyness(real).mean())
    return {
        "grey": grey,
        "data_grey": data_grey,
        "grey_gap": abs(grey - data_grey),
        "imbalance": 100 * abs(len(ones) / samples - 0.5),
        "slant": float(slant(ones).std()) if len(ones) else 0.0,
        "data_slant": float(slant(real[level == 1]).std()),
    }


def mean_magnitudes(run: TrainedRun, *, factor: int = 0, seed: int = 0) -> Means:
    """Return (L, D) the mean |z| of each latent for each level of a factor; 0 for unseen levels."""
    factors = run.data.factors
    if factors is None:
        raise DataError("activity needs data with factors, which this has not")
    order = np.random.default_rng(seed).permutation(len(run.data))[:MAX_EXAMPLES]
    size = np.abs(encode_at(run.model, run.data, order))
    levels = factors.levels_at(order)[:, factor]
    means = [size[levels == level] for level in range(factors.sizes[factor])]
    return np.stack([m.mean(0) if len(m) else np.zeros(size.shape[1]) for m in means])


def active_latents(means: Means, share: float) -> NDArray[np.bool_]:
    """Return (L, D) the active latents: mean |z| above a share of the largest of the class.

    >>> active_latents(np.array([[1.0, 0.05, 0.2]]), 0.1).tolist()
    [[True, False, True]]
    """
    return means > share * means.max(1, keepdims=True)


def mean_overlap(active: NDArray[np.bool_]) -> float:
    """Return how far classes share latents: |both| / |either active|, mean over pairs of classes.

    >>> mean_overlap(np.array([[True, True, False], [False, True, True]]))
    0.3333333333333333
    """
    pairs = [(a & b).sum() / max(1, (a | b).sum()) for a, b in combinations(active, 2)]
    return float(np.mean(pairs)) if pairs else 1.0


@measure
def levels(run: TrainedRun, *, examples: int = 500, seed: int = 0) -> dict[str, float]:
    """The effect of resampling one level of a hierarchical code from the prior.

    Args:
        run: the run of a model whose mapping has levels.
        examples: number of images to change.
        seed: of the images, the draws and the classifier.

    Returns:
        `class by level i`, the share of images whose class changes, according to a classifier of
        the data, `pixels by level i`, the mean squared change, and `nats by level i`, the KL of its
        latents; level 0 is the top. `taking part` is the number of levels below the top with at
        least 0.1 nats; `lower class` and `lower pixels` are the means over these, missing if there
        are none.
    """
    from untwine.estimators.classifier import train_classifier
    from untwine.scoring.latents import run_latents

    model, data = run.model, run.data
    if data.factors is None or not hasattr(model.mapping, "levels"):
        raise DataError("levels need data with classes and a model whose code has levels")
    order = np.random.default_rng(seed).permutation(len(data))[:MAX_EXAMPLES]
    classifier = train_classifier(
        data.take(order).numpy(), data.factors.levels_at(order)[:, :1], seed
    )
    z = model.posterior_mean(data.take(order[:examples]))
    before = _decode(model, z)
    classes = classifier.predict(before)
    drawn = torch.randn(z.shape, generator=torch.Generator().manual_seed(seed))
    nats = run_latents(run).nats
    effects: dict[str, float] = {}
    for level, part in enumerate(level_slices(model)):
        changed = z.clone()
        changed[:, part] = drawn[:, part]
        after = _decode(model, changed)
        effects[f"class by level {level}"] = float((classifier.predict(after) != classes).mean())
        effects[f"pixels by level {level}"] = float(np.square(after - before).mean())
        effects[f"nats by level {level}"] = float(nats[part].sum())
    lower = range(1, len(level_slices(model)))
    used = [level for level in lower if effects[f"nats by level {level}"] >= MIN_LEVEL_NATS]
    effects["taking part"] = len(used)
    for kind in ("class", "pixels") if used else ():
        values = [effects[f"{kind} by level {level}"] for level in used]
        effects[f"lower {kind}"] = float(np.mean(values))
    return effects


def level_slices(model: VAE) -> list[slice]:
    """Return the latents of each level of a model's code."""
    ends = np.cumsum([0, *getattr(model.mapping, "levels", (model.sizes.latent,))]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


@torch.no_grad()
def _decode(model: VAE, z: Tensor) -> NDArray[np.float32]:
    """Return (B, *shape) the images of codes before the mapping."""
    return model.decode_latents(z).clamp(0, 1).numpy()


@measure
def proportions(
    run: TrainedRun, *, level: int = 0, factor: int = 0, examples: int = 5_000, seed: int = 0
) -> dict[str, float]:
    """The share of the prior that a clustered mapping gives to a level, and the true share.

    `learned` is read from the mapping, `true` from all examples. `error` is the distance between
    them, `start_error` that of the equal shares at the start of training. `agreement` is the share
    of examples in the cluster of their own level.
    """
    counts = count_clusters(run, factor, examples, seed)
    mapping, factors = run.model.mapping, run.data.factors
    assert isinstance(mapping, Clusters) and factors is not None
    learned = float(joint_shares(mapping.proportions())[cluster_of(counts, level)])
    levels = factors.levels_at(np.arange(len(run.data)))[:, factor]
    true = float((levels == level).mean())
    agreed = sum(counts[cluster_of(counts, k), k] for k in range(counts.shape[1]))
    return {
        "learned": learned,
        "true": true,
        "error": abs(learned - true),
        "start_error": abs(1 / len(counts) - true),
        "agreement": float(agreed / counts.sum()),
    }


@torch.no_grad()
def count_clusters(run: TrainedRun, factor: int, n: int, seed: int) -> CountTable:
    """Return (clusters, levels) counts of n examples by cluster and level."""
    data, model = run.data, run.model
    if data.factors is None or not isinstance(model.mapping, Clusters):
        raise IncompatibleError("proportions need a clustered mapping and data with factors")
    size, clusters = data.factors.sizes[factor], math.prod(model.mapping.clusters)
    if size != clusters:
        raise IncompatibleError(f"{clusters} clusters cannot each be one of {size} levels")
    index = data.sample_indices(n, np.random.default_rng(seed))
    counts = np.zeros((clusters, size), np.int64)
    np.add.at(
        counts,
        (model.assign(data.take(index)).numpy(), data.factors.levels_at(index)[:, factor]),
        1,
    )
    return counts


def cluster_of(counts: CountTable, level: int) -> int:
    """Return the cluster of a level in the one-to-one assignment that agrees with most examples.

    A level without examples gets the cluster left over.

    >>> cluster_of(np.array([[0, 9], [0, 1]]), 0)
    1
    """
    from scipy.optimize import linear_sum_assignment

    clusters, levels = linear_sum_assignment(counts, maximize=True)
    return int(clusters[levels == level][0])


def joint_shares(planes: list[Tensor]) -> NDArray[np.float64]:
    """Return (ΠK,) the share of each cluster from those of each plane, the last plane fastest.

    >>> joint_shares([torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])]).tolist()
    [0.125, 0.375, 0.125, 0.375]
    """
    total = torch.ones(1, dtype=torch.float64)
    for shares in planes:
        total = torch.outer(total, shares.double()).ravel()
    return total.numpy()
