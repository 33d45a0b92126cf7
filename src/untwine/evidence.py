"""What the studies of a reproduction found: runs by description, scores, and models to look at."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.measures import measured
from untwine.progress import progress
from untwine.reproduction import Item, Prepared
from untwine.results import Folder, results
from untwine.schema import unknown
from untwine.selection import with_udr
from untwine.spec import Run, load
from untwine.statistics import USUAL, Table, number

if TYPE_CHECKING:
    from untwine.runs import Finished

Runs = str | Sequence[str]  # as a person describes them; of several the first that fits any
AND = " and "  # between descriptions of runs that belong together
FIVE = "mean of five"  # the usual disentanglement scores
SAME = {
    "sprites": "dsprites",
    "reconstruction.squared_error": "reconstruction loss",
}  # published as


@dataclass(frozen=True)
class Description:
    """Runs as a person writes them: `dip-vae-ii lambda_od=5`, `beta-vae`."""

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
        return run.model_name == self.model and all(_has(run, *pair) for pair in self.numbers)


def _has(run: Run, key: str, value: str) -> bool:
    """Whether some part of a run, or its training, has this number or name."""
    pieces = [*run.model, run.network, run.likelihood]
    found = [piece.params[key] for piece in pieces if key in piece.params]
    found += [getattr(run, key)] if key in ("latent", "batch", "steps", "lr", "seed") else []
    return any(str(v) == value or number(v) == number(value) for v in found)


class Evidence:
    """The results of an item's studies."""

    def __init__(self, prepared: Prepared, *, quiet: bool = True) -> None:
        self.prepared = prepared
        self.quiet = quiet
        self._tables: dict[str, Table] = {}

    @property
    def item(self) -> Item:
        return self.prepared.item

    def folder(self, study: str) -> Folder:
        if study not in self.prepared.folders:
            kind = f"study of {self.item.address}"
            raise UnknownNameError(unknown(kind, study, self.prepared.folders))
        return self.prepared.folders[study]

    def table(self, study: str) -> Table:
        """A row for each scored run, with all that is measured; collected once."""
        if study not in self._tables:
            folder = self.folder(study)
            found = results(folder)
            found = with_udr(folder, found) if "udr" in folder.study.metrics else found
            found = _with_mean(self._with_measures(study, found))
            self._tables[study] = found.rename(columns=_factor_names(folder, found.columns))
        return self._tables[study]

    def _with_measures(self, study: str, found: Table) -> Table:
        """The table with a column for each number that the item measures of a study's runs."""
        import pandas as pd

        wanted = [
            (name, dict(how))
            for entry in self.item.measure
            for name, how in entry.items()
            if how["study"] == study
        ]
        rows: list[dict[str, float]] = [{} for _ in range(len(found))]
        with progress(len(wanted) * len(rows), "measuring", quiet=self.quiet) as show:
            for place, (name, how) in enumerate(wanted):
                label = how.pop("label", "")
                del how["study"]
                for row, directory in enumerate(found["run"]):
                    path = self.folder(study).runs / str(directory)
                    rows[row].update(measured(path, name, how, label))
                    show(place * len(rows) + row + 1, label or name)
        return pd.concat([found, pd.DataFrame(rows, index=found.index)], axis=1)

    def runs(self, study: str) -> dict[str, Run]:
        """The runs of a study by the name of their directory."""
        return {run.directory: run for run in self.folder(study).study.runs}

    def select(self, study: str, described: Runs, data: str = "") -> Table:
        """The rows of the runs that fit the first description that fits any, on some data.

        `beta-vae and vae` describes the runs of both.
        """
        table, runs = self.table(study), self.runs(study)
        if data:
            table = table[[runs[name].data.name == data for name in table["run"]]]
        for text in _texts(described):
            wanted = [Description.read(one) for one in text.split(AND)]
            rows = table[[any(w.fits(runs[name]) for w in wanted) for name in table["run"]]]
            if len(rows):
                return rows
        wanted = " or ".join(_texts(described))
        raise DataError(f"{self.folder(study).study.name} has no scored run of {wanted}")

    def has(self, study: str, described: Runs) -> bool:
        """Whether runs of this description are scored."""
        wanted = [Description.read(o) for text in _texts(described) for o in text.split(AND)]
        runs = self.runs(study)
        return any(w.fits(runs[name]) for w in wanted for name in self.table(study)["run"])

    def opened(self, study: str, described: Runs, seed: int = 0, data: str = "") -> Finished:
        """A model with its data: of a description the seed that is asked for, or else the first."""
        from untwine.runs import open_run

        rows = self.select(study, described, data)
        of_seed = rows[rows["seed"] == seed]
        row = (of_seed if len(of_seed) else rows).iloc[0]
        return open_run(self.folder(study).runs / str(row["run"]))

    def heading(self, study: str) -> str:
        """What data a study is on, and what that stands in for."""
        from untwine.registry import datasets

        stands = {_as_shown(other): real for real, other in self.prepared.stand_ins.items()}
        told: list[str] = []
        for name in map(str, self.table(study)["data"].unique()):
            real = stands.get(name, "")
            # Data made of other data has no better name than all of it.
            same = real.partition("(")[0] == name.partition("(")[0]
            title = real if same else real and datasets[real.partition("(")[0]].title
            told.append(f"{name}, a stand-in for {title}" if real else name)
        return "; ".join(told)

    @functools.cached_property
    def published(self) -> Table | None:
        """The runs that a paper is about, where they are in the folder of data that it names."""
        from untwine.datasets._files import cache_directory
        from untwine.published import read_published

        folder = self.item.paper["published"]
        files = sorted((cache_directory() / folder).glob("*.csv.gz")) if folder else []
        return _with_mean(read_published(files)) if files else None

    def seconds(self) -> float:
        """How long all runs took to train, one after the other."""
        import pandas as pd

        tables: Table = pd.concat([self.table(study) for study in self.prepared.folders])
        return float(tables.drop_duplicates("run")["seconds"].sum())


