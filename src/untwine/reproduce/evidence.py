"""Results of the studies behind a reproduction: select runs, read scores, open models."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from untwine.data.opening import load_dataset
from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.reproduce.items import Item, PreparedItem
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
MEAN_OF_FIVE = "mean of five"  # column with the mean of the standard scores
PUBLISHED_NAMES = {  # the names of our datasets and scores in published tables
    "sprites": "dsprites",
    "reconstruction.squared_error": "reconstruction loss",
}


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

    def __init__(self, prepared: PreparedItem, *, quiet: bool = True) -> None:
        self.prepared = prepared
        self.quiet = quiet
        self._tables: dict[str, Table] = {}

    @property
    def item(self) -> Item:
        return self.prepared.item

    def folder(self, study: str) -> StudyFolder:
        if study not in self.prepared.folders:
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
            if len(rows):
                return rows
        text = " or ".join(_alternatives(description))
        raise DataError(f"{self.folder(study).study.name} has no scored run of {text}")

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

        rows = self.select(study, description, data)
        of_seed = rows[rows["seed"] == seed]
        row = (of_seed if len(of_seed) else rows).iloc[0]
        return open_run(self.folder(study).runs / str(row["run"]))

    def heading(self, study: str) -> str:
        """Return the datasets of a study, with those they stand in for."""
        from untwine.registry import datasets

        replaced = {_table_label(other): real for real, other in self.prepared.stand_ins.items()}
        labels: list[str] = []
        for name in map(str, self.table(study)["data"].unique()):
            real = replaced.get(name, "")
            # A dataset made of others is told apart only by its whole expression.
            same = real.partition("(")[0] == name.partition("(")[0]
            title = real if same else real and datasets[real.partition("(")[0]].title
            labels.append(f"{name}, a stand-in for {title}" if real else name)
        return "; ".join(labels)

    @functools.cached_property
    def published(self) -> Table | None:
        """The runs that the authors published, if the data directory has them."""
        from untwine.data.files import cache_directory
        from untwine.study.published import read_published

        folder = self.item.paper["published"]
        files = sorted((cache_directory() / folder).glob("*.csv.gz")) if folder else []
        return _add_mean(read_published(files)) if files else None

    def seconds(self) -> float:
        """Return the total training time of all runs."""
        import pandas as pd

        tables: Table = pd.concat([self.table(study) for study in self.prepared.folders])
        return float(tables.drop_duplicates("run")["seconds"].sum())


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
    """Published runs, on which the same claims are tested."""

    def __init__(self, evidence: Evidence, runs: Table) -> None:
        self.evidence = evidence
        self.runs = runs

    def table(self, study: str) -> Table:
        return self.runs.rename(columns={theirs: ours for ours, theirs in PUBLISHED_NAMES.items()})

    def select(self, study: str, description: Runs, data: str = "") -> Table:
        """Return the runs of a model, of one value if described; on our datasets by default."""
        table = self.table(study)
        ours = {name.partition("(")[0] for name in map(str, self.evidence.table(study)["data"])}
        names = [data] if data else sorted(ours)
        table = table[table["data"].isin([PUBLISHED_NAMES.get(name, name) for name in names])]
        for text in _alternatives(description):
            model = Description.read(text)
            values = {number(value) for _, value in model.numbers}
            rows = table[table["model"] == model.model]
            rows = rows[rows["value"].map(number).isin(values)] if values else rows
            if len(rows):
                return rows
        raise DataError(f"no published runs of {' or '.join(_alternatives(description))}")


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
        raise UnknownNameError(unknown_name("score of this study", name, list(row.keys())))
    return row[name] * (float(factor) if times else 1.0)
