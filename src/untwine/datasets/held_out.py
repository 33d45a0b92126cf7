"""A dataset without some combinations of its factors, or those combinations alone."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from untwine.data import Dataset, Factors
from untwine.datasets._derived import (
    cells,
    column,
    require_shuffled,
    subset,
    with_factors,
)
from untwine.errors import DataError, ParameterError
from untwine.registry import dataset
from untwine.schema import Natural, OpenShare

ANY = -1


def parse(text: str, factors: Factors) -> dict[int, int]:
    """`shape=2+scale` as {factor: level}, −1 where no level is named.

    >>> parse("shape=2+scale", Factors(("shape", "scale"), (3, 6)))
    {0: 2, 1: -1}
    """
    asked: dict[int, int] = {}
    for part in re.split(r"[+,]", text.strip(" ()[]")):
        name, equals, number = part.partition("=")
        k = column(factors, name)
        if k in asked:
            raise ParameterError(f"held-out.combination names {name.strip()} twice; name it once")
        asked[k] = _level(factors, k, number.strip()) if equals else ANY
    return asked


def _level(factors: Factors, k: int, text: str) -> int:
    if not re.fullmatch("[0-9]+", text) or int(text) >= factors.sizes[k]:
        raise ParameterError(
            f"held-out.combination: {factors.names[k]} has the levels 0 to "
            f"{factors.sizes[k] - 1}, not {text!r}"
        )
    return int(text)


def _chosen(
    found: NDArray[np.integer],
    asked: dict[int, int],
    factors: Factors,
    share: float,
    seed: int,
) -> NDArray[np.integer]:
    """Which of the combinations that the data has are held out."""
    sizes = tuple(factors.sizes[k] for k in asked)
    parts = np.unravel_index(found, sizes)
    fits = [
        (part == level) | (level == ANY) for part, level in zip(parts, asked.values(), strict=True)
    ]
    fitting = found[np.all(fits, axis=0)]
    if ANY not in asked.values():
        return fitting
    n = max(1, round(share * len(fitting))) if len(fitting) else 0
    return np.random.default_rng(seed).choice(fitting, n, replace=False)


@dataset(
    title="Held-out combinations",
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
    part: Literal["train", "test"] = "train",
    share: OpenShare = 0.2,
    seed: Natural = 0,
    digest: str = "",
) -> Dataset:
    """Leave combinations of factors out of training, to test on them (Montero et al., 2021).

    The examples with the combination are the test part and all others the train part; together
    they are the whole dataset. Factors keep their levels and sizes in both.

    Args:
        of: a dataset as in `untwine.dataset`, with its parameters, or a folder or file.
        combination: levels of factors that are held out where they meet, as in `shape=2+scale=5`.
            Where a factor has no level, as in `shape+scale`, a random share of all combinations of
            these factors is held out.
        part: `train` is what remains, `test` what is held out.
        share: of the combinations that are held out, where a level is left open.
        seed: of the choice of combinations.
        digest: of the files behind the data, filled in by a run.
    """
    data, factors = with_factors(of, digest)
    require_shuffled(of, data)
    asked = parse(combination, factors)
    cell = cells(data, factors, list(asked))
    out = np.isin(cell, _chosen(np.unique(cell), asked, factors, share, seed))
    if out.all() or not out.any():
        what = "every" if out.all() else "no"
        raise DataError(
            f"{what} example of {of} has {combination}, which leaves a part empty; "
            "name another combination"
        )
    return subset(data, np.flatnonzero(out == (part == "test")))