def _as_shown(data: str) -> str:
    """A dataset in the words of the tables of runs."""
    from untwine.registry import datasets
    from untwine.results import shown
    from untwine.spec import locate

    entry, given = locate(data)
    return shown(datasets.choose(entry.name, **given))


def present(evidence: Evidence, study: str, runs: Mapping[str, Runs]) -> dict[str, Runs]:
    """The models of which there are scored runs: a smaller scale may not have all."""
    return {name: described for name, described in runs.items() if evidence.has(study, described)}


def opened_models(
    evidence: Evidence, study: str, runs: Mapping[str, Runs], seed: int
) -> Iterator[tuple[str, Finished]]:
    """One model after the other, of those that are there, with the name it is shown by."""
    for name, described in present(evidence, study, runs).items():
        yield name, evidence.opened(study, described, seed)


class Published:
    """Published runs as evidence for the same claims."""

    def __init__(self, evidence: Evidence, runs: Table) -> None:
        self.evidence = evidence
        self.runs = runs

    def table(self, study: str) -> Table:
        return self.runs.rename(columns={theirs: ours for ours, theirs in SAME.items()})

    def select(self, study: str, described: Runs, data: str = "") -> Table:
        """The runs of a model and, where one is asked for, of its value; on our data by default."""
        table = self.table(study)
        ours = {name.partition("(")[0] for name in map(str, self.evidence.table(study)["data"])}
        wanted = [data] if data else sorted(ours)
        table = table[table["data"].isin([SAME.get(name, name) for name in wanted])]
        for text in _texts(described):
            model = Description.read(text)
            values = {number(value) for _, value in model.numbers}
            rows = table[table["model"] == model.model]
            rows = rows[rows["value"].map(number).isin(values)] if values else rows
            if len(rows):
                return rows
        raise DataError(f"there are no published runs of {' or '.join(_texts(described))}")


def _with_mean(table: Table) -> Table:
    """The table with the mean of the five usual scores, where all are there."""
    there = set(USUAL) <= set(table.columns)
    return table.assign(**{FIVE: table[list(USUAL)].mean(axis=1)}) if there else table


def _factor_names(folder: Folder, columns: Iterable[str]) -> dict[str, str]:
    """Scores `of factor 20` by the name of that factor, where a study has one dataset."""
    numbered = {c: int(m[1]) for c in columns if (m := re.search(r" of factor (\d+)$", c))}
    data = {run.data.name: run.data for run in folder.study.runs}
    if not numbered or len(data) > 1:
        return {}
    factors = load(next(iter(data.values()))).factors
    assert factors is not None
    return {c: c.replace(f"factor {k}", factors.names[k]) for c, k in numbered.items()}


def _texts(described: str | Iterable[str]) -> list[str]:
    return [described] if isinstance(described, str) else list(described)


def value_of(row: Any, score: str | Sequence[str]) -> Any:
    """A score of rows, or a multiple of it: `100 * sap`; of several the mean of those there."""
    if not isinstance(score, str):
        there = [value_of(row, one) for one in score if one.rpartition(" * ")[2] in row]
        return sum(there) / len(there) if there else value_of(row, score[0])
    factor, times, name = score.rpartition(" * ")
    if name not in row:
        raise UnknownNameError(unknown("score of this study", name, list(row.keys())))
    return row[name] * (float(factor) if times else 1.0)
