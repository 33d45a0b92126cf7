"""A dataset without some of its examples, or those examples alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors
from untwine.data.derived import (
    cell_numbers,
    column,
    open_dataset,
    open_with_factors,
    require_shuffled,
    subset,
)
from untwine.errors import DataError, ParameterError
from untwine.registry import dataset
from untwine.schema import Natural, OpenShare

ANY = -1  # level


def parse_combination(text: str, factors: Factors) -> dict[int, int]:
    """`shape=2+scale` as {factor: level}, −1 where no level is named.

    >>> parse_combination("shape=2+scale", Factors(("shape", "scale"), (3, 6)))
    {0: 2, 1: -1}
    """
    levels: dict[int, int] = {}
    for part in re.split(r"[+,]", text.strip(" ()[]")):
        name, equals, number = part.partition("=")
        k = column(factors, name)
        if k in levels:
            raise ParameterError(f"held-out.combination names {name.strip()} twice; name it once")
        levels[k] = _level(factors, k, number.strip()) if equals else ANY
    return levels


def _level(factors: Factors, k: int, text: str) -> int:
    if not re.fullmatch("[0-9]+", text) or int(text) >= factors.sizes[k]:
        raise ParameterError(
            f"held-out.combination: {factors.names[k]} has the levels 0 to "
            f"{factors.sizes[k] - 1}, not {text!r}"
        )
    return int(text)


def _select_combinations(
    combinations: NDArray[np.integer],
    wanted: dict[int, int],
    factors: Factors,
    share: float,
    seed: int,
) -> NDArray[np.integer]:
    """The combinations to hold out, among those that occur in the data."""
    sizes = tuple(factors.sizes[k] for k in wanted)
    parts = np.unravel_index(combinations, sizes)
    fits = [
        (part == level) | (level == ANY) for part, level in zip(parts, wanted.values(), strict=True)
    ]
    matching = combinations[np.all(fits, axis=0)]
    if ANY not in wanted.values():
        return matching
    n = max(1, round(share * len(matching))) if len(matching) else 0
    return np.random.default_rng(seed).choice(matching, n, replace=False)


@dataset(
    title="Held-out combinations or examples",
    paper="Montero et al., 2021",
    url="https://openreview.net/forum?id=qbH974jKUVy",
    licence="that of the dataset",
    citation="Montero, Ludwig, Ponte Costa, Malhotra, Bowers: The Role of Disentanglement in "
    "Generalisation. International Conference on Learning Representations, 2021",
)
def held_out(
    *,
    of: str = "sprites",
    combination: str = "shape=2+scale=5",
    examples: Natural = 0,
    part: Literal["train", "test", "both"] = "train",
    share: OpenShare = 0.2,
    seed: Natural = 0,
    digest: str = "",
) -> Dataset:
    """Leave combinations of factors out of training, to test on them (Montero et al., 2021).

    The examples with the combination are the test part and all others the train part; together
    they are the whole dataset. Factors keep their levels and sizes in both. Random examples can be
    left out instead, as in `held-out(of=celeba, examples=1000, part=both)`.

    Args:
        of: a dataset as in `untwine.dataset`, with its parameters, or a folder or file.
        combination: levels of factors that are held out where they meet, as in `shape=2+scale=5`.
            Where a factor has no level, as in `shape+scale`, a random share of all combinations of
            these factors is held out.
        examples: hold out this many random examples instead of a combination.
        part: `train` is what remains, `test` what is held out; `both` trains on the one and scores
            on the other.
        share: of the combinations that are held out, where a level is left open.
        seed: of the choice of combinations or examples.
        digest: of the files behind the data, filled in by a run.
    """
    if examples:
        data = open_dataset(of, digest)
        out = _select_examples(of, len(data), examples, seed)
    else:
        data, factors = open_with_factors(of, digest)
        wanted = parse_combination(combination, factors)
        cell = cell_numbers(data, factors, list(wanted))
        out = np.isin(cell, _select_combinations(np.unique(cell), wanted, factors, share, seed))
        if out.all() or not out.any():
            what = "every" if out.all() else "no"
            raise DataError(
                f"{what} example of {of} has {combination}, which leaves a part empty; "
                "name another combination"
            )
    require_shuffled(of, data)
    train, test = (subset(data, np.flatnonzero(out == held)) for held in (False, True))
    return {"train": train, "test": test, "both": replace(train, evaluation=test)}[part]


def _select_examples(of: str, n: int, examples: int, seed: int) -> NDArray[np.bool_]:
    """(n,) which examples are held out."""
    if examples >= n:
        raise ParameterError(
            f"held-out.examples must be below the {n} examples of {of}, not {examples}"
        )
    out = np.zeros(n, dtype=bool)
    out[np.random.default_rng(seed).permutation(n)[:examples]] = True
    return out
