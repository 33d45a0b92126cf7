"""Runs of a study as a table, and the figures of its report."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from untwine import study_figures
from untwine.errors import DataError
from untwine.explore.answers import RunLine, Study
from untwine.pages import Section
from untwine.results import Folder, results
from untwine.statistics import Table
from untwine.study_report import sections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIDDEN = ("run", "value")  # columns that say nothing beside the others
DRAWING = threading.Lock()  # the style of figures is that of the whole process

Cell = str | float | None


def table_of(folder: Folder) -> Table | None:
    """A study's results; nothing while no run is scored."""
    try:
        return results(folder)
    except DataError:
        return None


def as_study(title: str, table: Table, names: Mapping[str, str]) -> Study:
    """Results to show.

    Args:
        title: of the study.
        table: its results.
        names: of the runs that can be looked at, by directory.
    """
    columns = [name for name in table.columns if name not in HIDDEN]
    rows = [[_cell(value) for value in row] for row in table[columns].itertuples(index=False)]
    runs = [names.get(str(run), "") for run in table["run"]] if "run" in table else [""] * len(rows)
    return Study(title=title, columns=columns, rows=rows, runs=runs)


def figures_of(table: Table) -> list[Section]:
    """The sections of the report that have a figure; none if there is nothing to say."""
    from matplotlib import rc_context

    with DRAWING, rc_context(study_figures.STYLE):
        try:
            return [one for one in sections(table, None) if one.figure is not None]
        except DataError:
            return []


def as_svg(figure: Figure) -> bytes:
    """A figure as SVG that stands alone."""
    from matplotlib import rc_context

    stream = io.StringIO()
    with DRAWING, rc_context(study_figures.STYLE):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :].encode()


def all_runs(title: str, lines: Iterable[RunLine]) -> Study:
    """Runs with the scores that any of them has."""
    lines = list(lines)
    scores = list(dict.fromkeys(score for line in lines for score in line.scores))
    rows: list[list[Cell]] = [
        [
            *(line.model or line.name, line.data, line.seed, line.steps, line.state),
            *(_cell(line.scores.get(score)) for score in scores),
        ]
        for line in lines
    ]
    return Study(
        title=title,
        columns=["model", "data", "seed", "steps", "state", *scores],
        rows=rows,
        runs=[line.name if line.state == "finished" else "" for line in lines],
    )


def _cell(value: Any) -> Cell:
    """A cell that JSON can hold."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None
