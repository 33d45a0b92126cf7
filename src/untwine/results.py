"""A study's directory: what was planned, how far it is, and its results as a table.

study.json     the runs, the metrics, how many examples they are scored on, and where runs are kept
runs/          a directory for each run, if they are not kept in another place; of those at an
               address a copy of what says how they ended
imported.csv   instead of runs: results that others published
report/        written by `untwine study report`
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwine.errors import DataError, RunError
from untwine.guards import is_running
from untwine.jobs import Job, is_complete
from untwine.mirror import is_address, pull
from untwine.registry import Choice
from untwine.runs import kept_scores, read_json, warn
from untwine.schema import written
from untwine.spec import Run
from untwine.statistics import Table, table_of
from untwine.store import write_json
from untwine.study import Study

STATES = ("done", "running", "failed", "waiting")


@dataclass(frozen=True)
class Folder:
    """A study and where its runs are."""

    path: Path
    study: Study
    imported: bool = False
    place: str = ""  # of the runs, if it is another: a directory, or an address

    @property
    def runs(self) -> Path:
        """The directory in which runs can be read."""
        return self.path / "runs" if not self.place or self.remote else Path(self.place)

    @property
    def remote(self) -> bool:
        """Whether runs are kept at an address."""
        return is_address(self.place)

    def refresh(self) -> None:
        """Copy what is new at the address of the runs, if they have one."""
        if self.remote:
            pull(self.place, self.jobs())

    def jobs(self, **how: Any) -> list[Job]:
        """What is to be done, in order."""
        study = self.study
        return [
            Job(run, str(self.runs), study.metrics, study.examples, **how) for run in study.runs
        ]


def make_folder(study: Study, out: str | Path = "studies", *, runs: str = "") -> Folder:
    """The directory of a study; one that is there takes the runs that the study has now.

    Args:
        study: what is planned.
        out: the directory that holds the studies.
        runs: where runs are kept, a directory or an fsspec URL; if not given where they were
            before, or else in the study's own directory.
    """
    path = Path(out) / study.name
    if study.runs and (path / "imported.csv").exists():
        raise DataError(
            f"{path} holds results that were imported; give the study another name, or --out"
        )
    path.mkdir(parents=True, exist_ok=True)
    if runs and not is_address(runs):
        runs = str(Path(runs).expanduser().resolve())
    place = runs or _recorded_place(path)
    write_json(
        path / "study.json",
        {
            "study": study.name,
            "about": study.about,
            "metrics": study.metrics,
            "examples": study.examples,
            "place": place,
            "runs": [run.to_json() for run in study.runs],
        },
    )
    return Folder(path, study, place=place)


def _recorded_place(path: Path) -> str:
    """Where the runs of a study that is there are kept; one that is damaged is planned anew."""
    try:
        return str(read_json(path / "study.json").get("place", ""))
    except RunError:
        return ""


def open_folder(name: str | Path, out: str | Path = "studies") -> Folder:
    """The study in this directory, or the one of this name below `out`."""
    for path in (Path(name), Path(out) / str(name)):
        if (path / "study.json").is_file():
            return _read(path)
    known = sorted(path.parent.name for path in Path(out).glob("*/study.json"))
    there = f"there are: {', '.join(known)}" if known else "there are none yet"
    raise DataError(f"there is no study at {name} or in {out}; {there}")


def _read(path: Path) -> Folder:
    facts = read_json(path / "study.json")
    try:
        runs = tuple(Run.from_json(run) for run in facts["runs"])
        study = Study(
            facts["study"], runs, tuple(facts["metrics"]), facts["examples"], facts["about"]
        )
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / 'study.json'} is damaged; plan the study again") from error
    imported = (path / "imported.csv").exists()
    return Folder(path, study, imported, str(facts.get("place", "")))


def state(job: Job) -> str:
    """Where a run stands: done, running, failed or waiting."""
    if is_complete(job):
        return "done"
    if is_running(job.path):
        return "running"
    return "failed" if (job.path / "failed.json").exists() else "waiting"


def failure(job: Job) -> str:
    """Why a run failed: the last line of its reason."""
    try:
        reason = read_json(job.path / "failed.json").get("reason")
    except RunError as error:
        return str(error)
    return str(reason).strip().rpartition("\n")[2]


def states(folder: Folder) -> dict[str, list[Job]]:
    """The runs of a study by where they stand."""
    found: dict[str, list[Job]] = {name: [] for name in STATES}
    jobs = folder.jobs()
    with ThreadPoolExecutor(8) as pool:
        for job, where in zip(jobs, pool.map(state, jobs), strict=True):
            found[where].append(job)
    return found


def results(folder: Folder) -> Table:
    """A row for each scored run: model, parameters, data, seed, and its scores.

    A run whose scores are damaged is warned of and left out.

    `setting` says in words which numbers of the model differ within the study.
    """
    import pandas as pd

    if folder.imported:
        return pd.read_csv(folder.path / "imported.csv")
    jobs = [job for job in folder.jobs() if (job.path / "scores.json").exists()]
    with ThreadPoolExecutor(8) as pool:
        scores = list(pool.map(_scores, jobs))
        seconds = list(pool.map(lambda job: _seconds(job.path), jobs))
    if not any(scores):
        raise DataError(f"no run of {folder.study.name} is scored yet; untwine study run starts it")
    varying = varying_numbers(run for run in folder.study.runs)
    rows = [
        {**described(job.spec, varying), "seconds": taken, **score}
        for job, score, taken in zip(jobs, scores, seconds, strict=True)
        if score is not None
    ]
    return table_of(rows)


def _scores(job: Job) -> dict[str, float] | None:
    """What a run scored; nothing if that is damaged."""
    try:
        return kept_scores(job.path)
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


def described(run: Run, varying: dict[str, set[tuple[str, str]]]) -> dict[str, Any]:
    """What a run is, in columns."""
    numbers = _numbers(run)
    differing = varying.get(run.model_name, set())
    named = [f"{key[1]}={numbers[key]}" for key in numbers if key in differing]
    value = next((numbers[key] for key in numbers if key in differing), "")
    return {
        "model": run.model_name,
        "setting": " ".join([run.model_name, *named]),
        "value": value,
        "data": shown(run.data),
        "seed": run.seed,
        "run": run.directory,
    }


def _numbers(run: Run) -> dict[tuple[str, str], str]:
    """Every number of a run's model and training, as text; the seed and the data apart."""
    pieces = [*run.model, run.network, run.likelihood]
    found = {(p.name, key): written(value) for p in pieces for key, value in p.params.items()}
    own = {("run", name): str(getattr(run, name)) for name in ("latent", "batch", "steps", "lr")}
    names = {("run", "network"): run.network.name, ("run", "likelihood"): run.likelihood.name}
    return {**found, **own, **names}


def shown(data: Choice) -> str:
    """A dataset as tables name it: without what is at its default."""
    from untwine.registry import datasets

    short = datasets.shortened(data)
    return str(Choice(data.name, {k: v for k, v in short.items() if k not in ("name", "digest")}))


def _seconds(path: Path) -> float | None:
    try:
        return float(json.loads((path / "done.json").read_text())["seconds"])
    except (OSError, ValueError, KeyError):
        return None
