"""A model with its data for many threads: what is computed of given examples and codes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data import mix
from untwine.models.mog_prior import FixedMixture
from untwine.parts.gaussian import Gaussian
from untwine.parts.latents import SingleLatent
from untwine.parts.mixture import Mixture
from untwine.records import Latent
from untwine.runs import Finished
from untwine.vae import VAE, evaluation, forked

CHUNK = 32  # images computed at a time, between which others have their turn
TINY = 1e-12

# Torch's random numbers are those of the whole process, so that one lock serves all models.
TORCH = threading.RLock()

Index = NDArray[np.int64]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Layout:
    """What the numbers of a code are."""

    parts: tuple[str, ...]  # (D,) the latent variable that each belongs to
    shared: int  # how many, at the end, a group shares
    together: bool  # whether all examples of a batch are one group, whatever the data says
    clusters: int  # 0 for none


@dataclass(frozen=True)
class Encoded:
    """What the model says of a sample."""

    codes: Floats  # (N, D)
    nats: Floats  # (D,)
    clusters: Index | None  # (N,)


class Handle:
    """A model and its data; every method may be called from any thread."""

    def __init__(self, finished: Finished) -> None:
        self.model, self.data, self.batch = finished.model, finished.data, finished.spec.batch
        self.image = len(self.data.shape) == 3
        with TORCH:
            self.model.eval()
            self.layout = _layout(self.model)

    def take(self, index: Sequence[int] | Index) -> Tensor:
        """(B, *shape) examples; what is random in one depends on its index alone."""
        index = np.asarray(index, np.int64)
        with TORCH, forked(0):
            before = torch.get_rng_state()
            found = self.data.take(index)
            if torch.equal(before, torch.get_rng_state()):
                return found
            return torch.cat([self._one(int(position)) for position in index])

    def _one(self, position: int) -> Tensor:
        torch.default_generator.manual_seed(mix(position))
        return self.data.take([position])

    def encode(self, x: Tensor, companions: Callable[[int], Tensor]) -> Floats:
        """(D,) the code of one example (*shape).

        Where a batch is one group, the example is encoded in a batch of the size of the run's,
        with as many others as `companions` is asked for.
        """
        batch = x[None]
        if self.layout.together and self.batch > 1:
            batch = torch.cat([batch, companions(self.batch - 1)])
        with TORCH:
            return self.model.codes(batch)[0].numpy()

    def decode(self, codes: Floats) -> Floats:
        """(B, *shape) the expected examples of codes (B, D); of many codes see `each_decoded`."""
        z = torch.from_numpy(np.ascontiguousarray(codes, np.float32))
        with TORCH, torch.no_grad():
            return self.model.decode(self.model.mapping(z)[0]).numpy()

    def each_decoded(self, codes: Floats) -> Iterator[Floats]:
        """The same in parts, between which others have their turn."""
        for start in range(0, len(codes), CHUNK):
            yield self.decode(codes[start : start + CHUNK])

    def each_taken(self, index: Index) -> Iterator[Tensor]:
        """Examples in parts, between which others have their turn."""
        for start in range(0, len(index), CHUNK):
            yield self.take(index[start : start + CHUNK])

    def draw(self, n: int, seed: int) -> Floats:
        """(n, D) codes from the model's own prior."""
        with TORCH, torch.no_grad(), evaluation(self.model), forked(seed):
            return self.model.latents.sample(n, self.model.encoder).numpy()

    def assign(self, x: Tensor) -> Index:
        """(B,) the cluster of each example, of a model that has them."""
        with TORCH, torch.no_grad(), evaluation(self.model), forked(0):
            _, latents, z = self.model.infer(self.model.given(x), mean=True)
            weights = cluster_weights(self.model, latents, z)
        assert weights is not None, "asked only of models with clusters"
        return weights.argmax(-1).numpy()

    def survey(self, index: Index) -> Encoded:
        """What the model says of many examples, in batches as it was trained on where they count.

        A latent's nats are its mean KL to the prior. Where that does not fall into a number for
        each latent (a flow, a mixture), they are those of a Gaussian channel with the same signal
        and noise, ½ log(1 + variance of the mean / variance given the example).
        """
        size = min(len(index), self.batch if self.layout.together else CHUNK)
        parts: list[_Part] = []
        for start in range(0, len(index), size):
            # Where others of a batch count, all are of one size.
            begin = min(start, len(index) - size) if self.layout.together else start
            parts.append(self._surveyed(index[begin : begin + size], start - begin, start))
        first, second = (np.concatenate([part.drawn[k] for part in parts]) for k in (0, 1))
        noise = np.concatenate([part.noise for part in parts]).mean(0)
        signal = ((first - first.mean(0)) * (second - second.mean(0))).mean(0)
        channel = np.log1p(np.maximum(signal, 0) / (noise + TINY)) / 2
        weights = [len(part.codes) for part in parts]
        exact = np.average([part.exact for part in parts], axis=0, weights=weights)
        clusters = [part.clusters for part in parts if part.clusters is not None]
        return Encoded(
            np.concatenate([part.codes for part in parts]),
            np.where(np.isnan(exact), channel, exact),
            np.concatenate(clusters) if clusters else None,
        )

    @torch.no_grad()
    def _surveyed(self, index: Index, skip: int, seed: int) -> _Part:
        x = self.model.given(self.take(index))
        with TORCH, evaluation(self.model), forked(seed):
            _, latents, z = self.model.infer(x, mean=True)
            again = self.model.infer(x, mean=True)[1] if _has_samples_only(latents) else latents
            weights = cluster_weights(self.model, latents, z)
        channels = [_channel(latents[name], again[name]) for name in _decoded(latents)]
        kinds = zip(*channels, strict=True)
        first, second, noise = (torch.cat(kind, -1).numpy()[skip:] for kind in kinds)
        return _Part(
            z.numpy()[skip:],
            (first, second),
            noise,
            torch.cat([_exact(latent) for latent in _decoded(latents).values()]).numpy(),
            None if weights is None else weights.argmax(-1).numpy()[skip:],
        )


