"""Results of the studies behind a reproduction: select runs, read scores, open models."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from untwine.data.opening import load_dataset
from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.reproduce.items import Item, Paper, PreparedItem
from untwine.reproduce.registry import measure_run
from untwine.schema import unknown_name
from untwine.spec import Run
from untwine.study.folder import StudyFolder
from untwine.study.statistics import STANDARD_SCORES, Table, number
from untwine.study.table import results_table
from untwine.tools.progress import progress

if TYPE_CHECKING:
    from untwine.runs.directory import TrainedRun

Runs = str | Sequence[str]  # a description of runs; of several, the first that matches a run
AND = " and "  # joins descriptions: the runs of both
ALL_DATA = "all"  # names every dataset of the published runs
MEAN_OF_FIVE = "mean of five"  # column with the mean of the standard scores


class NoRuns(DataError):
    """Runs that a test asks for have not been made."""


@dataclass(frozen=True)
class Description:
    """A description of runs, such as `beta-vae` or `dip-vae-ii lambda_od=5`."""

    model: str
    numbers: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, text: str) -> Description:
        model, *rest = text.split()
        pairs = [word.partition("=") for word in rest]
        if not all(equals for _, equals, _ in pairs):
            raise ParameterError(f"runs are described as MODEL NAME=VALUE ..., not {text!r}")
        parts = "+".join(sorted(model.split("+")))  # as a run's name has them
        return cls(parts, tuple((key.replace("-", "_"), value) for key, _, value in pairs))

    def fits(self, run: Run) -> bool:
        return run.model_name == self.model and all(_run_has(run, *pair) for pair in self.numbers)


def _run_has(run: Run, key: str, value: str) -> bool:
    """Whether a piece of the run, or its training, has this value of a parameter."""
    pieces = [*run.model, run.network, run.likelihood]
    values = [params[key] for params in (*(p.params for p in pieces), run.numbers) if key in params]
    return any(str(v) == value or number(v) == number(value) for v in values)


class Evidence:
    """The results of an item's studies."""

    def __init__(
        self,
        prepared: PreparedItem,
        *,
        tables: Mapping[str, Table] | None = None,
        incomplete: Mapping[str, Sequence[Run]] | None = None,
        models: bool = True,
        quiet: bool = True,
    ) -> None:
        """Open the results.

        Args:
            prepared: the item with its studies.
            tables: recorded tables, which need no runs.
            incomplete: a run of each setting that a recorded table lacks.
            models: whether runs are here, so that their models can be opened.
            quiet: hide the progress bar.
        """
        self.prepared = prepared
        self.quiet = quiet
        self._models = models
        self._incomplete: Mapping[str, Sequence[Run]] = incomplete or {}
        self._tables: dict[str, Table] = dict(tables or {})

    @property
    def item(self) -> Item:
        return self.prepared.item

    def folder(self, study: str) -> StudyFolder:
        if study not in self.prepared.folders:
            if study in self.item.paper["studies"]:
                raise NoRuns(f"{study} has not been run")
            kind = f"study of {self.item.address}"
            raise UnknownNameError(unknown_name(kind, study, self.prepared.folders))
        return self.prepared.folders[study]

    def table(self, study: str) -> Table:
        """Return a row for each scored run, with its scores and measures; cached."""
        if study not in self._tables:
            folder = self.folder(study)
            table = _add_mean(self._add_measures(study, results_table(folder)))
            self._tables[study] = table.rename(columns=_factor_names(folder, table.columns))
        return self._tables[study]

    def _add_measures(self, study: str, table: Table) -> Table:
        """Return the table with a column for each number that the item measures of a run."""
        import pandas as pd

        measures = [
            (name, dict(params))
            for entry in self.item.measure
            for name, params in entry.items()
            if params["study"] == study
        ]
        rows: list[dict[str, float]] = [{} for _ in range(len(table))]
        with progress(len(measures) * len(rows), "measuring", quiet=self.quiet) as show:
            for position, (name, params) in enumerate(measures):
                label = params.pop("label", "")
                del params["study"]
                for row, directory in enumerate(table["run"]):
                    path = self.folder(study).runs / str(directory)
                    rows[row].update(measure_run(path, name, params, label))
                    show(position * len(rows) + row + 1, label or name)
        return pd.concat([table, pd.DataFrame(rows, index=table.index)], axis=1)

    def runs(self, study: str) -> dict[str, Run]:
        """Return the runs of a study by directory name."""
        return {run.directory: run for run in self.folder(study).study.runs}

    def select(self, study: str, description: Runs, data: str = "") -> Table:
        """Return the rows of the described runs, on one dataset or all.

        Of several descriptions the first that matches a run is used; `beta-vae and vae` matches the
        runs of both.
        """
        table, runs = self.table(study), self.runs(study)
        if data:
            table = table[[runs[name].data.name == data for name in table["run"]]]
        for text in _alternatives(description):
            parts = [Description.read(part) for part in text.split(AND)]
            rows = table[[any(part.fits(runs[name]) for part in parts) for name in table["run"]]]
            waiting = self._incomplete.get(study, ())
            if any(part.fits(run) for part in parts for run in waiting):
                raise NoRuns(f"some settings of {text} are not complete")
            if len(rows):
                return rows
        text = " or ".join(_alternatives(description))
        raise NoRuns(f"{self.folder(study).study.name} has no scored run of {text}")

    def has(self, study: str, description: Runs) -> bool:
        """Whether the study has scored runs of this description."""
        texts = [part for text in _alternatives(description) for part in text.split(AND)]
        runs, names = self.runs(study), self.table(study)["run"]
        return any(Description.read(text).fits(runs[name]) for text in texts for name in names)

    def open_model(
        self, study: str, description: Runs, seed: int = 0, data: str = ""
    ) -> TrainedRun:
        """Open one of the described runs: the one with this seed, or else the first."""
        from untwine.runs.directory import open_run

        if not self._models:
            raise NoRuns(f"{study} is known by its table alone")
        rows = self.select(study, description, data)
        of_seed = rows[rows["seed"] == seed]
        row = (of_seed if len(of_seed) else rows).iloc[0]
        directory = self.folder(study).runs / str(row["run"])
        if not directory.exists():
            raise NoRuns(f"{study} is known by its table alone, which has {directory.name}")
        return open_run(directory)

    def heading(self, *studies: str) -> str:
        """Return the datasets of some studies, with those they stand in for."""
        from untwine.registry import datasets

        replaced = {_table_label(other): real for real, other in self.prepared.stand_ins.items()}
        names = (str(name) for study in studies for name in self.table(study)["data"].unique())
        labels: list[str] = []
        for name in dict.fromkeys(names):
            real = replaced.get(name, "")
            # A dataset made of others is told apart only by its whole expression.
            same = real.partition("(")[0] == name.partition("(")[0]
            title = real if same else real and datasets[real.partition("(")[0]].title
            labels.append(f"{name}, a stand-in for {title}" if real else name)
        return "; ".join(labels)

    @functools.cached_property
    def published(self) -> Table | None:
        """The runs that others published, if the data directory has them."""
        return published_runs(self.item.paper)

    def seconds(self) -> float:
        """Return the total training time of all runs."""
        import pandas as pd

        tables: Table = pd.concat([self.table(study) for study in self.prepared.folders])
        return float(tables.drop_duplicates("run")["seconds"].sum())


