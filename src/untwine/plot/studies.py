"""Figures of a study, from its directory, its name or its table of runs.

Their scores are the reported ones unless some are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine.errors import DataError
from untwine.study import statistics
from untwine.study.comparisons import compare_pairs
from untwine.study.folder import StudyFolder
from untwine.study.statistics import Table
from untwine.study.table import results_table
from untwine.study.titles import model_title, score_title, setting_title
from untwine.tools.figures import INK, PAPER, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PUBLISHED_COLOUR = "#c8ccd4"
MAX_VECTOR_DOTS = 500  # more dots are rasterised
TITLE_WIDTH = 30  # letters of a line of a panel's title
MAX_LEGEND_COLUMNS = 4
HANDLE_WIDTH, LETTER_WIDTH = 0.6, 0.075  # inches of a legend, about
WIDE, MANY_DECADES = 5, 50  # ratios of values, from which on an axis is logarithmic, and sparse
Results = Table | StudyFolder | str | Path
LEGEND_PLACE = "outside upper left"  # where a phone shows it too


def _read(study: Results, scores: Sequence[str] | None) -> tuple[Table, list[str]]:
    """The table of a study, and the scores to draw."""
    table = results_table(study) if isinstance(study, StudyFolder | str | Path) else study
    chosen = statistics.reported_scores(table) if scores is None else list(scores)
    if not chosen:
        raise DataError("no score differs between the runs, so there is nothing to draw")
    return table, chosen


@styled
def by_model(
    study: Results,
    scores: Sequence[str] | None = None,
    published: Table | None = None,
    behind: str = "published",
) -> Figure:
    """Box plots of each score by model, means as dots; published runs in grey, named `behind`."""
    from matplotlib.patches import Patch

    table, scores = _read(study, scores)
    figure, axes = panels(len(scores))
    models = list(dict.fromkeys(table["model"]))
    shown = [] if published is None else [score for score in scores if score in published]
    for axis, score in zip(axes, scores, strict=True):
        if published is not None and score in shown:
            theirs = [published[published["model"] == m][score] for m in models]
            _boxes(axis, theirs, PUBLISHED_COLOUR, 0.8)
        _boxes(axis, [table[table["model"] == m][score] for m in models], "C0", 0.45)
        _title(axis, score, table)
        axis.set_xticks(range(len(models)), list(map(model_title, models)), rotation=35, ha="right")
    if shown:
        patches = [Patch(color=colour, alpha=0.55) for colour in ("C0", PUBLISHED_COLOUR)]
        place_legend(figure, patches, [f"ours, {count_runs(table)}", behind])
    return figure


def count_runs(table: Table) -> str:
    """How many runs each model has: `50 runs of each model`, `50 to 300 runs of each model`."""
    counts = table.groupby("model").size()
    low, high = int(counts.min()), int(counts.max())
    number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{number} run{'s' if high > 1 else ''} of each model"


def marked_title(table: Table, score: str) -> str:
    """The title of a score, with a mark if that of any run is unreliable."""
    mark = " (unreliable)" if statistics.unreliable_runs(table, score).any() else ""
    return score_title(score) + mark


def _title(axis: Axes, score: str, table: Table) -> None:
    axis.set_title(fill(marked_title(table, score), TITLE_WIDTH))


def place_legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend above all panels, in as many columns as have room; long labels are broken."""
    room = figure.get_figwidth() - HANDLE_WIDTH
    broken = [fill(label, int(room / LETTER_WIDTH)) for label in labels]
    longest = max(len(line) for label in broken for line in label.splitlines())
    columns = int(figure.get_figwidth() / (HANDLE_WIDTH + LETTER_WIDTH * longest))
    columns = max(1, min(MAX_LEGEND_COLUMNS, len(labels), columns))
    figure.legend(handles, broken, loc=LEGEND_PLACE, ncols=columns, frameon=False)


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
            "markerfacecolor": PAPER,
            "markeredgecolor": INK,
        },
        medianprops={"color": INK},
        whiskerprops={"color": colour},
        capprops={"color": colour},
    )
    for box in plot["boxes"]:
        box.set(facecolor=colour, alpha=0.55, edgecolor=colour)


