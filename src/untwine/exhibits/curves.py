"""Scores against each other as the numbers of models vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from untwine import statistics, study_figures
from untwine.evidence import Evidence
from untwine.exhibits import exhibit
from untwine.pages import Section
from untwine.statistics import Table


@exhibit
def curves(
    evidence: Evidence,
    *,
    study: str,
    x: str,
    y: Sequence[str],
    models: Sequence[str],
    better: str = "up and to the left",
    log: bool = False,
) -> Iterator[Section]:
    """Scores against another score, a curve for each model; models without a number are stars.

    Args:
        evidence: what our runs found.
        study: whose runs.
        x: the score across.
        y: the scores upwards, a panel for each.
        models: in the order of the legend.
        better: where good models lie.
        log: whether y has a logarithmic scale.
    """
    rows = evidence.table(study)
    figure, axes = study_figures.panels(len(y), width=4.6, height=3.6)
    for axis, score in zip(axes, y, strict=True):
        for place, model in enumerate(models):
            ours = rows[rows["model"] == model]
            if model == "beta-vae":  # of which a VAE is the case of weight 1
                ours = _with_vae(ours, rows)
            if len(ours):
                _trace(axis, ours, x, score, f"C{place}", model)
        axis.set_yscale("log" if log else "linear")
        axis.set_xlabel(x)
        axis.set_ylabel(score)
    axes[0].legend(fontsize=8, frameon=False)
    yield Section(
        f"curves-{study}",
        f"{' and '.join(y)} against {x}",
        f"On {evidence.heading(study)}. Each point is a setting: the mean over seeds with one "
        f"standard deviation, and the number of its model beside it; {better} is better.",
        figure,
    )


def _with_vae(ours: Table, rows: Table) -> Table:
    import pandas as pd

    plain = rows[rows["model"] == "vae"].assign(value="1")
    return pd.concat([plain, ours])


def _trace(axis: Any, rows: Table, x: str, y: str, colour: str, label: str) -> None:
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
