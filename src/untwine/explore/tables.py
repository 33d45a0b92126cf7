"""The runs of a study as a table, and the figures of its report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from untwine.errors import DataError
from untwine.explore.answers import RunLine, StudyTable
from untwine.report.study import sections
from untwine.study.folder import StudyFolder
from untwine.study.statistics import Table
from untwine.study.table import results_table
from untwine.tools.figures import DRAWING_LOCK, STYLE
from untwine.tools.pages import Section

HIDDEN_COLUMNS = ("run", "value")  # redundant with other columns
Cell = str | float | None


def table_of(folder: StudyFolder) -> Table | None:
    """The results of a study; `None` while no run is scored."""
    try:
        return results_table(folder)
    except DataError:
        return None


def study_table(title: str, table: Table, names: Mapping[str, str]) -> StudyTable:
    """The results of a study as a table for the page.

    Args:
        title: of the study.
        table: the results.
        names: of the runs that can be opened, by directory.
    """
    columns = [name for name in table.columns if name not in HIDDEN_COLUMNS]
    rows = [[_cell(value) for value in row] for row in table[columns].itertuples(index=False)]
    runs = [names.get(str(run), "") for run in table["run"]] if "run" in table else [""] * len(rows)
    return StudyTable(title=title, columns=columns, rows=rows, runs=runs)


def figures_of(table: Table) -> list[Section]:
    """The sections of the report that have a figure; none if there is nothing to report."""
    from matplotlib import rc_context

    with DRAWING_LOCK, rc_context(STYLE):
        try:
            return [one for one in sections(table, None) if one.figure is not None]
        except DataError:
            return []


def all_runs(title: str, lines: Iterable[RunLine]) -> StudyTable:
    """Runs with their scores as a table for the page."""
    lines = list(lines)
    scores = list(dict.fromkeys(score for line in lines for score in line.scores))
    rows: list[list[Cell]] = [
        [
            *(line.model or line.name, line.data, line.seed, line.steps, _state(line)),
            *(_cell(line.scores.get(score)) for score in scores),
        ]
        for line in lines
    ]
    return StudyTable(
        title=title,
        columns=["model", "data", "seed", "steps", "state", *scores],
        rows=rows,
        runs=[line.name if line.state == "finished" else "" for line in lines],
    )


def _cell(value: Any) -> Cell:
    """Convert a value to one that JSON can represent."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _state(line: RunLine) -> str:
    return f"{line.state}; {line.problem}" if line.problem else line.state
