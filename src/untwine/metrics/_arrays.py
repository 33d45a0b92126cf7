"""What every metric does with its arrays first: check them, and hold rows back for testing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError

Codes = NDArray[np.floating]  # (N, D)
Levels = NDArray[np.int64]  # (N, K)


class Split(NamedTuple):
    """Rows to learn from and rows to test on; levels are numbered from 0 without gaps."""

    codes: Codes
    factors: Levels
    test_codes: Codes
    test_factors: Levels
    columns: NDArray[np.int64]  # (K,) which of the given factors these are


def check_codes(codes: ArrayLike) -> Codes:
    """Codes (N, D) as an array of floats, or a sentence about what is wrong with them."""
    z = _real("codes", codes)
    if z.ndim != 2 or 0 in z.shape:
        raise DataError(f"codes must have shape (N, D), not {z.shape}")
    if len(z) < 2:
        raise DataError("a score needs at least 2 examples")
    z = z if np.issubdtype(z.dtype, np.floating) else z.astype(np.float64)
    if not np.isfinite(z).all():
        raise DataError("the codes hold NaN or infinity; find out where they come from first")
    return z


def check(codes: ArrayLike, factors: ArrayLike) -> tuple[Codes, Levels]:
    """Codes (N, D) and factors (N, K) as arrays; factors that never change are left out."""
    z, f = _both(codes, factors)
    return z, _numbered(f[:, _changing(f)])


def split(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None,
    test_factors: ArrayLike | None,
    seed: int,
) -> Split:
    """Checked rows to learn from and to test on.

    Without rows to test on, a third of the given ones, chosen by the seed, is held back. Factors
    that never change in the rows to learn from are left out.
    """
    z, f = _both(codes, factors)
    if (test_codes is None) != (test_factors is None):
        raise DataError("test codes and test factors come together; one of them is missing")
    if test_codes is None or test_factors is None:
        order = np.random.default_rng(seed).permutation(len(z))
        rows, held = order[: len(z) - len(z) // 3], order[len(z) - len(z) // 3 :]
        if len(z) < 6:
            raise DataError(f"{len(z)} examples are too few to hold a third back for testing")
        z, f, test_z, test_f = z[rows], f[rows], z[held], f[held]
    else:
        test_z, test_f = _both(test_codes, test_factors)
        if test_z.shape[1] != z.shape[1] or test_f.shape[1] != f.shape[1]:
            raise DataError(
                f"test rows have {test_z.shape[1]} latents and {test_f.shape[1]} factors, "
                f"the others {z.shape[1]} and {f.shape[1]}"
            )
    kept = _changing(f)
    numbered = _numbered(np.concatenate([f, test_f])[:, kept])
    return Split(z, numbered[: len(f)], test_z, numbered[len(f) :], np.flatnonzero(kept))


def top_two(scores: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """(D, K) scores to the (K,) best and second best over latents; 0 where there is one latent.

    >>> best, second = top_two(np.array([[1.0, 5.0], [3.0, 2.0], [2.0, 4.0]]))
    >>> best.tolist(), second.tolist()
    ([3.0, 5.0], [2.0, 4.0])
    """
    if len(scores) == 1:
        return scores[0], np.zeros_like(scores[0])
    ordered = np.partition(scores, (-2, -1), axis=0)
    return ordered[-1], ordered[-2]


def _both(codes: ArrayLike, factors: ArrayLike) -> tuple[Codes, Levels]:
    z, f = _real("codes", codes), _real("factors", factors)
    f = f[:, None] if f.ndim == 1 else f
    if z.ndim != 2 or f.ndim != 2 or len(z) != len(f) or 0 in z.shape or 0 in f.shape:
        raise DataError(
            "codes must have shape (N, D) and factors (N, K) with the same N, "
            f"not {z.shape} and {f.shape}"
        )
    if f.dtype.kind == "f" and not (np.isfinite(f).all() and (f == np.round(f)).all()):
        raise DataError("factors must be whole numbers, one per level")
    return check_codes(z), f.astype(np.int64)


def _real(what: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(plain(values))
    except ValueError as error:
        raise DataError(f"{what} must be an array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be real numbers, not {array.dtype}")
    return array


def plain(values: Any) -> Any:
    """A torch tensor as one that NumPy takes, from any device, gradient and precision."""
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return values.float() if str(values.dtype) in {"torch.bfloat16", "torch.float16"} else values


def _changing(f: Levels) -> NDArray[np.bool_]:
    """(K,) which factors have more than one level."""
    changing = (f != f[:1]).any(0)
    if not changing.any():
        raise DataError("no factor has more than one level, so there is nothing to tell apart")
    return changing


def _numbered(f: Levels) -> Levels:
    """Levels renumbered from 0 without gaps."""
    return np.stack([_dense(column) for column in f.T], axis=1)


def _dense(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """One column renumbered; levels in a small range are marked instead of sorted."""
    low, high = int(column.min()), int(column.max())
    if high - low > max(len(column), 1000):
        return np.unique(column, return_inverse=True)[1].astype(np.int64)
    seen = np.zeros(high - low + 1, dtype=np.int64)
    seen[column - low] = 1
    return (np.cumsum(seen) - 1)[column - low]
