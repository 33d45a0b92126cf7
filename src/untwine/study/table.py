"""The results of a study as a table."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from untwine.errors import DataError, RunError
from untwine.optimisers import Training
from untwine.registry import Choice, datasets, metrics
from untwine.runs.directory import read_done, score_values
from untwine.schema import format_value
from untwine.spec import Run
from untwine.study.folder import StudyFolder, as_folder
from untwine.study.job import Job, compares_runs, read_metric
from untwine.study.published import imported_table
from untwine.study.statistics import (
    PARAMETER,
    Table,
    score_columns,
    table_of,
    unreliable_runs,
)
from untwine.study.stored_codes import Arrays, read_codes
from untwine.tools.terminal import warn


def results_table(study: StudyFolder | str | Path) -> Table:
    """A row for each scored run: model, parameters, data, seed, and its scores.

    `setting` names the parameters that differ within the study. Runs with damaged scores are
    skipped with a warning.

    Args:
        study: its folder, or the path or name of that.
    """
    folder = as_folder(study)
    if folder.imported:
        return imported_table(folder.path)
    jobs = [job for job in folder.jobs() if os.path.lexists(job.path / "scores.json")]
    with ThreadPoolExecutor(8) as pool:
        scores = list(pool.map(_scores, jobs))
        seconds = list(pool.map(lambda job: _seconds(job.path), jobs))
    if not any(scores):
        raise DataError(f"no run of {folder.study.name} is scored yet; untwine study run starts it")
    varying = varying_numbers(run for run in folder.study.runs)
    rows = [
        {**describe_run(job.spec, varying), "seconds": taken, **parameters(job.spec), **score}
        for job, score, taken in zip(jobs, scores, seconds, strict=True)
        if score
    ]
    return add_notes(add_comparisons(folder, table_of(rows)))


def add_notes(table: Table) -> Table:
    """The table with a column of notes, if the score of any run is marked as unreliable."""
    notes = {score: unreliable_runs(table, score) for score in score_columns(table)}
    headlines = {score: marked for score, marked in notes.items() if "." not in score}
    if not any(marked.any() for marked in headlines.values()):
        return table
    text = [
        "; ".join(f"{score} is unreliable" for score, marked in headlines.items() if marked[run])
        for run in table.index
    ]
    return table.assign(note=text)


def add_comparisons(folder: StudyFolder, table: Table) -> Table:
    """The table with a column for each requested metric that compares runs.

    A run is compared with the other seeds of its setting, on the same examples; without the codes
    of at least two of them it has no score.
    """
    for choice in map(read_metric, filter(compares_runs, folder.study.metrics)):
        label, per_run = metrics.label(choice), metrics[choice.name].metadata["per_run"]
        table = table.assign(**{label: np.nan})
        for _, group in table.groupby(["setting", "data"]):
            stored = {
                index: arrays
                for index, run in group["run"].items()
                if (arrays := _codes(folder.runs / str(run))) is not None
            }
            if len(stored) > 1:
                codes = [arrays["codes"] for arrays in stored.values()]
                kl = [arrays["kl"] for arrays in stored.values()]
                table.loc[list(stored), label] = per_run(codes, kl, **choice.params)
    return table


def _scores(job: Job) -> dict[str, float] | None:
    """What a run scored; nothing if that is damaged."""
    try:
        return score_values(job.path)
    except RunError as error:
        warn(str(error))
        return None


def _codes(path: Path) -> Arrays | None:
    """The codes of a run; nothing if they are damaged."""
    try:
        return read_codes(path)
    except RunError as error:
        warn(str(error))
        return None


def varying_numbers(runs: Iterable[Run]) -> dict[str, set[tuple[str, str]]]:
    """For each model, the (piece, parameter) pairs that differ between its runs."""
    seen: dict[str, dict[tuple[str, str], set[str]]] = {}
    for run in runs:
        numbers = seen.setdefault(run.model_name, {})
        for key, value in _numbers(run).items():
            numbers.setdefault(key, set()).add(value)
    return {
        model: {key for key, values in numbers.items() if len(values) > 1}
        for model, numbers in seen.items()
    }


def describe_run(run: Run, varying: dict[str, set[tuple[str, str]]]) -> dict[str, Any]:
    """What a run is, in columns."""
    numbers = _numbers(run)
    differing = varying.get(run.model_name, set())
    named = [f"{key[1]}={numbers[key]}" for key in numbers if key in differing]
    value = next((numbers[key] for key in numbers if key in differing), "")
    return {
        "model": run.model_name,
        "setting": " ".join([run.model_name, *named]),
        "value": value,
        "data": dataset_label(run.data),
        "seed": run.seed,
        "run": run.directory,
    }


def parameters(run: Run) -> dict[str, Any]:
    """Every parameter of a run in columns: `set.beta`, `set.steps`, `set.network`, ...

    A parameter that several pieces of a model have is named with its piece: `set.jigsaw.grid`.
    """
    pieces = [*run.model, run.network, run.likelihood]
    names = Counter(key for piece in pieces for key in piece.params)
    training = {k: v for k, v in asdict(run.training).items() if v != getattr(Training(), k)}
    columns: dict[str, Any] = {k: v for k, v in run.numbers.items() if k != "seed"} | training
    columns |= {"network": run.network.name, "likelihood": run.likelihood.name}
    for piece in pieces:
        for key, value in piece.params.items():
            unique = names[key] == 1 and key not in columns
            columns[key if unique else f"{piece.name}.{key}"] = value
    plain = (bool, int, float, str)
    return {
        f"{PARAMETER}{key}": value if isinstance(value, plain) else format_value(value)
        for key, value in columns.items()
    }


def _numbers(run: Run) -> dict[tuple[str, str], str]:
    """Every number of a run's model and training, as text; the seed and the data apart."""
    pieces = [*run.model, run.network, run.likelihood]
    params = {(p.name, key): format_value(value) for p in pieces for key, value in p.params.items()}
    numbers = {**run.numbers, **asdict(run.training)}
    own = {("run", name): str(value) for name, value in numbers.items() if name != "seed"}
    names = {("run", "network"): run.network.name, ("run", "likelihood"): run.likelihood.name}
    return {**params, **own, **names}


def dataset_label(data: Choice) -> str:
    """A dataset as tables name it: without what is at its default."""
    return datasets.expression(data)


def _seconds(path: Path) -> float | None:
    try:
        return float(read_done(path)["seconds"])
    except RunError:  # named with the scores
        return None
