"""Arrays of metrics: checks, and the split into training and test rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError

Codes = NDArray[np.floating]  # (N, D)
Levels = NDArray[np.int64]  # (N, K)
MAX_CODE = 1e32  # in magnitude: fits single precision, and its powers fit double
MAX_LEVEL = 2**53  # whole numbers up to here are exact in every type
MAX_SINGLE_CODE = 1e15  # whose sums of squares fit single precision; larger codes are widened


class Split(NamedTuple):
    """Training and test rows; levels are numbered from 0 without gaps."""

    codes: Codes
    factors: Levels
    test_codes: Codes
    test_factors: Levels
    columns: NDArray[np.int64]  # (K,) positions of these factors among all


def check_codes(codes: ArrayLike) -> Codes:
    """Return codes (N, D) as an array of floats, or raise an error that says what is wrong."""
    z = _check_real("codes", codes)
    if z.ndim != 2 or 0 in z.shape:
        raise DataError(f"codes must have shape (N, D), not {z.shape}")
    if len(z) < 2:
        raise DataError("a score needs at least 2 examples")
    if z.dtype.kind == "f" and not largest_code(z) > MAX_SINGLE_CODE:
        return z
    return z.astype(np.float64, copy=False)


def largest_code(codes: NDArray[Any]) -> float:
    """The largest magnitude of codes; refuse those that no score can be computed of.

    Everybody who takes codes asks this first. Compiled loops turn codes into places in memory, so
    NaN, infinity and numbers whose differences overflow must never reach them.

    >>> largest_code(np.array([[0.5], [-2.0]]))
    2.0
    """
    largest = max(float(codes.max(initial=0)), -float(codes.min(initial=0)))  # NaN stays NaN
    if not np.isfinite(largest):
        raise DataError("the codes hold NaN or infinity; find out where they come from first")
    if largest > MAX_CODE:
        raise DataError(f"the codes reach {largest:.3g}, beyond {MAX_CODE:g}; scale them first")
    return largest


def check(codes: ArrayLike, factors: ArrayLike) -> tuple[Codes, Levels]:
    """Return codes (N, D) and factors (N, K) as arrays, without factors that never change."""
    z, f = _check_both(codes, factors)
    return z, _number_levels(f[:, _changing(f)])


def split(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None,
    test_factors: ArrayLike | None,
    seed: int,
) -> Split:
    """Check the rows and split them into training and test rows.

    Without test rows, a third of the rows, chosen by the seed, is held out. Factors that never
    change in the training rows are left out.
    """
    z, f = _check_both(codes, factors)
    if (test_codes is None) != (test_factors is None):
        raise DataError("test codes and test factors come together; one of them is missing")
    if test_codes is None or test_factors is None:
        order = np.random.default_rng(seed).permutation(len(z))
        rows, held_out = order[: len(z) - len(z) // 3], order[len(z) - len(z) // 3 :]
        if len(z) < 6:
            raise DataError(f"{len(z)} examples are too few to hold a third back for testing")
        z, f, test_z, test_f = z[rows], f[rows], z[held_out], f[held_out]
    else:
        test_z, test_f = _check_both(test_codes, test_factors)
        if test_z.shape[1] != z.shape[1] or test_f.shape[1] != f.shape[1]:
            raise DataError(
                f"test rows have {test_z.shape[1]} latents and {test_f.shape[1]} factors, "
                f"the others {z.shape[1]} and {f.shape[1]}"
            )
    changing = _changing(f)
    numbered = _number_levels(np.concatenate([f, test_f])[:, changing])
    return Split(z, numbered[: len(f)], test_z, numbered[len(f) :], np.flatnonzero(changing))


def top_two(scores: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """(D, K) scores to the (K,) best and second best over latents; the second is 0 with one latent.

    >>> best, second = top_two(np.array([[1.0, 5.0], [3.0, 2.0], [2.0, 4.0]]))
    >>> best.tolist(), second.tolist()
    ([3.0, 5.0], [2.0, 4.0])
    """
    if len(scores) == 1:
        return scores[0], np.zeros_like(scores[0])
    ordered = np.partition(scores, (-2, -1), axis=0)
    return ordered[-1], ordered[-2]


def _check_both(codes: ArrayLike, factors: ArrayLike) -> tuple[Codes, Levels]:
    z, f = _check_real("codes", codes), _check_real("factors", factors)
    f = f[:, None] if f.ndim == 1 else f
    if z.ndim != 2 or f.ndim != 2 or len(z) != len(f) or 0 in z.shape or 0 in f.shape:
        raise DataError(
            "codes must have shape (N, D) and factors (N, K) with the same N, "
            f"not {z.shape} and {f.shape}"
        )
    if f.dtype.kind == "f" and not (np.isfinite(f).all() and (f == np.round(f)).all()):
        raise DataError("factors must be whole numbers, one per level")
    if max(abs(int(f.max())), abs(int(f.min()))) > MAX_LEVEL:
        raise DataError(f"levels of factors must be at most {MAX_LEVEL:,} in size; number them")
    return check_codes(z), f.astype(np.int64)


def _check_real(what: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(as_float64(values))
    except ValueError as error:
        raise DataError(f"{what} must be an array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be real numbers, not {array.dtype}")
    return array


def as_float64(values: Any) -> Any:
    """Detach a torch tensor, move it to the CPU and widen half precision; return the rest as is."""
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return values.float() if str(values.dtype) in {"torch.bfloat16", "torch.float16"} else values


def _changing(f: Levels) -> NDArray[np.bool_]:
    """(K,) whether each factor has more than one level."""
    changing = (f != f[:1]).any(0)
    if not changing.any():
        raise DataError("no factor has more than one level, so no score can be computed")
    return changing


def _number_levels(f: Levels) -> Levels:
    """Renumber levels from 0 without gaps."""
    return np.stack([_dense_levels(column) for column in f.T], axis=1)


def _dense_levels(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber one column; levels in a small range are marked instead of sorted."""
    low, high = int(column.min()), int(column.max())
    if high - low > max(len(column), 1000):
        return np.unique(column, return_inverse=True)[1].astype(np.int64)
    seen = np.zeros(high - low + 1, dtype=np.int64)
    seen[column - low] = 1
    return (np.cumsum(seen) - 1)[column - low]