@dataclass(frozen=True)
class _Part:
    """What is found of one batch."""

    codes: Floats  # (B, D)
    drawn: tuple[Floats, Floats]  # (B, D) two estimates of the posterior's mean
    noise: Floats  # (B, D) its variance
    exact: Floats  # (D,) mean KL where it is known of each latent, else NaN
    clusters: Index | None  # (B,)


def _decoded(latents: Mapping[str, Latent]) -> dict[str, Latent]:
    return {name: latent for name, latent in latents.items() if latent.decoded}


def _has_samples_only(latents: Mapping[str, Latent]) -> bool:
    """Whether of a decoded latent no Gaussian posterior is known."""
    return any(not isinstance(v.draw.q, Gaussian) for v in _decoded(latents).values())


def _channel(latent: Latent, again: Latent) -> tuple[Tensor, Tensor, Tensor]:
    """(B, D) twice the mean of the posterior and once its variance; from two samples if need be."""
    q = latent.draw.q
    if isinstance(q, Gaussian):
        variance = q.variance if latent.rows is None else q.variance[latent.rows]
        mean = latent.per_example(mean=True)
        return mean, mean, variance
    first, second = latent.per_example(), again.per_example()
    return first, second, (first - second).square() / 2


def _exact(latent: Latent) -> Tensor:
    """(D,) the mean KL of each number of a latent variable; NaN where it is not known."""
    q, p = latent.draw.q, latent.p
    if isinstance(q, Gaussian) and isinstance(p, Gaussian):
        return q.kl_per_dim(p).mean(0)
    return torch.full_like(latent.draw.mean[0], torch.nan)


def cluster_weights(model: VAE, latents: Mapping[str, Latent], z: Tensor) -> Tensor | None:
    """(B, K) how likely each cluster is, or nothing if the model has none.

    As `VAE.assign`, and of a prior with fixed clusters by Bayes' rule.
    """
    if "cluster" in latents:
        return latents["cluster"].draw.mean
    weights = model.mapping(z)[1].get("cluster")
    if weights is None and isinstance(model.latents, SingleLatent):
        p = latents["z"].p
        if isinstance(model.latents.prior, FixedMixture) and isinstance(p, Mixture):
            return p.log_each(z).softmax(-1)
    return weights


@torch.no_grad()
def _layout(model: VAE) -> Layout:
    """Found with two examples that are not given any group."""
    with evaluation(model), forked(0):
        _, latents, z = model.infer(model.given(torch.zeros(2, *model.sizes.shape)), mean=True)
        weights = cluster_weights(model, latents, z)
    decoded = _decoded(latents)
    widths = {name: latent.draw.mean.shape[-1] for name, latent in decoded.items()}
    in_groups = {name: latent.rows for name, latent in decoded.items() if latent.rows is not None}
    clusters = 0 if weights is None else weights.shape[-1]
    return Layout(
        tuple(name for name, width in widths.items() for _ in range(width)),
        sum(widths[name] for name in in_groups),
        any(bool((rows == rows[0]).all()) for rows in in_groups.values()),
        clusters if clusters > 1 else 0,
    )
