"""The figures of a study's report, drawn from a table of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine.study import statistics
from untwine.study.statistics import Table, higher_is_better
from untwine.tools.figures import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PUBLISHED_COLOUR = "#c8ccd4"
MAX_VECTOR_DOTS = 500  # more dots are rasterised


def by_model(table: Table, scores: Sequence[str], published: Table | None) -> Figure:
    """Box plots of each score by model, means as dots; published runs in grey."""
    figure, axes = panels(len(scores))
    models = list(dict.fromkeys(table["model"]))
    for axis, score in zip(axes, scores, strict=True):
        if published is not None and score in published:
            _boxes(
                axis,
                [published[published["model"] == m][score] for m in models],
                PUBLISHED_COLOUR,
                0.8,
            )
        _boxes(axis, [table[table["model"] == m][score] for m in models], "C0", 0.45)
        axis.set_title(score)
        axis.set_xticks(range(len(models)), models, rotation=35, ha="right")
    return figure


def _boxes(axis: Axes, values: list[Any], colour: str, width: float) -> None:
    columns = [v.dropna().to_numpy(float) for v in values]
    filled = [(position, v) for position, v in enumerate(columns) if len(v)]
    if not filled:
        return
    plot = axis.boxplot(
        [v for _, v in filled],
        positions=[position for position, _ in filled],
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
    for box in plot["boxes"]:
        box.set(facecolor=colour, alpha=0.55, edgecolor=colour)


def by_data(table: Table, scores: Sequence[str]) -> Figure:
    """The mean of the scores by dataset and model, as a heat map."""
    grid = statistics.mean_by_dataset(table, scores).dropna(how="all")
    figure, (axis,) = panels(1, width=9, height=0.35 * len(grid) + 1)
    _heat(axis, grid, "{:.3f}")
    return figure


def _heat(axis: Axes, grid: Table, form: str, low: Any = None, high: Any = None) -> None:
    values = grid.to_numpy(float)
    image = axis.imshow(values, cmap="YlGnBu", aspect="auto", vmin=low, vmax=high)
    axis.set_xticks(range(grid.shape[1]), list(map(str, grid.columns)), rotation=35, ha="right")
    axis.set_yticks(range(grid.shape[0]), list(map(str, grid.index)))
    axis.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = float(np.asarray(image.norm(value))) > 0.55
            axis.text(
                column,
                row,
                form.format(value),
                ha="center",
                va="center",
                color="white" if dark else "black",
                fontsize=8,
            )


def by_value(table: Table, score: str, published: Table | None) -> Figure | None:
    """One score against the parameter that each model varies: mean and standard deviation."""
    models = [m for m, g in table.groupby("model", sort=False) if g["setting"].nunique() > 1]
    if not models:
        return None
    figure, axes = panels(len(models))
    for axis, model in zip(axes, models, strict=True):
        ours = table[table["model"] == model]
        positions = _label_settings(axis, ours)
        if published is not None and score in published and not positions:
            curve(
                axis,
                published[published["model"] == model],
                score,
                PUBLISHED_COLOUR,
                "published",
                {},
            )
        for data, group in ours.groupby("data", sort=False):
            curve(axis, group, score, None, str(data), positions)
        if score in statistics.ERRORS and table[score].max() > 5 * table[score].min() > 0:
            axis.set_yscale("log")
        axis.set_title(str(model))
        axis.set_ylabel(score)
    if table["data"].nunique() > 1 or published is not None:
        axes[0].legend(fontsize=7, frameon=False)
    return figure


def _label_settings(axis: Axes, group: Table) -> dict[str, int]:
    """Label the axis with settings that differ in several numbers; the position of each."""
    if statistics.by_one_number(group):
        return {}
    settings = list(dict.fromkeys(map(str, group["setting"])))
    names = [name.partition(" ")[2] or name for name in settings]
    axis.set_xticks(range(len(settings)), names, rotation=35, ha="right", fontsize=7)
    return {name: position for position, name in enumerate(settings)}


def curve(
    axis: Axes, group: Table, score: str, colour: str | None, label: str, positions: dict[str, int]
) -> None:
    """Draw means against the parameter that varies, or without a line at given positions."""
    group = group.dropna(subset=[score])
    means = group.groupby("setting", sort=False).agg(
        value=("value", "first"), mean=(score, "mean"), std=(score, "std")
    )
    if not len(means):
        return
    numbers = means["value"].map(statistics.number)
    axis.errorbar(
        [positions[str(name)] for name in means.index] if positions else numbers,
        means["mean"],
        means["std"].fillna(0),
        marker="o",
        markersize=3,
        capsize=2,
        linestyle="none" if positions else "-",
        color=colour,
        label=label,
    )


def by_seed(table: Table, scores: Sequence[str]) -> Figure:
    """Every run of every setting, which shows the spread between seeds."""
    settings = list(dict.fromkeys(table["setting"]))
    height = max(2.5, 0.22 * len(settings) + 0.8)
    figure, axes = panels(len(scores), width=3.6, height=height)
    for panel, (axis, score) in enumerate(zip(axes, scores, strict=True)):
        for colour, (data, group) in enumerate(table.groupby("data", sort=False)):
            rows = group["setting"].map(settings.index)
            axis.plot(
                group[score],
                rows,
                "o",
                markersize=3,
                alpha=0.5,
                color=f"C{colour}",
                rasterized=len(group) > MAX_VECTOR_DOTS,
                label=str(data),
            )
        means = table.groupby("setting", sort=False)[score].mean()
        axis.plot(means, [settings.index(s) for s in means.index], "|", color="black", ms=9)
        names = settings if panel % 3 == 0 else [""] * len(settings)
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
    """The share of each score's variance explained by the model, its parameters and the seed."""
    figure, (axis,) = panels(1, width=7, height=0.45 * len(scores) + 1.2)
    left = np.zeros(len(scores))
    explained = [statistics.variance_shares(table, score) for score in scores]
    for part, colour in (("model", "C0"), ("parameter", "C1"), ("seed", PUBLISHED_COLOUR)):
        width = np.array([share.get(part, 0.0) for share in explained])
        axis.barh(range(len(scores)), width, left=left, color=colour, label=part)
        left += width
    axis.set_yticks(range(len(scores)), list(scores))
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.legend(ncols=3, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.25))
    return figure


def comparisons(table: Table, score: str) -> Figure | None:
    """The difference between every two models with its interval; significant ones are filled."""
    pairs = statistics.compare_pairs(table, score)
    if not len(pairs):
        return None
    figure, (axis,) = panels(1, width=7, height=0.3 * len(pairs) + 1)
    for position, row in enumerate(pairs.itertuples()):
        significant = row.p < 0.05
        axis.plot([row.low, row.high], [position, position], color="C0")
        axis.plot(row.difference, position, "o", color="C0", mfc="C0" if significant else "white")
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(pairs)), [f"{r.first} − {r.second}" for r in pairs.itertuples()])
    axis.invert_yaxis()
    axis.set_xlabel(f"difference in {score}")
    return figure


def trade_off(table: Table, error: str, scores: Sequence[str]) -> Figure:
    """Each score against the reconstruction error; one dot per run, coloured by model."""
    figure, axes = panels(len(scores))
    for axis, score in zip(axes, scores, strict=True):
        for colour, (model, group) in enumerate(table.groupby("model", sort=False)):
            axis.plot(
                group[error],
                group[score],
                "o",
                markersize=3,
                alpha=0.6,
                color=f"C{colour}",
                rasterized=len(group) > MAX_VECTOR_DOTS,
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
