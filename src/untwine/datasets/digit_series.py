"""Batches of digits that spell a series of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.data.derived import labels, open_dataset
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.tools.compute import derive_seed

LENGTH = 256  # digits of a stream


def fibonacci() -> Iterator[int]:
    """0, 1, 1, 2, 3, ..."""
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


def primes() -> Iterator[int]:
    """2, 3, 5, 7, ..."""
    smaller: list[int] = []
    for n in count(2):
        if all(n % p for p in smaller):
            smaller.append(n)
            yield n


SERIES: dict[str, Callable[[], Iterator[int]]] = {
    "even": partial(count, 0, 2),
    "odd": partial(count, 1, 2),
    "fibonacci": fibonacci,
    "primes": primes,
}


def digit_stream(kind: str, length: int = LENGTH) -> NDArray[np.int64]:
    """(length,) the digits of a series' numbers, written one after another.

    >>> digit_stream("even", 9).tolist()
    [0, 2, 4, 6, 8, 1, 0, 1, 2]
    """
    digits = (int(letter) for number in SERIES[kind]() for letter in str(number))
    return np.fromiter(islice(digits, length), np.int64, length)


def window(stream: NDArray[np.int64], start: int, length: int) -> NDArray[np.int64]:
    """(length,) digits of a stream from a start on; it wraps around at its end.

    >>> window(digit_stream("odd", 4), 3, 5).tolist()
    [7, 1, 3, 5, 7]
    """
    return stream[(start + np.arange(length)) % len(stream)]


class SeriesOrder:
    """Batches that each spell a window of a series, every digit by a random image of it."""

    def __init__(
        self, digit: NDArray[np.int64], kind: str, batch: int, seed: int, device: torch.device
    ) -> None:
        if batch < 1:
            raise DataError(f"a batch must have at least one example, not {batch}")
        self.stream = digit_stream(kind)
        self.batch, self.seed, self.device = batch, seed, device
        self.sorted = np.argsort(digit, kind="stable")
        self.count = np.bincount(digit, minlength=10)
        self.first = np.cumsum(self.count) - self.count

    def at(self, step: int) -> Tensor:
        """(batch,) positions."""
        rng = np.random.default_rng(derive_seed(self.seed, step))
        spelt = window(self.stream, int(rng.integers(len(self.stream))), self.batch)
        place = self.first[spelt] + rng.integers(self.count[spelt])
        return torch.from_numpy(self.sorted[place]).to(self.device)


@dataset(
    title="Digit series",
    paper="Peis et al., 2020",
    url="https://arxiv.org/abs/2012.08234",
    licence="that of the digits",
    citation="Peis, Olmos, Artés-Rodríguez, Unsupervised Learning of Global Factors in Deep "
    "Generative Models, arXiv:2012.08234, 2020",
    examples="60,000 of 1x28x28",
    factors=("digit",),
    standin="digits",
)
def digit_series(
    *,
    of: str = "mnist",
    kind: Literal["even", "odd", "fibonacci", "primes"] = "even",
    digest: str = "",
) -> Dataset:
    """Digits in batches that spell a series of numbers (Peis et al., 2020, supplement).

    The numbers of the series are written one after another, and the first 256 digits make a
    ring; a batch is a stretch of it from a random place on, each digit shown by a random image.
    What batches of one series have in common is how often each digit occurs. The paper takes
    batches of 128. Examples, factors and their positions are those of the digits.

    Args:
        of: the digits: mnist, mnist(split=test), digits.
        kind: even numbers from 0, odd numbers, Fibonacci numbers from 0, or primes.
        digest: of the files behind the digits, filled in by a run.
    """
    base = open_dataset(of, digest)
    _, _, digit = labels(base, of)
    missing = sorted({*digit_stream(kind).tolist()} - {*digit.tolist()})
    if missing:
        raise DataError(f"{of} has no image of the digit {missing[0]}, which the series needs")
    return replace(base, batch_order=partial(SeriesOrder, digit, kind))