def published_runs(paper: Paper) -> Table | None:
    """Return the published runs that a paper's file names, if the data directory has them."""
    from untwine.data.cache import cache_directory
    from untwine.study.published import read_published

    folder = paper["published"].get("folder", "") if paper["published"] else ""
    files = sorted((cache_directory() / folder).glob("*.csv.gz")) if folder else []
    return _add_mean(read_published(files)) if files else None


def _table_label(data: str) -> str:
    """Return the label of a dataset in tables of runs."""
    from untwine.data.opening import resolve_dataset
    from untwine.registry import datasets
    from untwine.study.table import dataset_label

    entry, params = resolve_dataset(data)
    return dataset_label(datasets.choose(entry.name, **params))


def available(evidence: Evidence, study: str, runs: Mapping[str, Runs]) -> dict[str, Runs]:
    """Return the models with scored runs; a smaller scale may lack some."""
    return {
        name: description for name, description in runs.items() if evidence.has(study, description)
    }


def open_models(
    evidence: Evidence, study: str, runs: Mapping[str, Runs], seed: int
) -> Iterator[tuple[str, TrainedRun]]:
    """Open the available models one by one; yields the display name and the run."""
    for name, description in available(evidence, study, runs).items():
        yield name, evidence.open_model(study, description, seed)


