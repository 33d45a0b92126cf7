"""The directory of a run: what was asked for, what came out, and how to resume after a crash.

run.json            the specification, the model's card, versions, and how it is computed
states/             the two newest checkpoints, until the run is finished
model.safetensors   the weights
history.csv         the terms of the loss
done.json           written last: the run is finished
scores.json         written by `evaluate`
report.html         written by `report`
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from untwine.data.dataset import Dataset
from untwine.data.opening import load_dataset, open_like
from untwine.errors import DataError, RunError
from untwine.registry import Choice, datasets
from untwine.runs.cards import load_from_card, load_model, run_card
from untwine.runs.states import list_states, state_step
from untwine.spec import Run, split_data
from untwine.tools.files import read_json, sha256
from untwine.tools.process import is_running
from untwine.train import History
from untwine.vae import VAE

STATES = ("finished", "running", "failed", "stopped", "waiting")
"""What a run can be: trained, being trained, given up with a reason, interrupted, not started."""


@dataclass(frozen=True)
class TrainedRun:
    """A finished run, read back. Its data is opened when it is first asked for."""

    path: Path
    spec: Run
    model: VAE
    open_data: Callable[[], Dataset]
    history: History
    record: dict[str, Any]  # run.json and done.json

    @cached_property
    def data(self) -> Dataset:
        """The data that the run was trained on."""
        return self.open_data()

    @cached_property
    def validation(self) -> Dataset | None:
        """The data that the run held out, if any."""
        return split_data(self.spec, self.data)[1]

    @property
    def scores(self) -> dict[str, float]:
        """The stored scores by name; `untwine.evaluate_run` computes more."""
        return score_values(self.path)

    def __repr__(self) -> str:
        return f"<TrainedRun {self.path}: {self.spec!r}>"


def is_finished(path: Path) -> bool:
    return (path / "done.json").exists()


def run_state(path: Path) -> str:
    """One of `STATES`."""
    if is_finished(path):
        return "finished"
    if is_running(path):
        return "running"
    if (path / "failed.json").exists():
        return "failed"
    return "stopped" if (path / "run.json").exists() else "waiting"


def describe_progress(path: Path, spec: Run) -> str:
    """The state of a run, with how far it is: `stopped at 40 %`."""
    state = run_state(path)
    if state == "finished":
        return state
    checkpoints = list_states(path / "states")
    step = state_step(checkpoints[0]) if checkpoints else 0
    return f"{state} at {100 * step // spec.steps} %"


def read_record(path: Path) -> dict[str, Any]:
    """The content of run.json and, for a finished run, of done.json."""
    record = read_json(path / "run.json")
    keys = {"spec", "how", "versions"}
    if is_finished(path):
        record |= read_json(path / "done.json")
        keys |= {"hash", "weights", "finished", "seconds"}
    if missing := sorted(keys - record.keys()):
        raise RunError(f"{path} is damaged: its files lack {', '.join(missing)}")
    return record


def read_spec(path: Path) -> Run:
    """The specification in run.json."""
    return parse_spec(path, read_record(path))


def parse_spec(path: Path, record: Mapping[str, Any]) -> Run:
    """The specification in the record of a run."""
    try:
        return Run.from_json(record["spec"])
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path / 'run.json'} is damaged: {error!r}") from error


def find_run(name: str, out: str | Path = "runs") -> Path:
    """The run directory at this path, or the only one below `out` with this in its name.

    The whole name comes before its beginning, and its beginning before any part of it.
    """
    if (Path(name) / "run.json").exists():
        return Path(name)
    runs = list_runs(out)
    for fits in (name.__eq__, lambda full: full.startswith(name), lambda full: name in full):
        matches = [path for path in runs if fits(path.name)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(path.name for path in matches[:5])
            more = ", ..." if len(matches) > 5 else ""
            raise RunError(f"{name!r} matches {names}{more}; use a longer prefix")
    raise RunError(f"there is no run {name!r} here or in {out}; `untwine runs` lists all runs")


def list_runs(out: str | Path = "runs") -> list[Path]:
    """The run directories below `out`, oldest first."""
    times: dict[Path, float] = {}
    for file in Path(out).glob("*/run.json"):
        with suppress(FileNotFoundError):  # removed while it was listed
            times[file.parent] = file.stat().st_mtime
    return sorted(times, key=lambda path: times[path])


def open_run(path: str | Path, *, data: str | Dataset | None = None) -> TrainedRun:
    """A finished run with its model, in evaluation mode on the CPU.

    Args:
        path: the run's directory.
        data: another place of the data, or other data, to use instead of the training data where
            it was. A folder or file is read as the run's own was.
    """
    path = Path(path)
    if not is_finished(path):
        read_json(path / "run.json")  # refuses what is not a run
        raise RunError(f"{path} is not finished; start it again to resume it")
    record = read_record(path)
    spec = parse_spec(path, record)
    if spec.hash != record["hash"]:
        raise RunError(f"{path / 'run.json'} was changed after the run had finished; put it back")
    weights = path / "model.safetensors"
    content = weights.read_bytes() if weights.exists() else b""
    if sha256(content) != record["weights"]:
        raise RunError(
            f"{weights} is damaged (its checksum differs); delete {path / 'done.json'} and start "
            "the run again"
        )
    open_data = data_opener(spec, data)
    card = run_card(path, spec, record, content, open_data)
    model = load_from_card(card, content, weights)
    return TrainedRun(path, spec, model, open_data, read_history(path), record)


def load(place: str | Path) -> VAE:
    """A trained model, from a folder written by `VAE.save` or from a finished run.

    It opens that folder and nothing else: no data is needed.

    >>> import tempfile, untwine
    >>> data = untwine.dataset("sprites", size=16)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = load(untwine.build("vae", data).save(folder))
    >>> model.card.model_name, model.card.shape
    ('vae', (1, 16, 16))
    """
    path = Path(place).expanduser()
    if (path / "model.json").exists():
        return load_model(path)
    if not (path / "run.json").exists():
        raise RunError(f"{place} is neither a model folder nor a run: it has no model.json")
    return open_run(path).model


@dataclass(frozen=True)
class TrainedModel:
    """A model and the data it is to be used on."""

    model: VAE
    open_data: Callable[[], Dataset]


def open_trained(name: str, out: str | Path = "runs", data: str | None = None) -> TrainedModel:
    """A model by the name of its run or by its folder, and the data named or the run's own."""
    folder = Path(name).expanduser()
    if (folder / "model.json").exists():
        model = load_model(folder)
        return TrainedModel(model, lambda: _data_of_model(model, data))
    trained = open_run(find_run(name, out), data=data)
    return TrainedModel(trained.model, trained.open_data)


