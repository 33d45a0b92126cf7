"""Accuracy against the number of labelled rows, and against the number of latents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untwine import study_figures
from untwine.evidence import Evidence
from untwine.exhibits import exhibit
from untwine.pages import Section, file_name
from untwine.statistics import Table

Named = str | Sequence[str]  # the first of several that is there


@exhibit
def sizes(
    evidence: Evidence,
    *,
    study: str,
    score: str,
    runs: Mapping[str, Named],
    base: str = "",
    title: str = "",
) -> Iterator[Section]:
    """A score against the number of rows that it was learned from, a line for each model.

    Args:
        evidence: what our runs found.
        study: whose runs.
        score: the beginning of the columns, whose end is the number: `downstream.accuracy at`.
        runs: the name of a line, and the description of its runs.
        base: the score of always giving the more frequent answer, drawn as a dashed line.
        title: of the section.
    """
    numbers = learned_from(evidence.table(study), score)
    figure, (axis,) = study_figures.panels(1, width=6.2, height=3.8)
    for name, described in runs.items():
        if evidence.has(study, described):
            rows = evidence.select(study, described)[[f"{score} {n}" for n in numbers]]
            _line(axis, numbers, rows, name)
    if base:
        level = float(evidence.table(study)[base].mean())
        axis.axhline(level, color="grey", linestyle="--", linewidth=1, label="more frequent answer")
    _on_log(axis, numbers)
    axis.set_xlabel("labelled rows")
    axis.set_ylabel(score.removesuffix(" at"))
    axis.legend(fontsize=8, frameon=False)
    yield Section(
        file_name("sizes", study, score),
        title or "Accuracy by the number of labelled rows",
        f"On {evidence.heading(study)}. Mean and one standard deviation over seeds, on rows that "
        "were not learned from.",
        figure,
    )


def learned_from(table: Table, score: str) -> list[int]:
    """The numbers of rows that columns end with, in order.

    >>> import pandas as pd
    >>> learned_from(pd.DataFrame(columns=["a at 50", "a at 10", "b at 7", "a at best"]), "a at")
    [10, 50]
    """
    start = f"{score} "
    ends = [c.removeprefix(start) for c in table.columns if c.startswith(start)]
    return sorted(int(end) for end in ends if end.isdecimal())


def _line(axis: Any, x: Sequence[int], rows: Table, name: str, **style: Any) -> None:
    axis.errorbar(
        x,
        rows.mean(),
        rows.std().fillna(0),
        marker="o",
        markersize=3,
        linewidth=1.3,
        elinewidth=0.6,
        label=name,
        **style,
    )


def _on_log(axis: Any, ticks: Sequence[int]) -> None:
    """A logarithmic axis that names these numbers and no others."""
    axis.set_xscale("log")
    axis.set_xticks(list(ticks), [str(n) for n in ticks], fontsize=7)
    axis.set_xticks([], minor=True)


@exhibit
def widths(
    evidence: Evidence,
    *,
    study: str,
    varied: str,
    fixed: str,
    labels: Mapping[str, Named],
    rows: Sequence[int],
    base: Mapping[str, Named] | None = None,
) -> Iterator[Section]:
    """A score by the number of latents: a model with several numbers against one with a fixed one.

    Args:
        evidence: what our runs found.
        study: whose runs.
        varied: the model whose number of latents varies, a curve.
        fixed: the model that is drawn as a level line.
        labels: the name of a row of panels, and the beginning of its columns.
        rows: numbers of labelled rows, a column of panels each where the study has it.
        base: for a row of panels the accuracy of the more frequent answer.
    """
    table = evidence.table(study)
    starts = {name: _there(table, score, rows) for name, score in labels.items()}
    starts = {name: score for name, score in starts.items() if score}
    used = [n for n in rows if any(f"{score} {n}" in table for score in starts.values())]
    figure, axes = study_figures.panels(
        len(starts) * len(used), width=2.6, height=2.3, most=len(used)
    )
    places = [(name, n) for name in starts for n in used]
    for axis, (name, n) in zip(axes, places, strict=True):
        _panel(axis, evidence, study, f"{starts[name]} {n}", varied, fixed)
        level = _first(table, (base or {}).get(name, ()))
        if level:
            axis.axhline(float(table[level].mean()), color="grey", linestyle="--", linewidth=1)
        axis.set_title(f"{name}, {n} rows", fontsize=9)
    axes[0].legend(fontsize=7, frameon=False)
    yield Section(
        f"widths-{study}",
        "Accuracy by the number of latents",
        f"On {evidence.heading(study)}. {varied} with several numbers of latents against {fixed} "
        "with one, mean and one standard deviation over seeds; dashed the more frequent answer.",
        figure,
    )


def _panel(axis: Any, evidence: Evidence, study: str, column: str, varied: str, fixed: str) -> None:
    """One score of both models over the number of latents."""
    runs = evidence.runs(study)
    ours = evidence.select(study, varied)
    groups = ours.assign(latents=[runs[name].latent for name in ours["run"]]).groupby("latents")
    means, spread = groups[column].mean(), groups[column].std().fillna(0)
    axis.errorbar(means.index, means, spread, marker="o", markersize=3, color="C0", label=varied)
    other = evidence.select(study, fixed)[column]
    level, width = float(other.mean()), float(other.std()) if len(other) > 1 else 0.0
    axis.axhline(level, color="C3", label=fixed)
    axis.axhspan(level - width, level + width, color="C3", alpha=0.15, linewidth=0)
    _on_log(axis, list(means.index))


def _there(table: Table, scores: Named, sizes: Sequence[int]) -> str:
    """The first beginning of a column that the table has with any of the sizes."""
    listed = [scores] if isinstance(scores, str) else scores
    return next((s for s in listed if any(f"{s} {n}" in table for n in sizes)), "")


def _first(table: Table, columns: Named) -> str:
    listed = [columns] if isinstance(columns, str) else columns
    return next((column for column in listed if column in table), "")
