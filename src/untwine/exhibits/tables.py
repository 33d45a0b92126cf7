"""The paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from untwine.evidence import Evidence, value_of
from untwine.exhibits import exhibit
from untwine.pages import Section, file_name
from untwine.registry import models
from untwine.spec import Run
from untwine.statistics import Table

MISSING = "–"


@exhibit
def table(
    evidence: Evidence,
    *,
    study: str,
    columns: Mapping[str, str | Sequence[str]],
    rows: Mapping[str, Mapping[str, Any]],
    title: str = "",
) -> Iterator[Section]:
    """The paper's numbers beside ours: mean and standard deviation over seeds.

    Args:
        evidence: what our runs found.
        study: whose runs.
        columns: the paper's name of a column, and the score here, as in `100 * sap`; of several
            the first that is there.
        rows: the paper's name of a row; `runs` describes ours, `paper` is its numbers in the order
            of the columns.
        title: of the table, where an item has several.
    """
    scores = {name: _first(score, evidence.table(study)) for name, score in columns.items()}
    body = [
        _row(evidence, study, name, row, list(scores.values()))
        for name, row in rows.items()
        if "runs" not in row or evidence.has(study, row["runs"])
    ]
    header = ["", "here", *(word for name in columns for word in (f"{name}, paper", "ours"))]
    told = [
        i for i in range(len(header)) if i < 2 or any(row[i] not in ("", MISSING) for row in body)
    ]
    for i in (i for i in told if i > 2 and i % 2 and i - 1 not in told):
        header[i] = f"{list(columns)[i // 2 - 1]}, ours"  # which no number of the paper names
    seeds = evidence.table(study)["seed"].nunique()
    yield Section(
        file_name("table", study, title),
        title or "The paper's numbers beside ours",
        f"On {evidence.heading(study)}. Ours: "
        + (f"mean ± standard deviation over {seeds} seeds." if seeds > 1 else "one seed."),
        header=tuple(header[i] for i in told),
        rows=tuple(tuple(row[i] for i in told) for row in body),
    )


def _row(
    evidence: Evidence, study: str, name: str, row: Mapping[str, Any], scores: Sequence[str]
) -> tuple[str, ...]:
    paper = [MISSING if value is None else str(value) for value in row.get("paper", ())]
    paper += [MISSING] * (len(scores) - len(paper))
    if "runs" not in row:
        return (name, "", *(cell for value in paper for cell in (value, "")))
    found = evidence.select(study, row["runs"])
    ours = [mean_and_spread(value_of(found, score)) if score else MISSING for score in scores]
    here = _numbers(evidence.runs(study)[str(found["run"].iloc[0])])
    return (name, here, *(cell for pair in zip(paper, ours, strict=True) for cell in pair))


def _numbers(run: Run) -> str:
    """A model with its first number, and those of the others that are not at their defaults."""
    words = [run.model_name]
    for part in run.model:
        changed = models.shortened(part)
        for place, (key, value) in enumerate(part.params.items()):
            if not place or key in changed:
                words.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
    return " ".join(words)


def _first(scores: str | Sequence[str], found: Table) -> str:
    """The first score of several that is there, if any is."""
    listed = [scores] if isinstance(scores, str) else scores
    return next((s for s in listed if s.rpartition(" * ")[2] in found), "")


def mean_and_spread(values: Table) -> str:
    """`0.123 ± 0.010`, with as many digits as the spread allows to be read."""
    values = values.dropna()
    if not len(values):
        return MISSING
    mean = float(values.mean())
    if len(values) < 2:
        return f"{mean:.3g}"
    spread = float(values.std(ddof=1))
    if not mean and not spread:
        return "0"
    digits = max(0, min(4, 2 - int(np.floor(np.log10(max(abs(mean), spread, 1e-4))))))
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"
