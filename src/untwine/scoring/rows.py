"""Codes and factors as arrays: read, subsampled, scored over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from untwine.data.incoming.arrays import open_arrays
from untwine.data.incoming.tables import read_numbers
from untwine.errors import DataError, UntwineError
from untwine.registry import Choice
from untwine.registry import metrics as metric_registry
from untwine.schema import MAX_REPEATS, require_count
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.scores import Scores, choose_metrics, compute, each_score, is_strict
from untwine.settings import Settings
from untwine.tools.deprecated import renamed_keywords
from untwine.tools.terminal import warn

if TYPE_CHECKING:
    from untwine.scoring.scores import Names

PICKLED = {".pt", ".pth", ".pkl", ".pickle", ".joblib"}


def read_rows(
    codes: Path,
    factors: Path | None = None,
    test_codes: Path | None = None,
    test_factors: Path | None = None,
    others: Sequence[Path] = (),
) -> CodeArrays:
    """Read codes and factors; large files stay on disk until rows are taken."""
    factors = factors or _factors_beside(codes)
    test_factors = test_factors or (test_codes and _factors_beside(test_codes))
    if (test_codes is None) != (test_factors is None):
        raise DataError("--test-codes and --test-factors come together; give both or neither")
    if test_codes is not None and factors is None:
        raise DataError("rows to test on need factors to learn from; give FACTORS as well")
    rows = CodeArrays(
        _read(codes, "codes"),
        None if factors is None else _read(factors, "factors"),
        None if test_codes is None else _read(test_codes, "codes"),
        None if test_factors is None else _read(test_factors, "factors"),
        tuple(_read(other, "codes") for other in others),
    )
    if factors is not None and rows.factors is not None:
        rows = replace(rows, unordered=_read_unordered(factors, rows.factors.shape[1]))
    _same_length(codes, rows.codes, factors, rows.factors)
    _same_length(test_codes, rows.test_codes, test_factors, rows.test_factors)
    for path, other in zip(others, rows.others, strict=True):
        _same_length(codes, rows.codes, path, other)
    return rows


def _factors_beside(codes: Path) -> Path | None:
    """The file of the factors, where one .npz has both."""
    if codes.suffix.lower() != ".npz":
        return None
    with open_arrays(codes) as arrays:
        return codes if "codes" in arrays and "factors" in arrays else None


def _read(path: Path, key: str) -> NDArray[Any]:
    """One array of a file, a column of numbers as (N, 1)."""
    if path.suffix.lower() in PICKLED:
        raise DataError(
            f"{path} is not read, as files of its kind can run code; save the array with np.save "
            "and give the .npy file"
        )
    if path.suffix.lower() in {".csv", ".txt"}:
        values = read_numbers(path)
    else:
        with open_arrays(path) as arrays:
            name = arrays.names[0] if len(arrays.names) == 1 else key
            if name not in arrays:
                names = ", ".join(arrays.names) or "no arrays"
                raise DataError(f"{path} holds {names}; name one of them {key!r}")
            values = arrays.map(name)
    if values.ndim not in (1, 2):
        raise DataError(f"{path} has shape {values.shape}; codes and factors are tables (N, D)")
    if values.dtype.kind not in "biuf":
        raise DataError(f"{path} must hold real numbers, not {values.dtype}")
    return values[:, None] if values.ndim == 1 else values


def _read_unordered(path: Path, count: int) -> tuple[int, ...]:
    """The positions, among so many factors, of those without an order, where an .npz names them."""
    if path.suffix.lower() != ".npz":
        return ()
    with open_arrays(path) as arrays:
        if "unordered" not in arrays:
            return ()
        positions = arrays.read("unordered")
    in_range = positions.dtype.kind in "iu" and bool(np.isin(positions, np.arange(count)).all())
    if positions.ndim != 1 or not in_range:
        raise DataError(f"unordered in {path} must hold positions of factors, 0 to {count - 1}")
    return tuple(positions.tolist())


def _same_length(
    first: Path | None, a: NDArray[Any] | None, second: Path | None, b: NDArray[Any] | None
) -> None:
    if a is not None and b is not None and len(a) != len(b):
        raise DataError(f"{first} has {len(a):,} rows and {second} {len(b):,}; they must agree")


MAX_ROWS = 15_000  # rows of an array that are scored: 10,000 to learn from and 5,000 to test on
N_SEEDS = 5


@renamed_keywords(names="metrics", most="n_examples")
def score_rows(
    rows: CodeArrays,
    metrics: Names = None,
    *,
    seeds: int = N_SEEDS,
    n_examples: int = MAX_ROWS,
    quiet: bool = True,
    settings: Iterable[str] = (),
) -> Scores:
    """Score codes from any library, with the standard deviation over seeds.

    The seed chooses the subsample of more than `n_examples` rows, the held-out rows, and the random
    numbers of a metric; deterministic metrics have no spread. The values are those of seed 0.

    Args:
        rows: codes, and what is known about them.
        metrics: names; every applicable metric by default, "all" for every variant too.
        seeds: number of seeds.
        n_examples: most rows to score.
        quiet: hide progress bars.
        settings: `NAME=VALUE` parameters of the metrics.
    """
    require_count("seeds", seeds, 1, MAX_REPEATS)
    choices = choose_metrics(metrics, rows, Settings.read(settings))
    subjects = [subsample_rows(rows, n_examples, seed) for seed in range(seeds)]
    scores = Scores()
    strict = is_strict(metrics)
    for choice, first in each_score(subjects[0], choices, strict=strict, quiet=quiet):
        again = list(_other_seeds(choice, subjects))
        scores[metric_registry.label(choice)] = replace(
            first, spread=_spread([first.values, *again])
        )
    return scores


def _other_seeds(choice: Choice, subjects: list[CodeArrays]) -> Iterator[dict[str, float]]:
    """The values of the other seeds; one whose rows are refused is skipped with a warning."""
    if _is_exact(choice, subjects):
        return
    for seed, other in enumerate(subjects[1:], 1):
        try:
            yield compute(other, _seeded(choice, seed))
        except UntwineError as error:
            warn(f"seed {seed} of {metric_registry.label(choice)} is skipped: {error}")


def _spread(values: list[dict[str, float]]) -> dict[str, float]:
    """The standard deviation of each value that every seed has."""
    always = [key for key in values[0] if all(key in other for other in values)]
    return {key: float(np.std([other[key] for other in values])) for key in always}


def _is_exact(choice: Choice, subjects: list[CodeArrays]) -> bool:
    """Whether nothing is left to a seed."""
    return "seed" not in choice.params and all(other is subjects[0] for other in subjects)


def _seeded(choice: Choice, seed: int) -> Choice:
    """The same metric with another seed, if it has one."""
    first = choice.params.get("seed")
    if not isinstance(first, int):
        return choice
    return replace(choice, params={**choice.params, "seed": first + seed})


def subsample_rows(rows: CodeArrays, most: int, seed: int) -> CodeArrays:
    """At most n random rows, a third of them to test on."""
    share = most if rows.test_codes is None else most - most // 3
    if len(rows.codes) <= share and (rows.test_codes is None or len(rows.test_codes) <= most // 3):
        return rows
    rng = np.random.default_rng(seed)
    train, test = _pick_rows(rows.codes, share, rng), _pick_rows(rows.test_codes, most // 3, rng)
    return CodeArrays(
        rows.codes[train],
        None if rows.factors is None else rows.factors[train],
        None if rows.test_codes is None else rows.test_codes[test],
        None if rows.test_factors is None else rows.test_factors[test],
        tuple(other[train] for other in rows.others),
        rows.unordered,
    )


def rows_used(rows: CodeArrays, most: int) -> tuple[int, int]:
    """The number of rows scored and the number of rows in all, test rows included."""
    used = subsample_rows(rows, most, 0)
    counts = [
        len(part.codes) + (0 if part.test_codes is None else len(part.test_codes))
        for part in (used, rows)
    ]
    return counts[0], counts[1]


def _pick_rows(
    values: NDArray[Any] | None, most: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Positions of at most so many random rows, in order."""
    n = 0 if values is None else len(values)
    return np.sort(rng.choice(n, size=min(n, most), replace=False))
