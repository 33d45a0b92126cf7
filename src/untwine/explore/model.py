"""A model with its data that many threads may use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.latents import LatentStatistics, code_layout, measure_latents
from untwine.parts.labels import levels_of
from untwine.runs.directory import TrainedRun

MODEL_CHUNK = 32  # images computed while holding the lock
# Torch has one random number generator per process, so one lock serves all models.
TORCH_LOCK = threading.RLock()
Index = NDArray[np.int64]
Floats = NDArray[np.floating]


class SharedModel:
    """A model and its data, if any; every method may be called from any thread.

    A code (D,) of a conditional model may have the levels of its F labels at its end; without them
    it is decoded with the first level of each.
    """

    def __init__(self, trained: TrainedRun, data: Dataset | None) -> None:
        self.model, self.data, self.batch = trained.model, data, trained.spec.batch
        self.has_images = len(self.model.sizes.shape) == 3
        self.labels = self.model.labels
        self.used_at = 0.0  # when someone last waited for a decoded example
        with TORCH_LOCK:
            self.model.eval()
            self.layout = code_layout(self.model)

    def take(self, index: Sequence[int] | Index) -> Tensor:
        """(B, *shape) examples, whose randomness depends on their index alone."""
        assert self.data, "examples are taken where there are some"
        with TORCH_LOCK:
            return self.data.take_repeatably(index)

    def add_labels(self, codes: Floats, index: Sequence[int] | Index) -> Floats:
        """(N, D + F) codes of examples with their labels; codes alone where there are no labels."""
        if not self.labels or self.data is None:
            return codes
        return np.concatenate([codes, self.levels(index).astype(codes.dtype)], 1)

    def levels(self, index: Sequence[int] | Index) -> Index:
        """(N, F) the levels of the labels of examples."""
        assert self.data, "labels are those of examples"
        return levels_of(self.labels, self.data, np.asarray(index))

    def encode(
        self, x: Tensor, companions: Callable[[int], Index], levels: Sequence[int] = ()
    ) -> Floats:
        """(D + F,) the code of one example (*shape) with these levels of its labels.

        Where a batch is one group, the example is encoded in a batch of the run's batch size,
        filled with the examples at the positions `companions(n)`, each with its own labels.
        """
        batch, rows = x[None], np.array([levels], np.int64)
        if self.layout.whole_batch and self.batch > 1:
            others = companions(self.batch - 1)
            batch = torch.cat([batch, self.take(others)])
            rows = np.concatenate([rows, self.levels(others)]) if self.labels else rows
        model = self.model
        if self.labels:
            model = model.given(dict(zip(self.labels, rows.T, strict=True)))
        with TORCH_LOCK:
            code = model.posterior_mean(batch)[0].numpy()
        return np.concatenate([code, np.array(levels, code.dtype)])

    def decode(self, codes: Floats) -> Floats:
        """(B, *shape) decoded examples of codes (B, D); for many codes see `each_decoded`."""
        self.used_at = time.monotonic()
        codes, model = np.ascontiguousarray(codes, np.float32), self.model.given_in_turn()
        latents = len(self.layout.parts)
        if codes.shape[1] > latents:
            levels = codes[:, latents:].round().astype(np.int64).T
            model = self.model.given(dict(zip(self.labels, levels, strict=True)))
        z = torch.from_numpy(np.ascontiguousarray(codes[:, :latents]))
        with TORCH_LOCK:
            return model.decode_latents(z).numpy()

    def each_decoded(self, codes: Floats) -> Iterator[Floats]:
        """Decode in chunks, releasing the lock between them."""
        for start in range(0, len(codes), MODEL_CHUNK):
            yield self.decode(codes[start : start + MODEL_CHUNK])

    def each_taken(self, index: Index) -> Iterator[Tensor]:
        """Take examples in chunks, releasing the lock between them."""
        for start in range(0, len(index), MODEL_CHUNK):
            yield self.take(index[start : start + MODEL_CHUNK])

    def sample_codes(self, n: int, seed: int) -> Floats:
        """(n, D) codes from the model's prior."""
        with TORCH_LOCK:
            return self.model.sample_latents(n, seed=seed).numpy()

    def assign(self, x: Tensor) -> Index:
        """(B,) the cluster of each example, for a model with clusters."""
        with TORCH_LOCK:
            return self.model.given_in_turn().assign(x).numpy()

    def measure(self, index: Index) -> LatentStatistics:
        """The codes, nats and clusters of examples."""
        assert self.data, "examples are measured where there are some"
        model_for = partial(self.model.given_data, self.data)
        return measure_latents(model_for, self.take, index, batch=self.batch, lock=TORCH_LOCK)

    def measure_samples(self, n: int) -> LatentStatistics:
        """The same for n samples of the model itself, which says roughly how it codes its data."""
        x = torch.from_numpy(np.concatenate(list(self.each_decoded(self.sample_codes(n, 0)))))
        index = np.arange(n, dtype=np.int64)
        measured = measure_latents(
            lambda _: self.model.given_in_turn(),
            lambda some: x[some],
            index,
            batch=self.batch,
            lock=TORCH_LOCK,
        )
        return replace(measured, exact=np.zeros_like(measured.exact))
