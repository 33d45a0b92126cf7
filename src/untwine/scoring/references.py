"""Codes to compare with, and their scores: the same for every model on the same factors."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine import __version__
from untwine.data.cache import cache_directory
from untwine.errors import UntwineError
from untwine.registry import Choice
from untwine.registry import metrics as metric_registry
from untwine.scoring.arrays import CodeArrays
from untwine.tools.files import sha256
from untwine.tools.sealed import read_json, write_json

References = dict[str, dict[str, float]]  # by kind of code, then by name of value
MAX_FILES = 4096  # reference scores kept on disk; the oldest are deleted
_memory: dict[str, References] = {}


def reference_codes(
    factors: ArrayLike,
    test_factors: ArrayLike | None = None,
    *,
    unordered: Sequence[int] = (),
    seed: int = 0,
) -> dict[str, CodeArrays]:
    """Codes to compare with: the factors themselves, a rotation of them, and noise."""
    from untwine.estimators.arrays import (
        check,  # imports all metrics, which nothing else here needs
    )

    rng = np.random.default_rng(seed)
    n = len(np.asarray(factors))
    every = factors if test_factors is None else np.concatenate([factors, test_factors])
    _, f = check(every, every)
    standard = (f - f.mean(0)) / f.std(0)
    rotation = cosine_rotation(f.shape[1])
    codes = {
        "perfect": standard,
        "rotated": standard @ rotation,
        "random": rng.standard_normal(f.shape),
    }
    if f.shape[1] == 1:
        del codes["rotated"]  # one factor cannot be turned
    levels = np.asarray(every)
    if test_factors is None:
        return {kind: CodeArrays(z, levels, unordered=unordered) for kind, z in codes.items()}
    return {
        kind: CodeArrays(z[:n], levels[:n], z[n:], levels[n:], unordered=unordered)
        for kind, z in codes.items()
    }


def cosine_rotation(k: int) -> NDArray[np.float64]:
    """(k, k) an orthogonal matrix in which every axis has a part of every other.

    The cosine transform: a turn by 45 degrees for two factors.
    """
    at, of = np.meshgrid(np.arange(k) + 0.5, np.arange(k))
    return np.cos(np.pi * at * of / k) * np.where(of, np.sqrt(2 / k), np.sqrt(1 / k))


def reference_scores(
    choice: Choice,
    factors: ArrayLike,
    test: ArrayLike | None,
    compute: Callable[[CodeArrays, Choice], dict[str, float]],
    *,
    unordered: Sequence[int] = (),
) -> References:
    """What reference codes score, computed once for the same factors, metric and code.

    Scores are kept in memory and, below the cache directory, on disk.
    """
    rows = [np.asarray(part) for part in (factors, test) if part is not None]
    key = _key(choice, rows, unordered)
    if key not in _memory:
        path = cache_directory() / "references" / f"{key}.json"
        scores = _read(path)
        if scores is None:
            scores = {}
            for kind, code in reference_codes(factors, test, unordered=unordered).items():
                with contextlib.suppress(UntwineError):  # what suits the codes need not suit these
                    scores[kind] = compute(code, choice)
            _write(path, scores)
        _memory[key] = scores
    return {kind: dict(values) for kind, values in _memory[key].items()}


def _key(choice: Choice, rows: list[NDArray[Any]], unordered: Sequence[int]) -> str:
    """A digest of all that reference scores depend on."""
    code = _code_digest(metric_registry[choice.name].function.__module__)
    total = hashlib.sha256(json.dumps([choice.to_json(), list(unordered), code]).encode())
    for part in rows:
        total.update(f"{part.shape}{part.dtype}".encode())
        total.update(np.ascontiguousarray(part).tobytes())
    return total.hexdigest()


@functools.cache
def _code_digest(module: str) -> str:
    """A digest of versions and of a metric's source, so that no score outlives its code."""
    import untwine.estimators

    libraries = ("numpy", "scipy", "scikit-learn", "numba")
    versions = [__version__, *map(importlib.metadata.version, libraries)]
    files = sorted(Path(untwine.estimators.__path__[0]).glob("*.py"))
    own = getattr(sys.modules.get(module), "__file__", None)
    source = [sha256(file.read_bytes()) for file in [*files, *([Path(own)] if own else [])]]
    return sha256(json.dumps([versions, source]).encode())


def _read(path: Path) -> References | None:
    """Reference scores from a file, or None if it is missing or damaged."""
    try:
        return read_json(path, {"scores": {str: {str: float}}}, sealed=True)["scores"]
    except (UntwineError, OSError):
        return None


def _write(path: Path, scores: References) -> None:
    # A full or read-only disk costs time, not the score; an infinite score is not kept.
    with contextlib.suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"scores": scores})
        files = list(path.parent.glob("*.json"))
        if len(files) > MAX_FILES:
            for file in sorted(files, key=lambda file: file.stat().st_mtime)[:-MAX_FILES]:
                file.unlink(missing_ok=True)
