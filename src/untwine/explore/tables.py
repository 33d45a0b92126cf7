"""The runs of a study as a table, and the sections of its report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from untwine.errors import DataError
from untwine.explore.answers import RunLine, StudyColumn, StudySection, StudyTable
from untwine.registry import metrics
from untwine.report.study import describe_study, sections
from untwine.study.folder import StudyFolder
from untwine.study.statistics import (
    ERRORS,
    PARAMETER,
    STANDARD_SCORES,
    Table,
    higher_is_better,
    reported_scores,
    score_columns,
)
from untwine.study.table import results_table
from untwine.study.titles import score_title, setting_title
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


def study_table(folder: StudyFolder, table: Table, names: Mapping[str, str]) -> StudyTable:
    """The results of a study as a table for the page.

    Args:
        folder: of the study.
        table: the results.
        names: of the runs that can be opened, by directory.
    """
    reported = reported_scores(table)
    scores = [*reported, *(name for name in score_columns(table) if name not in reported)]
    described = ["setting", "seed", *scores, "data", "seconds", "model"]
    rest = [name for name in table.columns if name not in (*described, *HIDDEN_COLUMNS)]
    order = [name for name in (*described, *rest) if name in table.columns]
    values = {name: [_cell(value) for value in table[name]] for name in order}
    values["setting"] = [setting_title(str(value)) for value in values["setting"]]
    visible = {"setting", "seed", "data", "seconds", *reported}
    columns = [
        _column(name, values[name], score=name in scores, shown=name in visible) for name in order
    ]
    return StudyTable(
        title=folder.study.name,
        about=describe_study(folder, table),
        columns=columns,
        rows=[list(row) for row in zip(*values.values(), strict=True)],
        runs=[names.get(str(run), "") for run in table["run"]]
        if "run" in table
        else [""] * len(table),
    )


def _column(name: str, values: Sequence[Cell], *, score: bool, shown: bool) -> StudyColumn:
    """A column; one whose values are all the same is shown only if it is the first."""
    varies = len(set(values)) > 1 or len(values) < 2 or name in ("setting", "run")
    kind = "time" if name == "seconds" else "score" if score else "name"
    parameter = name.startswith(PARAMETER)
    return StudyColumn(
        name=name,
        title=_title(name, score),
        kind="parameter" if parameter or name in ("seed", "steps") else kind,
        unit="s" if name == "seconds" else _unit(name) if score else "",
        decimals=decimals([value for value in values if isinstance(value, float)]),
        better="" if not score else "higher" if higher_is_better(name) else "lower",
        shown=shown and varies,
    )


def _title(name: str, score: bool) -> str:
    if score:
        return score_title(name)
    return "time" if name == "seconds" else name.removeprefix(PARAMETER).replace("_", " ")


def _unit(score: str) -> str:
    """The unit of a score, where its metric names one."""
    label, _, key = score.partition(".")
    name = label.partition("[")[0]
    if key == "bits_per_dimension":
        return "bits"
    named = name in metrics and " in nats" in metrics[name].summary
    return "nats" if named and key in ("", "standard_error") else ""


def decimals(values: Sequence[float]) -> int:
    """Decimals that show three digits of the range of some numbers; 0 for whole numbers.

    >>> decimals([0.25, 0.5]), decimals([1.0, 2.0]), decimals([1234.5, 99.25]), decimals([])
    (3, 0, 0, 0)
    """
    if all(value.is_integer() for value in values):
        return 0
    size = (max(values) - min(values)) or abs(values[0])
    return max(0, min(6, 2 - math.floor(math.log10(size))))


def sections_of(table: Table) -> list[Section]:
    """The sections of the report; none if there is nothing to report."""
    from matplotlib import rc_context

    with DRAWING_LOCK, rc_context(STYLE):
        try:
            return list(sections(table, None))
        except DataError:
            return []


def section_answer(section: Section) -> StudySection:
    """A section of the report for the page."""
    return StudySection(
        name=section.name,
        title=section.title,
        note=section.sentence,
        points=list(section.points),
        header=list(section.header),
        rows=[list(row) for row in section.rows],
        best=sorted(section.best),
        folded=section.folded,
        figure=section.figure is not None,
    )


def all_runs(title: str, lines: Iterable[RunLine]) -> StudyTable:
    """Runs with their scores as a table for the page."""
    lines = list(lines)
    scores = list(dict.fromkeys(score for line in lines for score in line.scores))
    scores.sort(key=lambda name: (name not in STANDARD_SCORES, "." in name and name not in ERRORS))
    facts: dict[str, list[Cell]] = {
        "run": [line.label for line in lines],
        **{score: [_cell(line.scores.get(score)) for line in lines] for score in scores},
        "data": [line.data for line in lines],
        "state": [_state(line) for line in lines],
        "seed": [float(line.seed) for line in lines],
        "steps": [float(line.steps) for line in lines],
    }
    visible = {"run", "data", "state", "seed", "steps", *ERRORS[:1]}
    visible |= {name for name in scores if "." not in name or name in STANDARD_SCORES}
    unfinished = [line.phase for line in lines if line.phase not in ("finished", "elsewhere")]
    counts = [f"{unfinished.count(phase)} {phase}" for phase in dict.fromkeys(unfinished)]
    return StudyTable(
        title=title,
        about=[f"Not finished: {', '.join(counts)}."] if counts else [],
        columns=[
            _column(name, values, score=name in scores, shown=name in visible)
            for name, values in facts.items()
        ],
        rows=[list(row) for row in zip(*facts.values(), strict=True)],
        runs=[line.name if line.phase != "unreadable" else "" for line in lines],
    )


def _cell(value: Any) -> Cell:
    """Convert a value to one that JSON can represent."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _state(line: RunLine) -> str:
    return "; ".join(filter(None, (line.state, line.reason, line.problem)))
