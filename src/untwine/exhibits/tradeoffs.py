"""Two scores that pull against each other as the numbers of models vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from untwine import statistics, study_figures
from untwine.evidence import Evidence
from untwine.exhibits import exhibit
from untwine.pages import Section
from untwine.statistics import Table


@exhibit
def trade_off(
    evidence: Evidence,
    *,
    study: str,
    x: str,
    y: str,
    models: Sequence[str],
    better: str,
    log: bool = False,
) -> Iterator[Section]:
    """One score against another, a curve for each model; models without a number are stars.

    Args:
        evidence: what our runs found.
        study: whose runs.
        x: the score across.
        y: the score upwards.
        models: in the order of the legend.
        better: where good models lie, such as `down and to the right`.
        log: whether y has a logarithmic scale.
    """
    table = evidence.table(study)
    figure, (axis,) = study_figures.panels(1, width=6.6, height=4.4)
    for place, model in enumerate(models):
        rows = table[table["model"] == model]
        if len(rows):
            _settings(axis, rows, x, y, f"C{place}", model)
    if log:
        axis.set_yscale("log")
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.legend(fontsize=8, frameon=False)
    yield Section(
        f"trade-off-{study}",
        f"{y} against {x}",
        f"On {evidence.heading(study)}. Each point is a setting: the mean over seeds with one "
        f"standard deviation, and the number of its model beside it; {better} is better.",
        figure,
    )


def _settings(axis: Any, rows: Table, x: str, y: str, colour: str, label: str) -> None:
    """The means of a model's settings, joined in the order of their numbers."""
    rows = rows.assign(number=rows["value"].map(statistics.number))
    several = bool(rows["number"].notna().all())
    groups = rows.groupby("number" if several else "model", sort=True)
    means, spread = groups[[x, y]].mean(), groups[[x, y]].std().fillna(0)
    axis.errorbar(
        means[x],
        means[y],
        spread[y],
        spread[x],
        marker="o" if several else "*",
        markersize=4 if several else 11,
        linewidth=1.2,
        elinewidth=0.6,
        color=colour,
        label=label,
    )
    for value, row in means.iterrows() if several else ():
        axis.annotate(
            f"{value:g}", (row[x], row[y]), (4, 4), textcoords="offset points", fontsize=7
        )
