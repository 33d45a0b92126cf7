"""The page of a search: what was tried, with a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine.registry import datasets, models
from untwine.runs.describe import train_command
from untwine.runs.directory import open_run
from untwine.tools.figures import panels, styled
from untwine.tools.files import write_bytes
from untwine.tools.pages import Section, render, save_figures
from untwine.tuning.search import Tried, Tuning, short
from untwine.tuning.space import Dimension

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, GREY = "#3b7dd8", "#8a93a0"
MAX_PANELS = 3  # in a row


def write_tuning_page(tuning: Tuning, *, quiet: bool = True) -> Path:
    """Write `index.html` and figures to the folder FILE.report; returns the page."""
    folder = tuning.file.with_suffix(".report")
    saved = save_figures(sections(tuning), folder, quiet=quiet)
    model = " + ".join(models[part.name].title for part in tuning.spec.model)
    data = datasets.expression(tuning.spec.data, "path", "digest")
    html = render(
        "tuning.html",
        title=f"{model} on {data}, tuned by {tuning.by}",
        summary=summary(tuning),
        command=train_command(open_run(tuning.best_run).spec),
        sections=saved,
    )
    write_bytes(folder / "index.html", html)
    return folder / "index.html"


def summary(tuning: Tuning) -> str:
    """How many trials became of what, in a sentence."""
    counts = {
        state: sum(tried.state == state for tried in tuning.trials)
        for state in ("finished", "pruned", "failed", "stopped")
    }
    texts = [f"{count} {state}" for state, count in counts.items() if count]
    seeds = f", each the mean of {tuning.seeds} seeds" if tuning.seeds > 1 else ""
    return f"{len(tuning.trials)} trials{seeds}: {', '.join(texts)}."


def sections(tuning: Tuning) -> Iterator[Section]:
    """The sections of the page."""
    best, goal = tuning.best, str(tuning.by)
    better = "higher" if tuning.by.higher_is_better else "lower"
    values = ", ".join(f"{name} = {short(value)}" for name, value in best.values.items())
    noise = (
        "Every trial has one seed, so that small differences may be chance; --seeds repeats trials."
        if tuning.seeds == 1
        else "Small differences may be chance; a study tests them."
    )
    yield Section(
        "best",
        "Best values",
        f"{values}: {goal} {best.score:.4g} ({better} is better), trial {best.number}. {noise}",
    )
    yield Section(
        "tried",
        "What was tried",
        f"{goal} by value and by trial. The best trial has a ring. Crosses are trials that were "
        "pruned, at their last score; the line is the best score so far.",
        tuning_figure(tuning),
    )
    names = [dimension.name for dimension in tuning.dimensions]
    rows = [*tuning.finished, *(one for one in tuning.trials if one.state != "finished")]
    yield Section(
        "trials",
        "All trials",
        "Finished trials first, best first.",
        header=("trial", *names, goal, "state", "run"),
        rows=tuple(_row(tried, names) for tried in rows),
        best=frozenset((0, column) for column in range(len(names) + 2)),
    )


def _row(tried: Tried, names: list[str]) -> tuple[str, ...]:
    score = "–" if tried.score is None else f"{tried.score:.4g}"
    values = [short(tried.values[name]) if name in tried.values else "–" for name in names]
    state = f"{tried.state}: {tried.reason}" if tried.reason else tried.state
    return (str(tried.number), *values, score, state, ", ".join(tried.runs))


@styled
def tuning_figure(tuning: Tuning) -> Figure:
    """The score by each searched value, and by trial."""
    figure, axes = panels(len(tuning.dimensions) + 1, most=MAX_PANELS)
    for axis, dimension in zip(axes, tuning.dimensions, strict=False):
        _draw_dimension(axis, tuning, dimension)
    _draw_progress(axes[-1], tuning)
    for axis in axes:
        axis.set_ylabel(str(tuning.by))
    return figure


def _draw_dimension(axis: Any, tuning: Tuning, dimension: Dimension) -> None:
    if dimension.choices:
        places = {choice: float(i) for i, choice in enumerate(dimension.choices)}
        axis.set_xticks(list(places.values()), list(places))
    else:
        places = {}
    if dimension.log:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")

    def place(tried: Tried) -> float:
        text = tried.values[dimension.name]
        return places[text] if places else float(text)

    _scatter(axis, tuning, place)
    axis.set_xlabel(dimension.name)


def _draw_progress(axis: Any, tuning: Tuning) -> None:
    finished = sorted(tuning.finished, key=lambda tried: tried.number)
    scores = np.array([tried.score for tried in finished])
    running = np.maximum if tuning.by.higher_is_better else np.minimum
    best = running.accumulate(scores)
    numbers = [*(tried.number for tried in finished), len(tuning.trials)]
    axis.step(numbers, [*best, best[-1]], where="post", color=GREY, linewidth=1)
    _scatter(axis, tuning, lambda tried: float(tried.number))
    axis.set_xlabel("trial")


def _scatter(axis: Any, tuning: Tuning, place: Any) -> None:
    for state, marker, colour in (("finished", "o", BLUE), ("pruned", "x", GREY)):
        points = [
            (place(tried), tried.score)
            for tried in tuning.trials
            if tried.state == state and tried.score is not None
        ]
        if points:
            axis.scatter(*zip(*points, strict=True), s=18, marker=marker, color=colour, zorder=3)
    best = tuning.best
    ring = {"s": 90, "facecolors": "none", "edgecolors": BLUE, "linewidths": 1.4, "zorder": 4}
    axis.scatter([place(best)], [best.score], **ring)
