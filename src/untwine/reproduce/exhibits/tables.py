"""The paper's numbers next to ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from untwine.registry import models
from untwine.reproduce.evidence import Evidence, Runs, available, value_of
from untwine.reproduce.registry import exhibit
from untwine.spec import Run
from untwine.study.statistics import Table
from untwine.study.titles import score_title
from untwine.tools.pages import Section, file_name

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
    """The paper's numbers next to ours: mean and standard deviation over seeds.

    Args:
        evidence: results of the studies.
        study: name of the study.
        columns: name of each column in the paper, and our score, such as `100 * sap`; of several
            scores, the first that is available.
        rows: name of each row in the paper; `runs` describes our runs, `paper` has the paper's
            numbers in the order of the columns, `earlier` ours of an earlier protocol, whose runs
            are not part of the study.
        title: of the table, if an item has several.
    """
    scores = {
        name: _first_available(score, evidence.table(study)) for name, score in columns.items()
    }
    body = [
        _row(evidence, study, name, row, list(scores.values()))
        for name, row in rows.items()
        if "runs" not in row or evidence.has(study, row["runs"])
    ]
    header = ["", "here", *(word for name in columns for word in (f"{name}, paper", "ours"))]
    used = [
        i for i in range(len(header)) if i < 2 or any(row[i] not in ("", MISSING) for row in body)
    ]
    for i in (i for i in used if i > 2 and i % 2 and i - 1 not in used):
        header[i] = f"{list(columns)[i // 2 - 1]}, ours"  # the paper has no such column
    seeds = evidence.table(study)["seed"].nunique()
    yield Section(
        file_name("table", study, title),
        title or "The paper's numbers next to ours",
        f"On {evidence.heading(study)}. Ours: "
        + (f"mean ± standard deviation over {seeds} seeds." if seeds > 1 else "one seed."),
        header=tuple(header[i] for i in used),
        rows=tuple(tuple(row[i] for i in used) for row in body),
    )


def _row(
    evidence: Evidence, study: str, name: str, row: Mapping[str, Any], scores: Sequence[str]
) -> tuple[str, ...]:
    paper = [MISSING if value is None else str(value) for value in row.get("paper", ())]
    paper += [MISSING] * (len(scores) - len(paper))
    if "runs" not in row:
        earlier = [*map(str, row.get("earlier", ())), *[""] * len(scores)][: len(scores)]
        return (name, "", *(cell for pair in zip(paper, earlier, strict=True) for cell in pair))
    runs = evidence.select(study, row["runs"])
    ours = [mean_and_spread(value_of(runs, score)) if score else MISSING for score in scores]
    specs = evidence.runs(study)
    model = _describe_model(specs[str(runs["run"].iloc[0])])
    latents = {specs[str(run)].latent for run in runs["run"]}
    if len(latents) == 1 and latents != {spec.latent for spec in specs.values()}:
        model += f" latent={latents.pop()}"  # one of the study's several numbers
    return (name, model, *(cell for pair in zip(paper, ours, strict=True) for cell in pair))


@exhibit
def collapses(
    evidence: Evidence, *, study: str, score: str, above: float, runs: Mapping[str, Runs]
) -> Iterator[Section]:
    """How many seeds of each setting have collapsed: those whose score is above a line."""
    rows: list[tuple[str, ...]] = []
    for name, description in available(evidence, study, runs).items():
        values = value_of(evidence.select(study, description), score)
        rows.append((name, f"{int((values > above).sum())} of {len(values)}"))
    yield Section(
        file_name("collapses", study),
        "Seeds that collapsed",
        f"On {evidence.heading(study)}. A seed has collapsed if its {score_title(score)} is above "
        f"{above:g}.",
        header=("", "collapsed"),
        rows=tuple(rows),
    )


def _describe_model(run: Run) -> str:
    """Return a model with its first parameter and all others that differ from their default."""
    words = [run.model_name]
    for part in run.model:
        changed = models.non_default(part)
        for position, (key, value) in enumerate(part.params.items()):
            if not position or key in changed:
                words.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
    return " ".join(words)


def _first_available(scores: str | Sequence[str], runs: Table) -> str:
    """Return the first score that the table of runs has, or an empty string."""
    names = [scores] if isinstance(scores, str) else scores
    return next((s for s in names if s.rpartition(" * ")[2] in runs), "")


def mean_and_spread(values: Table) -> str:
    """Return `0.123 ± 0.010`, with three significant digits of the larger number."""
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
