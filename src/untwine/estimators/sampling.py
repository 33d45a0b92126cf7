"""Batches that share the level of one factor: from existing rows, or fresh and encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import Codes, Levels, check, check_codes

Draws = Literal["rows", "fresh"]
Encoder = Callable[[NDArray[np.int64]], ArrayLike]  # levels (n, K) to codes (n, D)
SPREAD_EXAMPLES = 10_000  # fresh examples from which the spread of each latent is estimated
MAX_ROWS = 2**16  # codes in memory at a time


class RowSampler:
    """Draws batches from rows, with replacement; a batch can contain a row twice."""

    def __init__(self, codes: ArrayLike, factors: ArrayLike) -> None:
        self.codes, self._levels = check(codes, factors)
        self.factors = _check_factor_count(self._levels.shape[1])
        counts = [np.bincount(column) for column in self._levels.T]
        self._order = np.stack([_argsort(column) for column in self._levels.T])  # (K, N)
        self._counts = _pad(counts)  # (K, levels)
        self._starts = _pad([np.cumsum(count) - count for count in counts])

    def observations(self, rng: np.random.Generator) -> Codes:
        """(N, D) codes from which to estimate the spread of each latent: all rows."""
        return self.codes

    def sharing(self, fixed: NDArray[np.int64], batch: int, rng: np.random.Generator) -> Codes:
        """(V,) factors to (V, batch, D) codes: in batch v all rows have one level of fixed[v].

        The level is that of a random row.
        """
        level = self._levels[rng.integers(len(self.codes), size=len(fixed)), fixed]
        start, count = self._starts[fixed, level], self._counts[fixed, level]
        place = (rng.random((len(fixed), batch)) * count[:, None]).astype(np.int64)
        place += (start + fixed * len(self.codes))[:, None]
        return self.codes.take(self._order.take(place), axis=0)


class FreshSampler:
    """Draws batches of fresh examples: independent uniform levels, encoded by a function."""

    def __init__(self, encode: Encoder, sizes: ArrayLike) -> None:
        self._encode, self._sizes = encode, _check_sizes(sizes)
        self._changing = np.flatnonzero(self._sizes > 1)
        self.factors = _check_factor_count(len(self._changing))

    def observations(self, rng: np.random.Generator) -> Codes:
        """(n, D) codes from which to estimate the spread of each latent: fresh examples."""
        return self._codes(self._draw((SPREAD_EXAMPLES,), rng))

    def sharing(self, fixed: NDArray[np.int64], batch: int, rng: np.random.Generator) -> Codes:
        """(V,) factors to (V, batch, D) codes: in batch v all rows have one level of fixed[v]."""
        levels = self._draw((len(fixed), batch), rng)
        row, column = np.arange(len(fixed)), self._changing[fixed]
        levels[row, :, column] = levels[row, 0, column][:, None]
        codes = self._codes(levels.reshape(-1, len(self._sizes)))
        return codes.reshape(len(fixed), batch, -1)

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Levels:
        """(*shape, K) independent uniform levels."""
        return np.stack([rng.integers(size, size=shape) for size in self._sizes], axis=-1)

    def _codes(self, levels: Levels) -> Codes:
        codes = check_codes(self._encode(levels))
        if len(codes) != len(levels):
            raise DataError(f"the function gave {len(codes)} codes for {len(levels)} examples")
        return codes


Sampler = RowSampler | FreshSampler


def make_sampler(codes: ArrayLike | Encoder, factors: ArrayLike, draws: Draws) -> Sampler:
    """Return what draws the batches; `codes` is an array (N, D), or a function for fresh draws."""
    if callable(codes) and draws == "fresh":
        return FreshSampler(codes, factors)
    if callable(codes):
        raise DataError('a function for codes draws fresh examples; write draws="fresh" with it')
    if draws == "fresh":
        raise DataError(
            'draws="fresh" needs a function from levels (n, K) to codes (n, D) and the sizes of '
            'the factors; for an array of codes write draws="rows"'
        )
    return RowSampler(codes, factors)


def fixed_factors(
    source: Sampler, points: int, rows: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Draw the fixed factor of each point uniformly, in chunks of at most `MAX_ROWS` codes.

    Args:
        source: the sampler whose factors to draw from.
        points: number of points.
        rows: number of codes that a point needs.
        rng: source of random numbers.
    """
    chunk = max(1, MAX_ROWS // rows)
    for start in range(0, points, chunk):
        yield rng.integers(source.factors, size=min(chunk, points - start))


def pair_differences(
    source: Sampler, points: int, pairs: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(P, D) mean distances of pairs that share the level of a factor, and (P,) which factor.

    x = 1/L Σ_l |z_l − z'_l|, where z_l and z'_l share the level of factor y and nothing else.
    """
    parts = [
        (_mean_difference(source.sharing(y.repeat(pairs), 2, rng), pairs), y)
        for y in fixed_factors(source, points, 2 * pairs, rng)
    ]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def _mean_difference(z: Codes, pairs: int) -> NDArray[np.float64]:
    """(P * pairs, 2, D) codes to (P, D)."""
    distances = np.abs(z[:, 0] - z[:, 1]).reshape(-1, pairs, z.shape[-1])
    return distances.mean(1, dtype=np.float64)


def _argsort(column: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
    """Sort rows by level; few levels fit a small type, which is sorted in linear time."""
    order = np.argsort(column.astype(np.min_scalar_type(column.max())), kind="stable")
    return order.astype(np.min_scalar_type(len(column)))


def _pad(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Stack columns of unequal length as the rows of one array, padded with 0."""
    padded = np.zeros((len(columns), max(map(len, columns))), dtype=np.int64)
    for row, column in zip(padded, columns, strict=True):
        row[: len(column)] = column
    return padded


def _check_sizes(sizes: ArrayLike) -> NDArray[np.int64]:
    numbers = np.asarray(sizes)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers < 1).any():
        raise DataError(
            "with a function for codes, factors must be the sizes of the factors: whole numbers "
            f"(K,) of at least 1, not {numbers.dtype} of shape {numbers.shape}"
        )
    return numbers.astype(np.int64)


def _check_factor_count(factors: int) -> int:
    if factors < 2:
        raise DataError(
            "this score asks which factor was held fixed, so it needs at least 2 factors with more "
            "than one level"
        )
    return factors