def _data_of_model(model: VAE, place: str | None) -> Dataset:
    """The data named, prepared as that of the model; a dataset by name needs no place."""
    assert model.card, "a loaded model has a card"
    if model.card.data:
        entry, params = datasets.parse(model.card.data)
        if place:
            return open_like(Choice(entry.name, params), place)
        if "path" not in entry.parameters:
            return load_dataset(datasets.choose(entry.name, **params))
    if place is None:
        raise DataError("a model folder holds no data; name a folder, a file or a dataset")
    return open_like(Choice(""), place)


def data_opener(spec: Run, data: str | Dataset | None) -> Callable[[], Dataset]:
    """A function that opens the data of a run, or what was named in its place."""
    if isinstance(data, Dataset):
        return lambda: data
    if data is not None:
        return lambda: open_like(spec.data, data)

    def open_own() -> Dataset:
        try:
            return load_dataset(spec.data)
        except DataError as error:
            raise DataError(f"{error}; if the data is elsewhere, name it with --data") from None

    return open_own


def read_history(path: Path) -> History:
    """The rows of history.csv."""
    try:
        with open(path / "history.csv", encoding="utf-8", newline="") as stream:
            rows = History(
                {key: int(value) if key == "step" else float(value) for key, value in row.items()}
                for row in csv.DictReader(stream)
            )
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path / 'history.csv'} is damaged: {error}") from error
    if not rows:
        raise RunError(f"{path / 'history.csv'} is damaged: it is empty")
    return rows


def read_scores(path: Path) -> dict[str, dict[str, Any]]:
    """What scores.json of a run holds: by metric its settings, values and references."""
    if not (path / "scores.json").exists():
        return {}
    scores = read_json(path / "scores.json")
    keys = {"params", "examples", "seed", "values", "references"}
    if not all(isinstance(entry, dict) and keys <= entry.keys() for entry in scores.values()):
        raise RunError(f"{path / 'scores.json'} is damaged; delete it and evaluate the run again")
    return scores


def score_values(path: Path) -> dict[str, float]:
    """The values in scores.json, as `mig` or `reconstruction.squared_error`."""
    return {
        value_name(metric, key): value
        for metric, entry in read_scores(path).items()
        for key, value in entry["values"].items()
    }


def value_name(metric: str, key: str) -> str:
    """How one value of a metric is called.

    >>> value_name("mig", "mig"), value_name("sap[svm]", "sap"), value_name("dci", "completeness")
    ('mig', 'sap[svm]', 'dci.completeness')
    """
    return metric if key.replace("_", "-") == metric.partition("[")[0] else f"{metric}.{key}"
