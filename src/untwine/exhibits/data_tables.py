"""Tables whose rows are datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from untwine.evidence import Evidence, value_of
from untwine.exhibits import exhibit
from untwine.exhibits.tables import MISSING, mean_and_spread
from untwine.pages import Section, file_name
from untwine.schema import written
from untwine.spec import Run
from untwine.statistics import Table, number


@exhibit
def table_by_data(
    evidence: Evidence,
    *,
    columns: Mapping[str, Mapping[str, Any]],
    rows: Mapping[str, Mapping[str, Any]],
    title: str = "The paper's numbers beside ours",
    study: str = "",
) -> Iterator[Section]:
    """A row for each dataset, a column for each model and score: mean and spread over seeds.

    Args:
        evidence: what our runs found.
        columns: the name of a column, with `runs` and the `score` of them, as in `100 * sap`.
        rows: the name of a row, with `data`, which is a dataset's name or one of its parameters as
            in `zeros=0.4`, or all data of the study; perhaps a `study` of its own, and `paper`, its
            numbers in the order of the columns.
        title: of the table.
        study: whose runs, for rows that do not say it.
    """
    # a column of the paper only where it has some number
    known = [any(_paper(row, k) != MISSING for row in rows.values()) for k in range(len(columns))]
    header: list[str] = []
    for name, there in zip(columns, known, strict=True):
        header += [f"{name}, paper", "ours"] if there else [name]
    body: list[tuple[str, ...]] = []
    for name, row in rows.items():
        of = str(row.get("study", study))
        found = _on(evidence, of, str(row.get("data", "")))
        if not found and "paper" not in row:
            continue  # a smaller scale may not have it
        cells = [name]
        for k, column in enumerate(columns.values()):
            ours = _cell(evidence, of, found, column)
            cells += [_paper(row, k), ours] if known[k] else [ours]
        body.append(tuple(cells))
    studies = dict.fromkeys(str(row.get("study", study)) for row in rows.values())
    yield Section(
        file_name("table", title.lower()),
        title,
        f"On {'; '.join(map(evidence.heading, studies))}. Mean ± standard deviation over seeds.",
        header=("", *header),
        rows=tuple(body),
    )


def _paper(row: Mapping[str, Any], column: int) -> str:
    """What the paper says in a column of a row."""
    numbers = row.get("paper", ())
    said = column < len(numbers) and numbers[column] is not None
    return str(numbers[column]) if said else MISSING


def _on(evidence: Evidence, study: str, data: str) -> set[str]:
    """The directories of a study's runs on the data so described."""
    return {name for name, run in evidence.runs(study).items() if is_on(run, data)}


def is_on(run: Run, data: str) -> bool:
    """Whether a run's dataset has this name, or this value of a parameter; empty fits all."""
    key, given, value = data.partition("=")
    if not given:
        return data in ("", run.data.name)
    found = written(run.data.params[key]) if key in run.data.params else ""
    return value == found or number(value) == number(found)


def _cell(evidence: Evidence, study: str, found: set[str], column: Mapping[str, Any]) -> str:
    listed = column["runs"] if isinstance(column["runs"], list) else [column["runs"]]
    for described in listed:
        if evidence.has(study, described):
            rows: Table = evidence.select(study, described)
            return mean_and_spread(value_of(rows[rows["run"].isin(found)], column["score"]))
    return MISSING
