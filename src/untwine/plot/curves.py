"""Figures of a training and of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError
from untwine.registry import value_name
from untwine.runs.directory import TrainedRun
from untwine.scoring.scores import Score
from untwine.tools.figures import INK, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REFERENCES = {"random": "#c8ccd4", "rotated": "#8b93a1", "perfect": INK}
COLOUR = "#3b7dd8"
TRAINING, HELD_OUT, PREFIX = "training", "validation", "validation_"
LINE_COLOURS = {TRAINING: COLOUR, HELD_OUT: "#d9742b"}
MIN_ROWS_TO_SMOOTH = 40
STEEP = 4  # how many times the range of the rest a start must have to be left out
Numbers = NDArray[np.float64]


@styled
def history(training: TrainedRun | Sequence[Mapping[str, float]]) -> Figure:
    """The loss and its terms during training, a panel for each.

    Args:
        training: a finished run, or the rows that `untwine.fit` returns.
    """
    rows = training.shown_history() if isinstance(training, TrainedRun) else list(training)
    if not rows:
        raise DataError("the history has no rows; train for at least one step")
    terms: dict[str, dict[str, list[float]]] = {}
    for name in rows[0]:
        if name != "step":
            kind, term = (HELD_OUT, name.removeprefix(PREFIX)) if PREFIX in name else ("", name)
            terms.setdefault(term, {})[kind or TRAINING] = [row[name] for row in rows]
    return term_panels(np.array([row["step"] for row in rows]), terms)


def term_panels(steps: Numbers, terms: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """A small chart per term, with a line for training and one for held-out examples."""
    figure, axes = panels(len(terms), width=2.9, height=2.1, most=4)
    lines: dict[str, Any] = {}
    for axis, (name, kinds) in zip(axes, terms.items(), strict=True):
        start = first_row([np.array(y) for y in kinds.values()])
        for kind, y in kinds.items():
            lines[kind] = _draw_line(axis, steps[start:], np.array(y)[start:], LINE_COLOURS[kind])
        later = f", from step {_format_step(steps[start])}" if start else ""
        axis.set_title(name.replace("_", " ") + later, loc="left")
        axis.margins(x=0.01, y=0.08)
        axis.ticklabel_format(axis="y", useOffset=False)
        axis.xaxis.set_major_formatter(lambda step, _: _format_step(step))
    if len(lines) > 1:
        named = {"loc": "outside upper left", "ncols": 2, "frameon": False}
        figure.legend(lines.values(), lines.keys(), **named)
    return figure


def _draw_line(axis: Axes, x: Numbers, y: Numbers, colour: str) -> Any:
    """A curve; a long one in the background, and smoothed in front of that."""
    smoothed = smooth(y)
    if len(y) != len(smoothed) or (smoothed != y).any():
        axis.plot(x, y, color=colour, linewidth=0.8, alpha=0.3)
    return axis.plot(x, smoothed, color=colour, linewidth=1.4)[0]


def smooth(y: Numbers) -> Numbers:
    """The mean of each value and its neighbours, about a twentieth of all; few stay as they are.

    >>> smooth(np.array([1.0, 2.0, 4.0])).tolist()
    [1.0, 2.0, 4.0]
    """
    reach = len(y) // MIN_ROWS_TO_SMOOTH
    if not reach:
        return y
    sums = np.concatenate([[0.0], np.cumsum(y)])
    at = np.arange(len(y))
    wide = np.minimum(reach, np.minimum(at, len(y) - 1 - at))  # the same on both sides
    return (sums[at + wide + 1] - sums[at - wide]) / (2 * wide + 1)


def first_row(lines: Sequence[Numbers]) -> int:
    """The first row to draw: a steep start, which would flatten all that follows, is left out.

    >>> first_row([np.array([500.0] * 2 + [2.0, 1.0] * 20)]), first_row([np.arange(40.0)])
    (4, 0)
    """
    tenth = len(lines[0]) // 10
    whole = max(np.ptp(y) for y in lines)
    rest = max(np.ptp(y[tenth:]) for y in lines)
    return tenth if rest > 0 and whole > STEEP * rest else 0


def _format_step(step: float) -> str:
    """Abbreviate a number of steps: 500, 2k."""
    return f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"


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
