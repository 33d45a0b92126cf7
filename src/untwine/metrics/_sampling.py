"""Batches in which one factor is held fixed: from given rows, or drawn afresh and encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.metrics._arrays import Codes, Levels, check, check_codes

Draws = Literal["rows", "fresh"]
Encoder = Callable[[NDArray[np.int64]], ArrayLike]  # levels (n, K) to codes (n, D)

OBSERVATIONS = 10_000  # fresh examples that tell how far each latent spreads
MOST_ROWS = 2**16  # codes in memory at a time


class Rows:
    """Batches from given rows, with replacement; a row can meet itself in a batch."""

    def __init__(self, codes: ArrayLike, factors: ArrayLike) -> None:
        self.codes, self._levels = check(codes, factors)
        self.factors = _enough(self._levels.shape[1])
        counts = [np.bincount(column) for column in self._levels.T]
        self._order = np.stack([_argsort(column) for column in self._levels.T])  # (K, N)
        self._counts = _padded(counts)  # (K, levels)
        self._starts = _padded([np.cumsum(count) - count for count in counts])

    def observations(self, rng: np.random.Generator) -> Codes:
        """(n, D) codes that tell how far each latent spreads: all there are."""
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


class Fresh:
    """Batches of fresh examples: independent uniform levels, encoded by a function."""

    def __init__(self, encode: Encoder, sizes: ArrayLike) -> None:
        self._encode, self._sizes = encode, _sizes(sizes)
        self._changing = np.flatnonzero(self._sizes > 1)
        self.factors = _enough(len(self._changing))

    def observations(self, rng: np.random.Generator) -> Codes:
        """(n, D) codes that tell how far each latent spreads: of fresh examples."""
        return self._codes(self._draw((OBSERVATIONS,), rng))

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


Sampler = Rows | Fresh


def sampler(codes: ArrayLike | Encoder, factors: ArrayLike, draws: Draws) -> Sampler:
    """What draws the batches: `codes` is an array (N, D), or for fresh draws a function."""
    if callable(codes) and draws == "fresh":
        return Fresh(codes, factors)
    if callable(codes):
        raise DataError('a function for codes draws fresh examples; write draws="fresh" with it')
    if draws == "fresh":
        raise DataError(
            'draws="fresh" needs a function from levels (n, K) to codes (n, D) and the sizes of '
            'the factors; for codes of given rows write draws="rows"'
        )
    return Rows(codes, factors)


def chunks(
    source: Sampler, points: int, rows: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """The factor that is fixed at each point, uniform, in chunks of bounded size.

    Args:
        source: tells how many factors there are.
        points: how many to draw.
        rows: how many codes a point needs.
        rng: draws them.
    """
    most = max(1, MOST_ROWS // rows)
    for start in range(0, points, most):
        yield rng.integers(source.factors, size=min(most, points - start))


def differences(
    source: Sampler, points: int, pairs: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(P, D) mean distances of pairs that share the level of a factor, and (P,) which factor.

    x = 1/L Σ_l |z_l − z'_l|, where z_l and z'_l share the level of factor y and nothing else.
    """
    parts = [
        (_mean_difference(source.sharing(y.repeat(pairs), 2, rng), pairs), y)
        for y in chunks(source, points, 2 * pairs, rng)
    ]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def _mean_difference(z: Codes, pairs: int) -> NDArray[np.float64]:
    """(P * pairs, 2, D) codes to (P, D)."""
    distances = np.abs(z[:, 0] - z[:, 1]).reshape(-1, pairs, z.shape[-1])
    return distances.mean(1, dtype=np.float64)


def _argsort(column: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
    """Rows ordered by level; few levels fit a small type, which is sorted in linear time."""
    order = np.argsort(column.astype(np.min_scalar_type(column.max())), kind="stable")
    return order.astype(np.min_scalar_type(len(column)))


def _padded(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Columns of unequal length as the rows of one array."""
    padded = np.zeros((len(columns), max(map(len, columns))), dtype=np.int64)
    for row, column in zip(padded, columns, strict=True):
        row[: len(column)] = column
    return padded


def _sizes(sizes: ArrayLike) -> NDArray[np.int64]:
    numbers = np.asarray(sizes)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers < 1).any():
        raise DataError(
            "with a function for codes, factors must be the sizes of the factors: whole numbers "
            f"(K,) of at least 1, not {numbers.dtype} of shape {numbers.shape}"
        )
    return numbers.astype(np.int64)


def _enough(factors: int) -> int:
    if factors < 2:
        raise DataError(
            "this score asks which factor was held fixed, so it needs at least 2 factors with more "
            "than one level"
        )
    return factors
