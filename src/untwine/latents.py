"""How much each latent says, and to which cluster an example belongs.

Reports, the explorer, the exhibits and saved models all use this module, so that they agree.

A latent is one dimension of the code z, before the mapping: what a slider moves. How much it says
is its mean KL to the prior in nats, which is exact where posterior and prior are Gaussian.
Elsewhere (a flow, a mixture) the KL does not fall into one number per latent, and the information
of a Gaussian channel with the same signal and noise is an estimate:
½ log(1 + variance of the mean / variance given the example).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.distributions import Gaussian
from untwine.errors import DataError
from untwine.records import Batch, Latent, LatentProfile
from untwine.tools.compute import eval_mode, seeded
from untwine.vae import VAE

SAMPLE_SIZE = 1000  # examples from which the latents of a model are described
MAX_PIXELS = 2**26  # of all these examples
CHUNK = 32  # examples encoded at a time, unless they must be encoded in batches as in training
CENTRAL_SHARE = 0.97  # of the codes, between the low and the high end of a latent

Floats = NDArray[np.floating]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class CodeLayout:
    """What the dimensions of a code are."""

    parts: tuple[str, ...]  # (D,) the latent variable that each belongs to
    shared: int  # how many, at the end, a group shares
    whole_batch: bool  # whether all examples of a batch are one group, whatever the data says
    clusters: int  # 0 for none


@dataclass(frozen=True)
class LatentStatistics:
    """What a model says of a sample of N examples."""

    codes: Floats  # (N, D) posterior means z
    nats: Floats  # (D,) how much each latent says
    exact: NDArray[np.bool_]  # (D,) whether that is the mean KL, or an estimate
    clusters: Index | None  # (N,) for a model that has them


def sample_examples(data: Dataset, n: int = SAMPLE_SIZE, seed: int = 0) -> Index:
    """Indices of at most n distinct examples, fewer where they would not fit in memory."""
    n = min(n, len(data), max(1, MAX_PIXELS // data.shape.numel()))
    return np.random.default_rng(seed).choice(len(data), n, replace=False).astype(np.int64)


def profile_latents(model: VAE, data: Dataset, *, batch: int) -> tuple[LatentProfile, ...]:
    """The nats, mean, deviation and range of every latent on a sample of the data.

    Empty if the codes are not finite.
    """
    try:
        measured = measure_sample(model, data, batch=batch)
    except DataError:
        return ()
    return summarise_latents(measured)


def measure_sample(model: VAE, data: Dataset, *, batch: int) -> LatentStatistics:
    """What a model says of the sample of the data by which its latents are described."""
    model_for, index = partial(model.given_data, data), sample_examples(data)
    return measure_latents(model_for, data.take_repeatably, index, batch=batch)


def summarise_latents(measured: LatentStatistics) -> tuple[LatentProfile, ...]:
    """The nats, mean, deviation and range of every latent on a sample."""
    columns = zip(
        measured.nats,
        measured.exact,
        measured.codes.mean(0, dtype=np.float64),
        measured.codes.std(0, dtype=np.float64),
        *central_range(measured.codes),
        strict=True,
    )
    return tuple(
        LatentProfile(float(nats), bool(exact), *map(float, numbers))
        for nats, exact, *numbers in columns
    )


def central_range(codes: Floats) -> tuple[Floats, Floats]:
    """(D,) the ends of the central 97 % of codes (N, D)."""
    tail = (1 - CENTRAL_SHARE) / 2
    low, high = np.quantile(codes, (tail, 1 - tail), axis=0)
    return low, high


def code_layout(model: VAE) -> CodeLayout:
    """What the dimensions of a model's code are, found with two examples without groups."""
    model = model.given_in_turn()
    inferred = model.infer_means(torch.zeros(2, *model.sizes.shape))
    latents, weights = _feeding_decoder(inferred.latents), model.cluster_weights(inferred)
    widths = {name: latent.draw.mean.shape[-1] for name, latent in latents.items()}
    rows = {name: latent.rows for name, latent in latents.items() if latent.rows is not None}
    clusters = 0 if weights is None else weights.shape[-1]
    return CodeLayout(
        tuple(name for name, width in widths.items() for _ in range(width)),
        sum(widths[name] for name in rows),
        any(bool((row == row[0]).all()) for row in rows.values()),
        clusters if clusters > 1 else 0,
    )


