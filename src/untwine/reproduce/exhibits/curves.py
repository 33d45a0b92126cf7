"""Curves of scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from untwine.plot.studies import place_legend
from untwine.reproduce.evidence import Evidence, value_of
from untwine.reproduce.registry import exhibit
from untwine.study import statistics
from untwine.study.statistics import Table
from untwine.study.titles import join_names, score_title, setting_title
from untwine.tools.figures import panels
from untwine.tools.pages import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """Scores against another score, a curve for each model.

    A model that varies no parameter is a star.

    Args:
        evidence: results of the studies.
        study: name of the study.
        x: score on the horizontal axis.
        y: scores on the vertical axes, a panel for each.
        models: descriptions of their runs, in the order of the legend.
        better: direction in which good models lie.
        log: whether y is logarithmic.
    """
    rows = evidence.table(study)
    figure, axes = panels(len(y), width=4.6, height=3.6)
    for axis, score in zip(axes, y, strict=True):
        for position, model in enumerate(models):
            if not evidence.has(study, model):
                continue
            ours = evidence.select(study, model)
            if model == "beta-vae":  # a VAE is the special case of weight 1
                ours = _prepend_vae(ours, rows)
            _draw_curve(axis, ours, x, score, f"C{position}", setting_title(model))
        axis.set_yscale("log" if log else "linear")
        axis.set_xlabel(score_title(x))
        axis.set_ylabel(score_title(score))
    place_legend(figure, *axes[0].get_legend_handles_labels())
    yield Section(
        f"curves-{study}",
        f"{join_names([score_title(score) for score in y])} against {score_title(x)}",
        f"On {evidence.heading(study)}. Each point is a setting, labelled with the value of its "
        f"parameter: mean and standard deviation over seeds. Further {better} is better.",
        figure,
    )


def _prepend_vae(ours: Table, rows: Table) -> Table:
    """Return the runs of a β-VAE with those of the VAE as β = 1."""
    import pandas as pd

    plain = rows[rows["model"] == "vae"].assign(value="1")
    return pd.concat([plain, ours])


def _draw_curve(axis: Any, rows: Table, x: str, y: str, colour: str, label: str) -> None:
    """Draw the means of a model's settings, joined in the order of their values."""
    rows = rows.assign(number=rows["value"].map(statistics.number))
    varies = bool(rows["number"].notna().all())
    groups = rows.groupby("number" if varies else "model", sort=True)
    means, spread = groups[[x, y]].mean(), groups[[x, y]].std().fillna(0)
    axis.errorbar(
        means[x],
        means[y],
        spread[y],
        spread[x],
        marker="o" if varies else "*",
        markersize=4 if varies else 11,
        linewidth=1.2,
        elinewidth=0.6,
        color=colour,
        label=label,
    )
    for value, row in means.iterrows() if varies else ():
        axis.annotate(
            f"{value:g}", (row[x], row[y]), (4, 4), textcoords="offset points", fontsize=7
        )


def lines(tables: Mapping[str, Table], scores: Mapping[str, str]) -> Figure:
    """Draw a line for each table of runs, through the means of several scores."""
    figure, (axis,) = panels(1, width=6.4, height=3.6)
    for name, rows in tables.items():
        values = [value_of(rows, score) for score in scores.values()]
        spread: list[Any] = [column.std(ddof=1) if len(column) > 1 else 0 for column in values]
        means = [column.mean() for column in values]
        axis.errorbar(range(len(values)), means, spread, marker="o", markersize=3, label=name)
    axis.set_xticks(range(len(scores)), list(scores))
    axis.legend(fontsize=8, frameon=False)
    return figure
