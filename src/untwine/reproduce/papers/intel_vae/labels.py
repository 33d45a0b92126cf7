"""Accuracy from few labels, by their number and by the number of latents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untwine.reproduce.evidence import Evidence, Runs
from untwine.reproduce.registry import exhibit
from untwine.study.statistics import Table
from untwine.study.titles import setting_title
from untwine.tools.figures import panels
from untwine.tools.pages import Section, file_name

Alternatives = str | Sequence[str]  # names of scores, of which the first available one is used


@exhibit
def sizes(
    evidence: Evidence,
    *,
    study: str,
    score: str,
    runs: Mapping[str, Runs],
    base: str = "",
    title: str = "",
) -> Iterator[Section]:
    """A score against the number of training rows, a line for each model.

    Args:
        evidence: results of the studies.
        study: name of the study.
        score: the columns without the number at their end, such as `downstream.accuracy at`.
        runs: name of each line, and a description of its runs.
        base: score of the majority class, drawn as a dashed line.
        title: of the section.
    """
    numbers = row_counts(evidence.table(study), score)
    figure, (axis,) = panels(1, width=6.2, height=3.8)
    for name, description in runs.items():
        if evidence.has(study, description):
            rows = evidence.select(study, description)[[f"{score} {n}" for n in numbers]]
            _size_line(axis, numbers, rows, name)
    if base:
        level = float(evidence.table(study)[base].mean())
        axis.axhline(level, color="grey", linestyle="--", linewidth=1, label="majority class")
    _set_log_ticks(axis, numbers)
    axis.set_xlabel("labelled rows")
    axis.set_ylabel(score.removesuffix(" at").rpartition(".")[2])
    axis.legend(fontsize=8, frameon=False)
    yield Section(
        file_name("sizes", study, score),
        title or "Accuracy by the number of labelled rows",
        f"On {evidence.heading(study)}. Mean and standard deviation over seeds, on held-out rows.",
        figure,
    )


def row_counts(table: Table, score: str) -> list[int]:
    """Return the numbers of rows at the end of the columns of a score, in order.

    >>> import pandas as pd
    >>> row_counts(pd.DataFrame(columns=["a at 50", "a at 10", "b at 7", "a at best"]), "a at")
    [10, 50]
    """
    start = f"{score} "
    ends = [c.removeprefix(start) for c in table.columns if c.startswith(start)]
    return sorted(int(end) for end in ends if end.isdecimal())


def _size_line(axis: Any, x: Sequence[int], rows: Table, name: str) -> None:
    axis.errorbar(
        x,
        rows.mean(),
        rows.std().fillna(0),
        marker="o",
        markersize=3,
        linewidth=1.3,
        elinewidth=0.6,
        label=name,
    )


@exhibit
def widths(
    evidence: Evidence,
    *,
    study: str,
    varied: str,
    fixed: str,
    labels: Mapping[str, Alternatives],
    rows: Sequence[int],
    base: Mapping[str, Alternatives] | None = None,
) -> Iterator[Section]:
    """A score by the number of latents: a model that varies it against one that does not.

    Args:
        evidence: results of the studies.
        study: name of the study.
        varied: the model whose number of latents varies, drawn as a curve.
        fixed: the other model, drawn as a horizontal line.
        labels: name of each row of panels, and its score without the number of rows at the end.
        rows: numbers of labelled rows, a column of panels for each that the study has.
        base: accuracy of the majority class, for each row of panels.
    """
    table = evidence.table(study)
    starts = {name: _available_sizes(table, score, rows) for name, score in labels.items()}
    starts = {name: score for name, score in starts.items() if score}
    used = [n for n in rows if any(f"{score} {n}" in table for score in starts.values())]
    figure, axes = panels(len(starts) * len(used), width=2.6, height=2.3, most=len(used))
    cells = [(name, n) for name in starts for n in used]
    for axis, (name, n) in zip(axes, cells, strict=True):
        _width_panel(axis, evidence, study, f"{starts[name]} {n}", varied, fixed)
        level = _first_available(table, (base or {}).get(name, ()))
        if level:
            axis.axhline(float(table[level].mean()), color="grey", linestyle="--", linewidth=1)
        axis.set_title(f"{name}, {n} rows", fontsize=9)
    axes[0].legend(fontsize=7, frameon=False)
    figure.supxlabel("latents", fontsize=9)
    yield Section(
        f"widths-{study}",
        "Accuracy by the number of latents",
        f"On {evidence.heading(study)}. {setting_title(varied)} with several numbers of latents "
        f"against {setting_title(fixed)} with one: mean and standard deviation over seeds. Dashed: "
        "the majority class.",
        figure,
    )


def _width_panel(
    axis: Any, evidence: Evidence, study: str, column: str, varied: str, fixed: str
) -> None:
    """Draw a score of both models over the number of latents."""
    runs = evidence.runs(study)
    ours = evidence.select(study, varied)
    groups = ours.assign(latents=[runs[name].latent for name in ours["run"]]).groupby("latents")
    means, spread = groups[column].mean(), groups[column].std().fillna(0)
    axis.errorbar(
        means.index,
        means,
        spread,
        marker="o",
        markersize=3,
        color="C0",
        label=setting_title(varied),
    )
    other = evidence.select(study, fixed)[column]
    level, width = float(other.mean()), float(other.std()) if len(other) > 1 else 0.0
    axis.axhline(level, color="C3", label=setting_title(fixed))
    axis.axhspan(level - width, level + width, color="C3", alpha=0.15, linewidth=0)
    _set_log_ticks(axis, list(means.index))


def _available_sizes(table: Table, scores: Alternatives, sizes: Sequence[int]) -> str:
    """Return the first score that the table has for any of the sizes, or an empty string."""
    names = [scores] if isinstance(scores, str) else scores
    return next((s for s in names if any(f"{s} {n}" in table for n in sizes)), "")


def _first_available(table: Table, columns: Alternatives) -> str:
    names = [columns] if isinstance(columns, str) else columns
    return next((name for name in names if name in table), "")


def _set_log_ticks(axis: Any, ticks: Sequence[int]) -> None:
    """Make the horizontal axis logarithmic, with these ticks only."""
    axis.set_xscale("log")
    axis.set_xticks(list(ticks), [str(n) for n in ticks], fontsize=7)
    axis.set_xticks([], minor=True)
