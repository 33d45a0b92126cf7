"""The directory of a run: what was asked for, what came out, and how to resume after a crash.

run.json            the specification, the model's card, versions, and how it is computed
states/             the two newest checkpoints, until the run is finished
progress.json       the terms of the loss so far, until the run is finished
failed.json         why the run was given up, until it is started again
model.safetensors   the weights
history.csv         the terms of the loss
done.json           written last: the run is finished; holds the checksums of the two files above
scores.json         written by `evaluate`, with the checksum of the weights it belongs to
report.html         written by `report`
.mark               says that the run is one's own

All are read through `tools.files` and `tools.sealed`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.data.in_memory import identify
from untwine.data.opening import FILE_PARAMETERS
from untwine.errors import DamagedFile, DataError, RunError
from untwine.registry import datasets, value_name
from untwine.runs.cards import (
    CARD,
    CHOICE,
    PROFILE,
    load_from_card,
    load_model,
    run_card,
    spec_rows,
)
from untwine.runs.hub import is_hub_address, load_from_hub
from untwine.runs.progress import read_progress
from untwine.runs.received import load_data
from untwine.runs.states import list_states, state_step
from untwine.spec import Run, split_data
from untwine.tools.files import expand_user, open_regular
from untwine.tools.notebook import card_html
from untwine.tools.process import is_running
from untwine.tools.sealed import read_checked, read_json, write_json
from untwine.train import History
from untwine.vae import VAE

STATES = ("finished", "running", "failed", "stopped", "waiting")
"""What a run can be: trained, being trained, given up with a reason, interrupted, not started."""

PLUGIN = {"name": str, "version?": str, "hash?": str}
SPEC = {
    "model": [CHOICE],
    "data": CHOICE,
    "network": CHOICE,
    "likelihood": CHOICE,
    "plugins?": [PLUGIN],
    str: object,
}
RUN = {
    "spec": SPEC,
    "card?": CARD,
    "how": {"device": str, "threads": int, "compile": str},
    "versions": {str: str},
}
DONE = {
    "hash": str,
    "weights": str,
    "history?": str,
    "finished": str,
    "seconds": float,
    "latents?": [PROFILE],
}
SCORE = {
    "params": {str: object},
    "examples": int,
    "seed": int,
    "values": {str: float},
    "references": {str: {str: float}},
    "spread?": {str: float},
}
SCORES = ({"weights": str, "scores": {str: SCORE}}, {str: SCORE})  # the second of version 0.1
MAX_HISTORY_BYTES = 1 << 24
MAX_HISTORY_CELLS = 1 << 20
REMOVED = ".removed-"  # begins the name of a run that is being removed


@dataclass(frozen=True)
class TrainedRun:
    """A finished run, read back. Its data is opened when it is first asked for."""

    path: Path
    spec: Run
    model: VAE
    open_data: Callable[[], Dataset]
    history: History
    record: dict[str, Any]  # run.json and done.json
    place: Any = None  # what was named or given instead of the data where it was

    @cached_property
    def data(self) -> Dataset:
        """The data that the run was trained on, or what was named in its place."""
        data, shape = as_dataset(self.open_data(), like=self.model.columns), self.model.sizes.shape
        if data.shape != shape:
            raise DataError(
                f"examples of {data.name or 'this data'} have the shape {tuple(data.shape)}; the "
                f"model takes {tuple(shape)}; name other data with --data"
            )
        return data

    @cached_property
    def has_own_data(self) -> bool:
        """Whether `data` is what the run was trained on: of the same name and content."""
        if self.place is None or (isinstance(self.place, str) and not self.place):
            return True
        digest = self.spec.data.params.get("digest") or ""
        same_name = self.data.name == datasets.expression(self.spec.data, *FILE_PARAMETERS)
        return same_name and digest in (self.data.digest, self.data.former_digest)

    @cached_property
    def validation(self) -> Dataset | None:
        """The part of the run's own data that it held out, if any."""
        return split_data(self.spec, self.data)[1] if self.has_own_data else None

    def shown_history(self) -> History:
        """The history as it is shown: without the constants that estimators of terms add."""
        return History(map(self.model.objective.without_constants, self.history))

    @property
    def scores(self) -> dict[str, float]:
        """The stored scores by name; `untwine.evaluate_run` computes more."""
        return score_values(self.path)

    def __repr__(self) -> str:
        return f"<TrainedRun {self.path}: {self.spec!r}>"

    def _repr_html_(self) -> str:
        """The run as a card for notebooks: what was asked for, and what came out."""
        scores = ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())
        ended = f"loss {self.history[-1]['loss']:.4g} at step {self.history[-1]['step']:,.0f}"
        rows = [*spec_rows(self.spec), ("ended with", ended), ("scores", scores or "none yet")]
        return card_html(str(self.path), rows)


