"""What a model says of every example: measured in the background, in chunks, and kept on disk."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.cache import cache_directory, cached_arrays, read_arrays
from untwine.errors import DataError, RunError, UntwineError
from untwine.explore.model import TORCH_LOCK, Index, SharedModel
from untwine.latents import LatentStatistics
from untwine.scoring.codes import CHUNK, DRAWS, measure_of
from untwine.tools.compute import derive_seed, seeded
from untwine.tools.files import sha256

Measure = Literal["log_likelihood", "kl", "error", "distance"]
MEASURES: Final[tuple[Measure, ...]] = ("log_likelihood", "kl", "error", "distance")
N_AT_ONCE = 10_000  # examples measured without being asked; more are measured on request
PAUSE = 0.2  # seconds without a request after which measuring goes on
N_WAITS, WAIT = 400, 0.05  # seconds for the first examples
THREAD_NAME = "measuring"
CACHE_VERSION = 1  # of what is kept on disk


class Measures:
    """The likelihood, KL, error and distance of examples; NaN where they are not measured yet.

    Errors are mean squared ones. The distance is that of a code from the mean of all codes. Where
    examples of a batch share latents, the sample alone is measured, and it has no likelihoods.

    Args:
        model: with its data.
        sample: the examples to measure first.
        statistics: the codes of the sample.
        key: what the numbers depend on; empty if they are not to be kept on disk.
    """

    def __init__(
        self, model: SharedModel, sample: Index, statistics: LatentStatistics, key: str = ""
    ) -> None:
        assert model.data, "examples are measured where there are some"
        n = len(model.data)
        self.model, self.data, self.key = model, model.data, key
        self._sample_codes = statistics.codes
        self.values: dict[Measure, NDArray[np.float32]] = {
            name: np.full(n, np.nan, np.float32) for name in MEASURES
        }
        self.order = sample if model.layout.shared else _measuring_order(n, sample)
        self.total = len(self.order)
        self.target = min(N_AT_ONCE, self.total)
        self.done, self.problem = 0, ""
        self._seconds, self._newly = 0.0, 0
        self._lock, self._thread = threading.Lock(), None
        self._read()

    @property
    def is_running(self) -> bool:
        return self.done < self.target and not self.problem

    @property
    def seconds_left(self) -> float | None:
        """An estimate for the examples that are to be measured; None before the first chunk."""
        if not self.is_running or not self._seconds:
            return None
        return self._seconds / max(1, self._newly) * (self.target - self.done)

    def start(self, *, everything: bool = False) -> None:
        """Measure in the background: the first examples, or all of them."""
        with self._lock:
            if everything:
                self.target = self.total
            if self.is_running and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._work, name=THREAD_NAME, daemon=True)
                self._thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """Measure, and wait until it is done."""
        self.start()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def wait_for_some(self) -> None:
        """Start measuring, and wait until something can be shown."""
        self.start()
        for _ in range(N_WAITS):
            if self.done or not self.is_running:
                return
            time.sleep(WAIT)

    def _work(self) -> None:
        try:
            self._measure_all()
            self._write()
        except UntwineError as error:
            self.problem = str(error)

    def _measure_all(self) -> None:
        measure = measure_of(bool(self.model.layout.shared), DRAWS)
        centre = self._centre()
        while self.done < self.target:
            while (
                time.monotonic() - self.model.used_at < PAUSE
            ):  # whoever moves a slider goes first
                time.sleep(PAUSE / 4)
            began = time.monotonic()
            index = self.order[self.done : min(self.done + CHUNK, self.target)]
            if self.model.layout.shared:
                columns = {"error": self._errors(self.done, index)}
                codes = self._sample_codes[self.done : self.done + len(index)]
            else:
                with TORCH_LOCK, seeded(derive_seed(0, self.done)):
                    model = self.model.model.given_data(self.data, index)
                    columns = measure(model, self.model.take(index))
                codes = np.stack([v for k, v in columns.items() if k[0] == "z"], 1)
            for name in ("log_likelihood", "kl", "error"):
                if name in columns:
                    self.values[name][index] = columns[name]
            self.values["distance"][index] = np.sqrt(((codes - centre) ** 2).sum(1))
            self.done, self._newly = self.done + len(index), self._newly + len(index)
            self._seconds += time.monotonic() - began
            time.sleep(0.001)  # lets a waiting thread take the lock

    def _errors(self, start: int, index: Index) -> NDArray[np.float32]:
        """(B,) mean squared errors of reconstructions from the codes of the sample."""
        codes = self.model.add_labels(self._sample_codes[start : start + len(index)], index)
        decoded = self.model.decode(codes)
        gaps = (decoded - self.model.take(index).numpy()).reshape(len(index), -1)
        return (gaps**2).mean(1)

    def _centre(self) -> NDArray[np.floating]:
        """(D,) the mean code of the sample, as the decoder sees it."""
        if self.model.layout.shared:
            return self._sample_codes.mean(0)
        with TORCH_LOCK:
            codes = torch.from_numpy(np.ascontiguousarray(self._sample_codes, np.float32))
            return self.model.model.map_latents(codes).cpu().numpy().mean(0)

    # On disk

    @property
    def _folder(self) -> str:
        content = json.dumps([CACHE_VERSION, self.key, self.target, CHUNK, DRAWS])
        return sha256(content.encode())[:16]

    def _read(self) -> None:
        """Take numbers that were measured before."""
        if not self.key:
            return
        with contextlib.suppress(RunError, OSError):
            arrays = read_arrays(cache_directory() / f"measured-{self._folder}")
            if all(arrays[name].shape == self.values[name].shape for name in MEASURES):
                self.values = {name: np.array(arrays[name]) for name in MEASURES}
                self.done = self.target

    def _write(self) -> None:
        if self.key:  # a full or read-only disk costs time, not the numbers
            with contextlib.suppress(OSError, DataError):
                cached_arrays("measured", self._folder, lambda: {**self.values})


def _measuring_order(n: int, sample: Index) -> Index:
    """(n,) examples in the order of measuring: as they are, or the sample first, if there are many.

    >>> _measuring_order(3, np.array([2, 0])).tolist()
    [0, 1, 2]
    """
    if n <= N_AT_ONCE:
        return np.arange(n, dtype=np.int64)
    rest = np.ones(n, bool)
    rest[sample] = False
    others = np.random.default_rng(0).permutation(np.flatnonzero(rest))
    return np.concatenate([sample, others]).astype(np.int64)
