"""The figures of a study's report; each is drawn from a table of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine import statistics
from untwine.statistics import Table, higher_is_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "untwine",
}
BEHIND = "#c8ccd4"  # what others published
FEW = 500  # dots that are drawn one by one; more are drawn as a picture


def panels(count: int, *, width: float = 3.2, height: float = 2.8, most: int = 3) -> Any:
    """A figure and `count` axes in rows."""
    from matplotlib.figure import Figure

    columns = min(count, most)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def by_model(table: Table, scores: Sequence[str], behind: Table | None) -> Figure:
    """Box plots of each score by model, means as dots; published runs in grey."""
    figure, axes = panels(len(scores))
    models = list(dict.fromkeys(table["model"]))
    for axis, score in zip(axes, scores, strict=True):
        if behind is not None and score in behind:
            _boxes(axis, [behind[behind["model"] == m][score] for m in models], BEHIND, 0.8)
        _boxes(axis, [table[table["model"] == m][score] for m in models], "C0", 0.45)
        axis.set_title(score)
        axis.set_xticks(range(len(models)), models, rotation=35, ha="right")
    return figure


def _boxes(axis: Axes, values: list[Any], colour: str, width: float) -> None:
    columns = [v.dropna().to_numpy(float) for v in values]
    shown = [(place, v) for place, v in enumerate(columns) if len(v)]
    if not shown:
        return
    drawn = axis.boxplot(
        [v for _, v in shown],
        positions=[place for place, _ in shown],
        widths=width,
        showmeans=True,
        patch_artist=True,
        manage_ticks=False,
        flierprops={"markersize": 2, "markeredgecolor": colour},
        meanprops={
            "marker": "o",
            "markersize": 4,
            "markerfacecolor": "white",
            "markeredgecolor": "black",
        },
        medianprops={"color": "black"},
    )
    for box in drawn["boxes"]:
        box.set(facecolor=colour, alpha=0.55, edgecolor=colour)


def by_data(table: Table, scores: Sequence[str]) -> Figure:
    """The mean of the scores by dataset and model, as a table of colours."""
    grid = statistics.pooled(table, scores).dropna(how="all")
    figure, (axis,) = panels(1, width=9, height=0.35 * len(grid) + 1)
    _heat(axis, grid, "{:.3f}")
    return figure


def _heat(axis: Axes, grid: Table, form: str, low: Any = None, high: Any = None) -> None:
    values = grid.to_numpy(float)
    shown = axis.imshow(values, cmap="YlGnBu", aspect="auto", vmin=low, vmax=high)
    axis.set_xticks(range(grid.shape[1]), list(map(str, grid.columns)), rotation=35, ha="right")
    axis.set_yticks(range(grid.shape[0]), list(map(str, grid.index)))
    axis.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = float(np.asarray(shown.norm(value))) > 0.55
            axis.text(
                column,
                row,
                form.format(value),
                ha="center",
                va="center",
                color="white" if dark else "black",
                fontsize=8,
            )


def by_value(table: Table, score: str, behind: Table | None) -> Figure | None:
    """One score against the number that each model varies: means, and one standard deviation."""
    models = [m for m, g in table.groupby("model", sort=False) if g["setting"].nunique() > 1]
    if not models:
        return None
    figure, axes = panels(len(models))
    for axis, model in zip(axes, models, strict=True):
        ours = table[table["model"] == model]
        places = _places(axis, ours)
        if behind is not None and score in behind and not places:
            curve(axis, behind[behind["model"] == model], score, BEHIND, "published", {})
        for data, group in ours.groupby("data", sort=False):
            curve(axis, group, score, None, str(data), places)
        if score in statistics.ERRORS and table[score].max() > 5 * table[score].min() > 0:
            axis.set_yscale("log")
        axis.set_title(str(model))
        axis.set_ylabel(score)
    if table["data"].nunique() > 1 or behind is not None:
        axes[0].legend(fontsize=7, frameon=False)
    return figure


def _places(axis: Axes, group: Table) -> dict[str, int]:
    """Where each setting is drawn, if they differ in more than one number."""
    if statistics.by_one_number(group):
        return {}
    settings = list(dict.fromkeys(map(str, group["setting"])))
    names = [name.partition(" ")[2] or name for name in settings]
    axis.set_xticks(range(len(settings)), names, rotation=35, ha="right", fontsize=7)
    return {name: place for place, name in enumerate(settings)}


def curve(
    axis: Axes, group: Table, score: str, colour: str | None, label: str, places: dict[str, int]
) -> None:
    """Means by the number that varies, or at the places of the settings without a line."""
    group = group.dropna(subset=[score])
    means = group.groupby("setting", sort=False).agg(
        value=("value", "first"), mean=(score, "mean"), std=(score, "std")
    )
    if not len(means):
        return
    numbers = means["value"].map(statistics.number)
    axis.errorbar(
        [places[str(name)] for name in means.index] if places else numbers,
        means["mean"],
        means["std"].fillna(0),
        marker="o",
        markersize=3,
        capsize=2,
        linestyle="none" if places else "-",
        color=colour,
        label=label,
    )


def by_seed(table: Table, scores: Sequence[str]) -> Figure:
    """Every run of every setting: how far apart the seeds of one setting lie."""
    settings = list(dict.fromkeys(table["setting"]))
    height = max(2.5, 0.22 * len(settings) + 0.8)
    figure, axes = panels(len(scores), width=3.6, height=height)
    for number, (axis, score) in enumerate(zip(axes, scores, strict=True)):
        for number_of_data, (data, group) in enumerate(table.groupby("data", sort=False)):
            places = group["setting"].map(settings.index)
            axis.plot(
                group[score],
                places,
                "o",
                markersize=3,
                alpha=0.5,
                color=f"C{number_of_data}",
                rasterized=len(group) > FEW,
                label=str(data),
            )
        means = table.groupby("setting", sort=False)[score].mean()
        axis.plot(means, [settings.index(s) for s in means.index], "|", color="black", ms=9)
        names = settings if number % 3 == 0 else [""] * len(settings)
        axis.set_yticks(range(len(settings)), names, fontsize=7)
        axis.invert_yaxis()
        axis.set_title(score)
    if table["data"].nunique() > 1:
        axes[0].legend(fontsize=7, frameon=False)
    return figure


def correlation(table: Table, scores: Sequence[str]) -> Figure:
    """Spearman's rank correlation between scores over runs."""
    size = max(3.5, 0.75 * len(scores) + 1.5)
    figure, (axis,) = panels(1, width=size + 1, height=size)
    _heat(axis, statistics.rank_correlation(table, scores), "{:.2f}", -1, 1)
    return figure


