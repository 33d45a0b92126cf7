"""Figures of a training and of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from untwine.errors import DataError
from untwine.runs.directory import TrainedRun, value_name
from untwine.scoring.scores import Score
from untwine.tools.figures import INK, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REFERENCES = {"random": "#c8ccd4", "rotated": "#8b93a1", "perfect": INK}
COLOUR = "#3b7dd8"


@styled
def history(training: TrainedRun | Sequence[Mapping[str, float]]) -> Figure:
    """The loss and its terms during training, a panel for each.

    Args:
        training: a finished run, or the rows that `untwine.fit` returns.
    """
    rows = training.shown_history() if isinstance(training, TrainedRun) else list(training)
    if not rows:
        raise DataError("the history has no rows; train for at least one step")
    lines = {name: [row[name] for row in rows] for name in rows[0] if name != "step"}
    return line_panels([row["step"] for row in rows], lines)


def line_panels(x: Sequence[float], lines: Mapping[str, Sequence[float]]) -> Figure:
    """One small chart per line, side by side, against steps."""
    figure, axes = panels(len(lines), width=2.9, height=2.1, most=4)
    for axis, (name, y) in zip(axes, lines.items(), strict=True):
        axis.plot(x, y, color=COLOUR, linewidth=1.4)
        axis.set_title(name.replace("_", " "), loc="left")
        axis.margins(x=0.01)
        axis.set_ylim(*_axis_limits(y))
        axis.ticklabel_format(axis="y", useOffset=False)
        axis.xaxis.set_major_formatter(lambda step, _: _format_step(step))
    return figure


def _format_step(step: float) -> str:
    """Abbreviate a number of steps: 500, 2k."""
    return f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"


def _axis_limits(y: Sequence[float]) -> tuple[float, float]:
    """The range of a curve; its first tenth, which may be steep, does not count at the top."""
    settled = np.asarray(y)[len(y) // 10 :]
    low, high = float(np.min(y)), float(np.max(settled))
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin


@styled
def scores(values: Mapping[str, Score]) -> Figure:
    """Scores beside those of noise, of the rotated true factors and of the true factors.

    Scores without these references have a panel each.

    Args:
        values: what `untwine.evaluate` returns.
    """
    rows = {
        value_name(metric, key): (value, {k: r[key] for k, r in s.references.items() if key in r})
        for metric, s in values.items()
        for key, value in s.values.items()
    }
    compared = {name: row for name, row in rows.items() if row[1]}
    alone = {name: value for name, (value, references) in rows.items() if not references}
    if not rows:
        raise DataError("there are no scores to draw; evaluate the model with at least one metric")
    height = max(1.6, 0.32 * len(compared) + 0.9)
    figure, axes = panels(bool(compared) + len(alone), width=3.6, height=height)
    if compared:
        _dots(axes[0], compared)
    for axis, (name, value) in zip(axes[bool(compared) :], alone.items(), strict=True):
        axis.barh([0], [value], color=COLOUR, height=0.5)
        axis.set_yticks([0], [f"{value:.4g}"])
        axis.set_ylim(-1, 1)
        axis.set_title(name, loc="left")
    return figure


def _dots(axis: Axes, rows: Mapping[str, tuple[float, Mapping[str, float]]]) -> None:
    """A row per score: its dot, and those of the reference codes."""
    for position, (value, references) in enumerate(rows.values()):
        marks = [*references.values(), value]
        axis.plot([min(marks), max(marks)], [position, position], color="#e3e6ea", zorder=0)
        for kind, reference in references.items():
            colour = REFERENCES.get(kind, "#8b93a1")
            label = kind if position == 0 else None
            axis.plot(reference, position, "|", ms=9, mew=2, color=colour, label=label)
        label = "this model" if position == 0 else None
        axis.plot(value, position, "o", color=COLOUR, label=label)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False, fontsize=8)
