"""A model with its data that many threads may use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.latents import LatentStatistics, code_layout, measure_latents
from untwine.runs.directory import TrainedRun

MODEL_CHUNK = 32  # images computed while holding the lock
# Torch has one random number generator per process, so one lock serves all models.
TORCH_LOCK = threading.RLock()
Index = NDArray[np.int64]
Floats = NDArray[np.floating]


class SharedModel:
    """A model and its data, if any; every method may be called from any thread."""

    def __init__(self, trained: TrainedRun, data: Dataset | None) -> None:
        self.model, self.data, self.batch = trained.model, data, trained.spec.batch
        self.has_images = len(self.model.sizes.shape) == 3
        with TORCH_LOCK:
            self.model.eval()
            self.layout = code_layout(self.model)

    def take(self, index: Sequence[int] | Index) -> Tensor:
        """(B, *shape) examples, whose randomness depends on their index alone."""
        assert self.data, "examples are taken where there are some"
        with TORCH_LOCK:
            return self.data.take_repeatably(index)

    def encode(self, x: Tensor, companions: Callable[[int], Tensor]) -> Floats:
        """(D,) the code of one example (*shape).

        Where a batch is one group, the example is encoded in a batch of the run's batch size,
        filled with examples from `companions(n)`.
        """
        batch = x[None]
        if self.layout.whole_batch and self.batch > 1:
            batch = torch.cat([batch, companions(self.batch - 1)])
        with TORCH_LOCK:
            return self.model.posterior_mean(batch)[0].numpy()

    def decode(self, codes: Floats) -> Floats:
        """(B, *shape) decoded examples of codes (B, D); for many codes see `each_decoded`."""
        z = torch.from_numpy(np.ascontiguousarray(codes, np.float32))
        with TORCH_LOCK:
            return self.model.decode_latents(z).numpy()

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
            return self.model.assign(x).numpy()

    def measure(self, index: Index) -> LatentStatistics:
        """The codes, nats and clusters of examples."""
        return measure_latents(
            lambda _: self.model, self.take, index, batch=self.batch, lock=TORCH_LOCK
        )

    def measure_samples(self, n: int) -> LatentStatistics:
        """The same for n samples of the model itself, which says roughly how it codes its data."""
        x = torch.from_numpy(np.concatenate(list(self.each_decoded(self.sample_codes(n, 0)))))
        index = np.arange(n, dtype=np.int64)
        measured = measure_latents(
            lambda _: self.model, lambda some: x[some], index, batch=self.batch, lock=TORCH_LOCK
        )
        return replace(measured, exact=np.zeros_like(measured.exact))
