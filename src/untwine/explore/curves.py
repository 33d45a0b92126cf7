"""Learning curves: the terms of the loss of a run, finished or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from untwine.errors import UntwineError
from untwine.explore.answers import Curves, RunLine
from untwine.explore.model import TORCH_LOCK
from untwine.parts.objective import Objective
from untwine.runs.cards import build_empty, read_card
from untwine.runs.directory import is_finished, read_history
from untwine.runs.progress import read_progress

DIGITS = 6  # significant digits of a value
VALIDATION = "validation_"  # begins the names of terms on held-out data


def run_objective(
    path: Path, record: Mapping[str, Any], open_model: Callable[[], Objective]
) -> Objective | None:
    """The objective of a run; that of a run without a card comes from its model, if it opens."""
    try:
        if "card" not in record:
            return open_model()
        with TORCH_LOCK:  # building a model uses the random numbers of the whole process
            return build_empty(read_card(record["card"], path / "run.json")).objective
    except UntwineError:
        return None


def run_curves(
    path: Path, line: RunLine, record: Mapping[str, Any], objective: Objective | None
) -> Curves:
    """The curves of a run as it is now, without the constants that estimators of terms add."""
    progress = None if is_finished(path) else read_progress(path)
    rows = read_history(path, record) if is_finished(path) else progress.history if progress else []
    if objective is not None:
        rows = [objective.without_constants(row) for row in rows]
    names = [name for name in (rows[0] if rows else ()) if name != "step"]
    values = {name: [_rounded(row.get(name)) for row in rows] for name in names}
    return Curves(
        run=line,
        steps=[int(row["step"]) for row in rows],
        training={name: one for name, one in values.items() if not name.startswith(VALIDATION)},
        validation={
            name.removeprefix(VALIDATION): one
            for name, one in values.items()
            if name.startswith(VALIDATION)
        },
        note=_note(list(objective.constants()) if objective else []),
    )


def _note(terms: list[str]) -> str:
    """A sentence on terms that are shown without the constants of their estimators."""
    if not terms:
        return ""
    names = " and ".join(terms)
    many = len(terms) > 1
    return (
        f"{names} {'are' if many else 'is'} shown without the constant that "
        f"{'their estimators add' if many else 'its estimator adds'}; the loss includes it."
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
