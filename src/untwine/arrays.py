"""Codes and factors from files that any program can write."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError
from untwine.representation import Rows


def read_rows(
    codes: Path,
    factors: Path | None = None,
    test_codes: Path | None = None,
    test_factors: Path | None = None,
    others: Sequence[Path] = (),
) -> Rows:
    """Codes and what is known about them; large files stay on disk until rows are taken."""
    if (test_codes is None) != (test_factors is None):
        raise DataError("--test-codes and --test-factors come together; give both or neither")
    if test_codes is not None and factors is None:
        raise DataError("rows to test on need factors to learn from; give FACTORS as well")
    if factors is None and _holds_both(codes):
        factors = codes
    rows = Rows(
        _read(codes, "codes"),
        None if factors is None else _read(factors, "factors"),
        None if test_codes is None else _read(test_codes, "codes"),
        None if test_factors is None else _read(test_factors, "factors"),
        tuple(_read(other, "codes") for other in others),
    )
    _same_length(codes, rows.codes, factors, rows.factors)
    _same_length(test_codes, rows.test_codes, test_factors, rows.test_factors)
    for path, other in zip(others, rows.others, strict=True):
        _same_length(codes, rows.codes, path, other)
    return rows


def _holds_both(path: Path) -> bool:
    """Whether one .npz has codes and factors."""
    if path.suffix.lower() != ".npz" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return {"codes.npy", "factors.npy"} <= set(archive.namelist())


def _read(path: Path, key: str) -> NDArray[Any]:
    """One array of a file, a column of numbers as (N, 1)."""
    if not path.is_file():
        raise DataError(f"there is no file at {path}")
    try:
        values = _load(path, key)
    except DataError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not an .npy, .npz or .csv file of plain numbers") from error
    if values.ndim not in (1, 2):
        raise DataError(f"{path} has shape {values.shape}; codes and factors are tables (N, D)")
    return values[:, None] if values.ndim == 1 else values


def _load(path: Path, key: str) -> NDArray[Any]:
    if path.suffix.lower() in {".csv", ".txt"}:
        with path.open() as stream:
            cells = stream.readline().strip().split(",")
        numbered = cells == [str(i) for i in range(len(cells))] and len(cells) > 1
        header = numbered or not all(map(_is_number, cells))
        return np.loadtxt(path, delimiter=",", skiprows=int(header), ndmin=2)
    loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    if len(loaded.files) == 1:
        return loaded[loaded.files[0]]
    if key not in loaded.files:
        raise DataError(f"{path} holds {', '.join(loaded.files)}; name one of them {key!r}")
    return loaded[key]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _same_length(
    first: Path | None, a: NDArray[Any] | None, second: Path | None, b: NDArray[Any] | None
) -> None:
    if a is not None and b is not None and len(a) != len(b):
        raise DataError(f"{first} has {len(a):,} rows and {second} {len(b):,}; they must agree")
