"""Several scores of each model side by side, as a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from untwine import study_figures
from untwine.evidence import Evidence, Runs, present, value_of
from untwine.exhibits import exhibit
from untwine.pages import Section, file_name
from untwine.statistics import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@exhibit
def profile(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    scores: Mapping[str, str],
    title: str,
    x: str = "",
    y: str = "",
) -> Iterator[Section]:
    """A line for each model through several scores, with its spread over seeds.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: the paper's name of a model, and which runs it is.
        scores: what stands below a score, and the score, in their order.
        title: of the figure.
        x: what the scores differ in.
        y: what they are.
    """
    tables = {n: evidence.select(study, d) for n, d in present(evidence, study, runs).items()}
    figure = lines(tables, scores)
    figure.axes[0].set(xlabel=x, ylabel=y)
    yield Section(
        file_name("profile", study, title),
        title,
        f"On {evidence.heading(study)}. The mean over seeds with one standard deviation.",
        figure,
    )


def lines(tables: Mapping[str, Table], scores: Mapping[str, str]) -> Figure:
    """A line for each table of runs through the means of some scores."""
    figure, (axis,) = study_figures.panels(1, width=6.4, height=3.6)
    for name, rows in tables.items():
        found = [value_of(rows, score) for score in scores.values()]
        spread: list[Any] = [column.std(ddof=1) if len(column) > 1 else 0 for column in found]
        means = [column.mean() for column in found]
        axis.errorbar(range(len(found)), means, spread, marker="o", markersize=3, label=name)
    axis.set_xticks(range(len(scores)), list(scores))
    axis.legend(fontsize=8, frameon=False)
    return figure