def measure_latents(
    model_for: Callable[[Index], VAE],
    take: Callable[[Index], Tensor],
    index: Index,
    *,
    batch: int,
    lock: contextlib.AbstractContextManager[Any] | None = None,
) -> LatentStatistics:
    """What a model says of the examples at these positions.

    Args:
        model_for: gives the model, on the CPU, for the examples at some positions.
        take: gives the examples at some positions.
        index: (N,) positions.
        batch: the size of the batches the model was trained on, which counts where all examples of
            a batch share latents; other models encode small chunks.
        lock: held while a chunk is computed, so that others have their turn between chunks.
    """
    lock = lock or contextlib.nullcontext()
    with lock:
        whole_batch = code_layout(model_for(index[:1])).whole_batch
    size = min(len(index), batch if whole_batch else CHUNK)
    parts: list[BatchStatistics] = []
    for start in range(0, len(index), size):
        # Where the other examples of a batch count, all batches are of one size.
        first = min(start, len(index) - size) if whole_batch else start
        rows = index[first : first + size]
        model = model_for(rows)
        x = model.as_batch(take(rows))
        with lock, seeded(start):
            parts.append(batch_statistics(model, x).without_first(start - first))
    return combine(parts)


@dataclass(frozen=True)
class BatchStatistics:
    """What a model says of the B examples of one batch."""

    codes: Floats  # (B, D) posterior means z
    kl: Floats  # (B, D) KL to the prior; NaN where it does not fall into a number per latent
    first: Floats  # (B, D) an estimate of the posterior's mean, and
    second: Floats  # (B, D) another, with independent noise
    noise: Floats  # (B, D) the posterior's variance
    clusters: Index | None  # (B,)

    def without_first(self, n: int) -> BatchStatistics:
        """The same without its first n examples."""
        return BatchStatistics(
            self.codes[n:],
            self.kl[n:],
            self.first[n:],
            self.second[n:],
            self.noise[n:],
            None if self.clusters is None else self.clusters[n:],
        )


@torch.no_grad()
def batch_statistics(model: VAE, batch: Batch) -> BatchStatistics:
    """What a model says of a batch; draws from torch's random numbers where it needs samples."""
    with eval_mode(model):
        features = model.features(batch.x)
        inferred = model.infer(batch, mean=True, features=features)
        latents = _feeding_decoder(inferred.latents)
        again = latents
        if any(not isinstance(latent.draw.q, Gaussian) for latent in latents.values()):
            again = model.infer(batch, mean=True, features=features).latents
        weights = model.cluster_weights(inferred)
    channels = [_channel(latent, again[name]) for name, latent in latents.items()]
    first, second, noise = (
        torch.cat(values, -1).cpu().numpy() for values in zip(*channels, strict=True)
    )
    return BatchStatistics(
        inferred.z.cpu().numpy(),
        torch.cat([_kl(latent) for latent in latents.values()], -1).cpu().numpy(),
        first,
        second,
        noise,
        None if weights is None else weights.argmax(-1).cpu().numpy(),
    )


def combine(parts: Sequence[BatchStatistics]) -> LatentStatistics:
    """The statistics of a sample from those of its batches."""
    codes = np.concatenate([part.codes for part in parts])
    first, second, noise, kl = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("first", "second", "noise", "kl")
    )
    with np.errstate(over="ignore", invalid="ignore"):
        signal = ((first - first.mean(0)) * (second - second.mean(0))).mean(0)
        channel = np.log1p(np.maximum(signal, 0) / (noise.mean(0) + 1e-12)) / 2
        mean_kl = kl.mean(0, dtype=np.float64)
    exact = ~np.isnan(mean_kl)
    nats = np.where(exact, mean_kl, channel)
    if not (np.isfinite(codes).all() and np.isfinite(nats).all()):
        raise DataError(
            "the codes hold NaN or infinity, or their KL overflows; find out where they come from "
            "first"
        )
    clusters = [part.clusters for part in parts if part.clusters is not None]
    return LatentStatistics(codes, nats, exact, np.concatenate(clusters) if clusters else None)


def _feeding_decoder(latents: Mapping[str, Latent]) -> dict[str, Latent]:
    return {name: latent for name, latent in latents.items() if latent.feeds_decoder}


def _channel(latent: Latent, again: Latent) -> tuple[Tensor, Tensor, Tensor]:
    """(B, D) two estimates of the posterior's mean, and its variance; from samples if need be."""
    q = latent.draw.q
    if isinstance(q, Gaussian):
        variance = q.variance if latent.rows is None else q.variance[latent.rows]
        mean = latent.per_example(mean=True)
        return mean, mean, variance
    first, second = latent.per_example(), again.per_example()
    return first, second, (first - second).square() / 2


def _kl(latent: Latent) -> Tensor:
    """(B, D) the KL of each dimension of a latent variable; NaN where it is not known."""
    q, p = latent.draw.q, latent.p
    if not isinstance(q, Gaussian) or not isinstance(p, Gaussian):
        return torch.full_like(latent.per_example(mean=True), torch.nan)
    kl = q.kl_per_dim(p)
    return kl if latent.rows is None else kl[latent.rows]