def is_finished(path: Path) -> bool:
    return os.path.lexists(path / "done.json")


def run_state(path: Path) -> str:
    """One of `STATES`."""
    if is_finished(path):
        return "finished"
    if is_running(path):
        return "running"
    if os.path.lexists(path / "failed.json"):
        return "failed"
    return "stopped" if os.path.lexists(path / "run.json") else "waiting"


def describe_progress(path: Path, spec: Run) -> str:
    """The state of a run, with how far it is: `stopped at 40 %`."""
    state = run_state(path)
    if state == "finished":
        return state
    return f"{state} at {100 * current_step(path, state) // spec.steps} %"


def current_step(path: Path, state: str) -> int:
    """The step that a running run has reached, or from which an interrupted one would resume."""
    progress = read_progress(path) if state == "running" else None
    checkpoints = list_states(path / "states")
    return progress.step if progress else state_step(checkpoints[0]) if checkpoints else 0


def read_record(path: Path) -> dict[str, Any]:
    """The content of run.json and, for a finished run, of done.json."""
    if path.is_symlink():
        raise RunError(f"{path} is a link; name the directory it leads to: {os.readlink(path)}")
    record = read_json(path / "run.json", RUN, remedy="put it back, or delete the run")
    return record | read_done(path) if is_finished(path) else record


def read_done(path: Path) -> dict[str, Any]:
    """The content of done.json: when and as what the run was finished."""
    return read_json(path / "done.json", DONE, remedy="delete it and start the run again")


def read_spec(path: Path) -> Run:
    """The specification in run.json."""
    return parse_spec(read_record(path))


def parse_spec(record: Mapping[str, Any]) -> Run:
    """The specification in the record of a run."""
    return Run.from_json(record["spec"])


def list_runs(out: str | Path = "runs") -> list[Path]:
    """The run directories below `out`, oldest first."""
    times: dict[Path, float] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted(Path(out).iterdir()):
            if path.name.startswith(REMOVED):  # what an interrupted removal left
                continue
            with suppress(OSError):  # no run, or removed in the meantime
                times[path] = os.lstat(path / "run.json").st_mtime
    return sorted(times, key=times.__getitem__)


def open_run(path: str | Path, *, data: Any = None, trust: bool = False) -> TrainedRun:
    """A finished run with its model, in evaluation mode on the CPU.

    Args:
        path: the run's directory.
        data: another place of the data, or other data, to use instead of the training data where
            it was. A folder or file is read as the run's own was. Also anything that `as_dataset`
            takes.
        trust: open the files that run.json names, and download data, though the run is not marked
            as yours.
    """
    path = Path(path)
    if not is_finished(path):
        read_record(path)  # refuses what is not a run
        raise RunError(f"{path} is not finished; start it again to resume it")
    record = read_record(path)
    spec = parse_spec(record)
    if spec.hash != record["hash"]:
        raise RunError(f"{path / 'run.json'} was changed after the run had finished; put it back")
    history = read_history(path, record)
    weights = path / "model.safetensors"
    remedy = f"delete {path / 'done.json'} and start the run again"
    card = run_card(weights, spec, record, data_opener(path, spec, data, trust))
    model = load_from_card(card, weights, record["weights"], remedy)
    open_data = data_opener(path, spec, data, trust, card.shape)
    return TrainedRun(path, spec, model, open_data, history, record, data)