def shares(table: Table, scores: Sequence[str]) -> Figure:
    """How much of each score's variance the model, its parameters and the seed explain."""
    figure, (axis,) = panels(1, width=7, height=0.45 * len(scores) + 1.2)
    left = np.zeros(len(scores))
    found = [statistics.variance_shares(table, score) for score in scores]
    for part, colour in (("model", "C0"), ("parameter", "C1"), ("seed", BEHIND)):
        width = np.array([share.get(part, 0.0) for share in found])
        axis.barh(range(len(scores)), width, left=left, color=colour, label=part)
        left += width
    axis.set_yticks(range(len(scores)), list(scores))
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.legend(ncols=3, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.25))
    return figure


def comparisons(table: Table, score: str) -> Figure | None:
    """The difference of every two models with its interval; filled where it is beyond chance."""
    found = statistics.paired(table, score)
    if not len(found):
        return None
    figure, (axis,) = panels(1, width=7, height=0.3 * len(found) + 1)
    for place, row in enumerate(found.itertuples()):
        sure = row.p < 0.05
        axis.plot([row.low, row.high], [place, place], color="C0")
        axis.plot(row.difference, place, "o", color="C0", mfc="C0" if sure else "white")
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(found)), [f"{r.first} − {r.second}" for r in found.itertuples()])
    axis.invert_yaxis()
    axis.set_xlabel(f"difference in {score}")
    return figure


def trade_off(table: Table, error: str, scores: Sequence[str]) -> Figure:
    """Each score against the reconstruction error; a dot for each run, coloured by model."""
    figure, axes = panels(len(scores))
    for axis, score in zip(axes, scores, strict=True):
        for number, (model, group) in enumerate(table.groupby("model", sort=False)):
            axis.plot(
                group[error],
                group[score],
                "o",
                markersize=3,
                alpha=0.6,
                color=f"C{number}",
                rasterized=len(group) > FEW,
                label=str(model),
            )
        if table[error].max() > 5 * table[error].min() > 0:
            axis.set_xscale("log")
        axis.set_xlabel(error)
        axis.set_title(score)
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def better(score: str) -> str:
    """Which way a score is good."""
    return "higher is better" if higher_is_better(score) else "lower is better"