@styled
def by_data(study: Results, scores: Sequence[str] | None = None) -> Figure:
    """The mean of the scores by dataset and model, as a heat map."""
    table, scores = _read(study, scores)
    grid = statistics.mean_by_dataset(table, scores).dropna(how="all")
    figure, (axis,) = panels(1, width=2.5 + 0.8 * grid.shape[1], height=0.35 * len(grid) + 1)
    _heat(axis, grid.rename(columns=model_title), "{:.3f}", "YlGnBu")
    return figure


def _heat(axis: Axes, grid: Table, form: str, colours: str, reach: float | None = None) -> None:
    values = grid.to_numpy(float)
    image = axis.imshow(values, cmap=colours, aspect="auto", vmin=reach and -reach, vmax=reach)
    axis.set_xticks(range(grid.shape[1]), list(map(str, grid.columns)), rotation=35, ha="right")
    axis.set_yticks(range(grid.shape[0]), list(map(str, grid.index)))
    axis.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
            colour = "white" if dark else "black"
            text = form.format(value).replace("-", "−")
            text = text.lstrip("−") if not float(form.format(value)) else text
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)


@styled
def by_value(
    study: Results,
    score: str,
    published: Table | None = None,
    behind: str = "published, all values",
) -> Figure | None:
    """One score against the parameter that each model varies: mean and standard deviation.

    Published runs are drawn in grey and named `behind`.
    """
    table, _ = _read(study, [score])
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
                f"{behind}, {count_runs(published)}",
                {},
            )
        for data, group in ours.groupby("data", sort=False):
            curve(axis, group, score, None, str(data), positions)
        if score in statistics.ERRORS:
            _log_if_wide(axis.yaxis, ours[score])
        axis.set_title(model_title(str(model)))
        if not positions and (name := statistics.parameter_name(ours)):
            axis.set_xlabel(name)
    axes[0].set_ylabel(score_title(score))
    if table["data"].nunique() > 1 or published is not None:
        place_legend(figure, *axes[0].get_legend_handles_labels())
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
    means = means.assign(number=means["value"].map(statistics.number))
    if not positions:  # the line joins neighbours, in whatever order the runs were planned
        means = means.sort_values("number", kind="stable")
    axis.errorbar(
        [positions[str(name)] for name in means.index] if positions else means["number"],
        means["mean"],
        means["std"].fillna(0),
        marker="o",
        markersize=3,
        capsize=2,
        linestyle="none" if positions else "-",
        color=colour,
        label=label,
    )


@styled
def by_seed(study: Results, scores: Sequence[str] | None = None) -> Figure:
    """Every run of every setting, which shows the spread between seeds."""
    table, scores = _read(study, scores)
    settings = list(dict.fromkeys(map(str, statistics.in_order(table)["setting"])))
    height = max(1.6, 0.22 * len(settings) + 0.9)
    figure, axes = panels(len(scores), width=3.6, height=height)
    for panel, (axis, score) in enumerate(zip(axes, scores, strict=True)):
        for colour, (data, group) in enumerate(table.groupby("data", sort=False)):
            rows = group["setting"].map(settings.index)
            axis.plot(
                group[score],
                rows,
                "o",
                markersize=3,
                alpha=0.7,
                color=f"C{colour}",
                rasterized=len(group) > MAX_VECTOR_DOTS,
                label=str(data),
            )
        means = table.groupby("setting", sort=False)[score].mean()
        axis.plot(means, [settings.index(s) for s in means.index], "|", color=INK, ms=9)
        names = list(map(setting_title, settings)) if panel % 3 == 0 else [""] * len(settings)
        _rows(axis, names)
        _title(axis, score, table)
    if table["data"].nunique() > 1:
        place_legend(figure, *axes[0].get_legend_handles_labels())
    return figure