def load(place: str | Path) -> VAE:
    """A trained model: a folder written by `VAE.save`, a finished run, or a model on the Hub.

    It opens that folder and nothing else: no data is needed, except for some runs of version 0.1.
    `hf://ORG/NAME` or
    `hf://ORG/NAME@REVISION` downloads the two files of a model from the Hugging Face Hub.

    >>> import tempfile, untwine
    >>> data = untwine.dataset("sprites", size=16)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = load(untwine.build("vae", data).save(folder))
    >>> model.card.model_name, model.card.shape
    ('vae', (1, 16, 16))
    """
    if is_hub_address(place):
        return load_from_hub(str(place))
    path = expand_user(place)
    if os.path.lexists(path / "model.json"):
        return load_model(path)
    if not os.path.lexists(path / "run.json"):
        raise RunError(f"{place} is neither a model folder nor a run: it has no model.json")
    return open_run(path).model


def data_opener(
    path: Path,
    spec: Run,
    data: Any,
    trust: bool,
    shape: tuple[int, ...] = (),
) -> Callable[[], Dataset]:
    """A function that opens the data of a run, or what was named in its place."""
    if data is not None and not isinstance(data, str | Path):
        return lambda: _identified(as_dataset(data), spec)

    def open_data() -> Dataset:
        try:
            return load_data(path, spec.data, place=str(data or ""), trust=trust, shape=shape)
        except DataError as error:
            hint = "" if data else "; if the data is elsewhere, name it with --data PLACE"
            raise DataError(f"{error}{hint}") from None

    return open_data


def _identified(data: Dataset, spec: Run) -> Dataset:
    """A dataset that was given; with a digest and a name, where the run knows its own by these."""
    return replace(identify(data), name="memory") if spec.data.name == "memory" else data


def check_weights(path: Path) -> None:
    """Refuse weights of a finished run whose checksum differs; they are read and not loaded."""
    file, remedy = (
        path / "model.safetensors",
        f"delete {path / 'done.json'} and start the run again",
    )
    try:
        with open_regular(file, error=DamagedFile) as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        raise DamagedFile(f"{file} is missing; {remedy}") from None
    if actual != read_done(path)["weights"]:
        raise DamagedFile(f"{file} is damaged (its checksum differs); {remedy}")


def read_history(path: Path, record: Mapping[str, Any]) -> History:
    """The rows of history.csv, checked against the record of the run."""
    file, remedy = path / "history.csv", f"delete {path / 'done.json'} and start the run again"
    checksum = record.get("history")
    content = read_checked(file, checksum, max_bytes=MAX_HISTORY_BYTES, remedy=remedy)
    if (cells := content.count(b",") + content.count(b"\n")) > MAX_HISTORY_CELLS:
        raise DamagedFile(
            f"{file} has {cells:,} cells where {MAX_HISTORY_CELLS:,} are allowed; {remedy}"
        )
    try:
        rows = History(
            {key: int(value) if key == "step" else _finite(value) for key, value in row.items()}
            for row in csv.DictReader(io.StringIO(content.decode(), newline=""))
        )
    except (ValueError, TypeError, csv.Error) as error:
        raise DamagedFile(f"{file} is damaged: {error}; {remedy}") from None
    if not rows or not {"step", "loss"} <= rows[0].keys():
        raise DamagedFile(f"{file} is damaged: it has no steps with a loss; {remedy}")
    return rows


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number")
    return value


def read_scores(path: Path) -> dict[str, dict[str, Any]]:
    """What scores.json of a finished run holds: by metric its settings, values and references.

    Scores of other weights than those of the run are refused.
    """
    file, remedy = path / "scores.json", "evaluate the run again"
    if not os.path.lexists(file) or not is_finished(path):
        return {}
    stored = read_json(file, SCORES, remedy=remedy)
    if not isinstance(stored.get("weights"), str):  # of version 0.1
        return stored
    if stored["weights"] != read_done(path)["weights"]:
        raise DamagedFile(f"{file} holds scores of other weights; {remedy}")
    return stored["scores"]


def write_scores(path: Path, scores: Mapping[str, Any]) -> None:
    """Write scores.json of a finished run."""
    weights = read_done(path)["weights"]
    write_json(path / "scores.json", {"weights": weights, "scores": scores})


def score_values(path: Path) -> dict[str, float]:
    """The values in scores.json, as `mig` or `reconstruction.squared_error`."""
    return {
        value_name(metric, key): value
        for metric, entry in read_scores(path).items()
        for key, value in entry["values"].items()
    }