class PublishedEvidence:
    """Published runs under our names, on which the same claims are tested.

    The paper's file says in `published` which of their runs, scores and datasets stand for ours.
    """

    def __init__(self, runs: Table, names: Mapping[str, Any]) -> None:
        self._runs_of: Mapping[str, str] = names.get("runs", {})
        self._studies: Mapping[str, Sequence[str]] = names.get("studies", {})
        columns = {
            ours: runs[theirs] for ours, theirs in names.get("scores", {}).items() if theirs in runs
        }
        self._table = _add_mean(runs.assign(**columns))

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(self._table["data"]))

    def covers(self, params: Mapping[str, Any], changes: Mapping[str, Any] | None) -> bool:
        """Whether published runs stand for the study of a claim."""
        return "data" in (changes or {}) or params["study"] in self._studies

    def table(self, study: str) -> Table:
        """Return the runs on the datasets that stand for those of a study."""
        names = self._studies.get(study) or self.datasets
        return self._table[self._table["data"].isin(list(names))]

    def select(self, study: str, description: Runs, data: str = "") -> Table:
        """Return the described runs, on one dataset, all, or those that stand for a study's."""
        whole = self._table if data else self.table(study)
        table = whole if data in ("", ALL_DATA) else whole[whole["data"] == data]
        for text in _alternatives(description):
            parts = [self._fits(table, part) for part in text.split(AND)]
            rows = table[functools.reduce(lambda a, b: a | b, parts)]
            if len(rows):
                return rows
        raise NoRuns(f"no published runs of {' or '.join(_alternatives(description))}")

    def _fits(self, table: Table, text: str) -> Any:
        """Which rows a description, or what stands for it, describes."""
        wanted = Description.read(self._runs_of.get(text, text))
        values = {number(value) for _, value in wanted.numbers}
        fits = table["model"] == wanted.model
        return fits & table["value"].map(number).isin(values) if values else fits


def _add_mean(table: Table) -> Table:
    """Return the table with the mean of the five standard scores, if it has all of them."""
    if not set(STANDARD_SCORES) <= set(table.columns):
        return table
    return table.assign(**{MEAN_OF_FIVE: table[list(STANDARD_SCORES)].mean(axis=1)})


def _factor_names(folder: StudyFolder, columns: Iterable[str]) -> dict[str, str]:
    """Return new names of the columns `... of factor 20`, if the study has one dataset."""
    numbered = {c: int(m[1]) for c in columns if (m := re.search(r" of factor (\d+)$", c))}
    data = {run.data.name: run.data for run in folder.study.runs}
    if not numbered or len(data) > 1:
        return {}
    factors = load_dataset(next(iter(data.values()))).factors
    assert factors is not None
    return {c: c.replace(f"factor {k}", factors.names[k]) for c, k in numbered.items()}


def _alternatives(description: str | Iterable[str]) -> list[str]:
    return [description] if isinstance(description, str) else list(description)


def value_of(row: Any, score: str | Sequence[str]) -> Any:
    """Return a score of rows, or a multiple such as `100 * sap`; of several, the mean."""
    if not isinstance(score, str):
        values = [value_of(row, one) for one in score if one.rpartition(" * ")[2] in row]
        return sum(values) / len(values) if values else value_of(row, score[0])
    factor, times, name = score.rpartition(" * ")
    if name not in row:
        measure, dot, _ = name.partition(".")
        others = [key for key in row.keys() if dot and str(key).startswith(f"{measure}.")]
        if others:  # a value that a measure leaves out where it has nothing to tell
            return row[others[0]] * float("nan")
        raise UnknownNameError(unknown_name("score of this study", name, list(row.keys())))
    return row[name] * (float(factor) if times else 1.0)