def _rows(axis: Axes, names: Sequence[str]) -> None:
    """Label the rows of a chart from the top, with room above and below."""
    axis.set_yticks(range(len(names)), list(names), fontsize=7)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.locator_params(axis="x", nbins=4)


def _log_if_wide(axis: Axis, values: Table) -> None:
    """Make an axis of positive values logarithmic if they differ much, with few plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = values.min(), values.max()
    if not high > WIDE * low > 0:
        return
    set_scale = axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale
    set_scale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < MANY_DECADES * low else (1,)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


@styled
def correlation(study: Results, scores: Sequence[str] | None = None) -> Figure:
    """Spearman's rank correlation between scores over runs."""
    table, scores = _read(study, scores)
    grid = statistics.rank_correlation(table, scores).rename(index=score_title, columns=score_title)
    figure, (axis,) = panels(1, width=2.4 + 0.6 * len(scores), height=1.3 + 0.36 * len(scores))
    _heat(axis, grid, "{:.2f}", "RdBu", 1)
    return figure


@styled
def shares(study: Results, scores: Sequence[str] | None = None) -> Figure:
    """The share of each score's variance explained by the model, its parameters and the seed."""
    table, scores = _read(study, scores)
    figure, (axis,) = panels(1, width=7, height=0.45 * len(scores) + 1.2)
    left = np.zeros(len(scores))
    explained = [statistics.variance_shares(table, score) for score in scores]
    for part, colour in (("model", "C0"), ("parameter", "C1"), ("seed", PUBLISHED_COLOUR)):
        width = np.array([share.get(part, 0.0) for share in explained])
        if width.any():
            axis.barh(range(len(scores)), width, left=left, color=colour, label=part)
        left += width
    _rows(axis, list(map(score_title, scores)))
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of the variance")
    place_legend(figure, *axis.get_legend_handles_labels())
    return figure


@styled
def comparisons(study: Results, scores: Sequence[str] | None = None) -> Figure | None:
    """The difference between every two models with its interval; decided ones are filled."""
    table, scores = _read(study, scores)
    compared = {s: pairs for s in scores if len(pairs := compare_pairs(table, s))}
    if not compared:
        return None
    rows = {
        score: {f"{model_title(r.first)} − {model_title(r.second)}": r for r in pairs.itertuples()}
        for score, pairs in compared.items()
    }
    names = list(dict.fromkeys(name for each in rows.values() for name in each))
    figure, axes = panels(len(rows), width=3.8, height=max(1.5, 0.26 * len(names) + 1))
    for panel, (axis, (score, row_of)) in enumerate(zip(axes, rows.items(), strict=True)):
        for name, row in row_of.items():
            y = names.index(name)
            axis.plot([row.low, row.high], [y, y], color="C0")
            axis.plot(row.difference, y, "o", color="C0", mfc="C0" if row.better else PAPER)
        axis.axvline(0, color=INK, linewidth=0.8)
        _rows(axis, names if panel % 3 == 0 else [""] * len(names))
        _title(axis, score, table)
        axis.set_xlabel("difference")
    return figure


@styled
def trade_off(study: Results, error: str, scores: Sequence[str] | None = None) -> Figure:
    """Each score against the reconstruction error; one dot per run, coloured by model."""
    table, scores = _read(study, scores)
    scores = [score for score in scores if score != error]
    figure, axes = panels(len(scores))
    for axis, score in zip(axes, scores, strict=True):
        for colour, (model, group) in enumerate(table.groupby("model", sort=False)):
            axis.plot(
                group[error],
                group[score],
                "o",
                markersize=3,
                alpha=0.7,
                color=f"C{colour}",
                rasterized=len(group) > MAX_VECTOR_DOTS,
                label=model_title(str(model)),
            )
        axis.locator_params(axis="x", nbins=4)
        axis.locator_params(axis="y", nbins=5)
        _log_if_wide(axis.xaxis, table[error])
        axis.set_xlabel(score_title(error))
        _title(axis, score, table)
    place_legend(figure, *axes[0].get_legend_handles_labels())
    return figure
