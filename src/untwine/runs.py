"""A run is a directory: what was asked for, what came out, and how to go on after a crash.

run.json            the specification, versions, and how it is computed (device, threads)
states/             the two newest training states, until the run is finished
model.safetensors   the weights
history.csv         the terms of the loss
done.json           written last: the run is finished
scores.json         written by `evaluate`
report.html         written by `report`
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

import untwine
from untwine.data import Dataset
from untwine.errors import ParameterError, RunError, UntwineError
from untwine.guards import computing_threads, interruptible, is_running, locked
from untwine.spec import Run, assemble, load
from untwine.store import (
    latest_state,
    plain,
    save_state,
    sha256,
    states,
    step_of,
    write_bytes,
    write_json,
)
from untwine.train import Compile, Row, State, fit, pick_device
from untwine.vae import VAE


@dataclass(frozen=True)
class Finished:
    """A finished run, read back."""

    path: Path
    spec: Run
    model: VAE
    data: Dataset
    history: list[Row]
    facts: dict[str, Any]  # run.json and done.json


def run(
    spec: Run,
    out: str | Path = "runs",
    *,
    device: str = "auto",
    threads: int | None = None,
    compile: Compile = "auto",
    checkpoint_every: int = 1000,
    quiet: bool = False,
) -> Path:
    """Train a run in its directory below `out`, or go on with it, or leave it if it is finished.

    A run goes on with the device, the threads and the compilation with which it was started, and
    ends with the weights and the history it would have had without the interruption.

    Returns:
        the run's directory
    """
    path = Path(out) / spec.directory
    if is_finished(path):
        require_same(path, spec)
        return path
    data = load(spec.data)
    model = assemble(spec, data, latent=spec.latent, seed=spec.seed, batch=spec.batch)
    data.batches(spec.batch, spec.seed, pick_device(device))  # refuses a batch too large
    path.mkdir(parents=True, exist_ok=True)
    with locked(path), interruptible() as stop:
        if is_finished(path):  # by another process, in the meantime
            return path
        how = begin_run(path, spec, device, threads, compile)
        resume = latest_state(path / "states", warn)
        began = time.monotonic() - (resume[1]["seconds"] if resume else 0)
        with computing_threads(how["threads"]), keeping(path):
            history = fit(
                model,
                data,
                steps=spec.steps,
                batch=spec.batch,
                lr=spec.lr,
                seed=spec.seed,
                device=how["device"],
                compile=how["compile"],
                resume=resume,
                checkpoint=lambda state: save_progress(path, state, time.monotonic() - began),
                checkpoint_every=checkpoint_every,
                stop=stop,
                quiet=quiet,
            )
        finish_run(path, spec, model, history, time.monotonic() - began)
    return path


def begin_run(
    path: Path, spec: Run, device: str, threads: int | None, compile: Compile
) -> dict[str, Any]:
    """How the run is computed: as it was started, or as asked for now."""
    file = path / "run.json"
    asked = {
        "device": str(pick_device(device)),
        "threads": threads or torch.get_num_threads(),
        "compile": compile,
    }
    if not file.exists():
        write_json(file, {"spec": spec.to_json(), "how": asked, "versions": versions()})
        return asked
    require_same(path, spec)
    facts = read_facts(path)
    if facts["versions"] != versions():
        warn(f"{path} was started with {facts['versions']}; rounding may differ from there")
    if facts["how"] != asked:
        warn(f"{path} goes on as it was started: {facts['how']}")
    try:
        pick_device(facts["how"]["device"])
    except ParameterError:
        raise RunError(
            f"{path} was started on {facts['how']['device']}, which is not here; go on with it "
            "there, or start it again with another --out"
        ) from None
    return facts["how"]


def versions() -> dict[str, str]:
    """What rounding depends on besides the machine."""
    return {
        "untwine": untwine.__version__,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    }


def require_same(path: Path, spec: Run) -> None:
    """Refuse a directory whose run.json is not that of this run."""
    found = read_spec(path)
    if found.hash != spec.hash:
        raise RunError(f"{path / 'run.json'} describes another run; move the directory away")


@contextlib.contextmanager
def keeping(path: Path) -> Iterator[None]:
    """Add to an error which state is kept."""
    try:
        yield
    except RunError as error:
        kept = states(path / "states")
        where = f"; the state of step {step_of(kept[0])} is kept in {path}" if kept else ""
        raise RunError(f"{error}{where}") from None


def save_progress(path: Path, state: State, seconds: float) -> None:
    """Write the state of a run that was computed for so many seconds."""
    tensors, facts = state.pack()
    save_state(path / "states", state.step, tensors, {**facts, "seconds": seconds})


def finish_run(path: Path, spec: Run, model: VAE, history: list[Row], seconds: float) -> None:
    """Write what came out; a run that has its done.json is finished."""
    content = save_tensors(plain(model.state_dict()))
    write_bytes(path / "model.safetensors", content)
    write_bytes(path / "history.csv", _csv(history).encode())
    done = {
        "hash": spec.hash,
        "weights": sha256(content),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
    }
    write_json(path / "done.json", done)
    shutil.rmtree(path / "states", ignore_errors=True)


def _csv(history: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, history[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()


def is_finished(path: Path) -> bool:
    return (path / "done.json").exists()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a run."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path.parent} is not a run: it has no {path.name}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise RunError(f"{path} is damaged: it holds no object")
    return found


def read_facts(path: Path) -> dict[str, Any]:
    """What run.json says, and done.json of a finished run."""
    facts = read_json(path / "run.json")
    wanted = {"spec", "how", "versions"}
    if is_finished(path):
        facts |= read_json(path / "done.json")
        wanted |= {"hash", "weights", "finished", "seconds"}
    if missing := sorted(wanted - facts.keys()):
        raise RunError(f"{path} is damaged: its files lack {', '.join(missing)}")
    return facts


def read_spec(path: Path) -> Run:
    """The specification in run.json."""
    try:
        return Run.from_json(read_facts(path)["spec"])
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
            raise RunError(f"{name!r} could be {names}{more}; write more of the name")
    raise RunError(f"there is no run {name!r} here or in {out}; `untwine runs` lists what there is")


def list_runs(out: str | Path = "runs") -> list[Path]:
    """The run directories below `out`, oldest first."""
    found = [file.parent for file in Path(out).glob("*/run.json")]
    return sorted(found, key=lambda path: (path / "run.json").stat().st_mtime)


def open_run(path: str | Path) -> Finished:
    """A finished run with its model, in evaluation mode on the CPU, and its data."""
    path = Path(path)
    read_json(path / "run.json")
    if not is_finished(path):
        raise RunError(f"{path} is not finished; start it again to go on with it")
    spec, facts = read_spec(path), read_facts(path)
    if spec.hash != facts["hash"]:
        raise RunError(f"{path / 'run.json'} was changed after the run had finished; put it back")
    data = load(spec.data)
    model = assemble(spec, data, latent=spec.latent, seed=spec.seed, batch=spec.batch)
    weights = path / "model.safetensors"
    content = weights.read_bytes() if weights.exists() else b""
    if sha256(content) != facts["weights"]:
        raise RunError(
            f"{weights} is damaged (its checksum differs); delete {path / 'done.json'} and start "
            "the run again"
        )
    model.load_state_dict(load_tensors(content))
    return Finished(path, spec, model.eval(), data, read_history(path), facts)


def read_history(path: Path) -> list[Row]:
    """The rows of history.csv."""
    try:
        with open(path / "history.csv", encoding="utf-8", newline="") as stream:
            rows = [
                {key: int(value) if key == "step" else float(value) for key, value in row.items()}
                for row in csv.DictReader(stream)
            ]
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path / 'history.csv'} is damaged: {error}") from error
    if not rows:
        raise RunError(f"{path / 'history.csv'} is damaged: it is empty")
    return rows


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def describe_runs(out: str | Path) -> list[list[str]]:
    """A row per run below `out`: name, model, data, seed, steps, state, scores."""
    return [_describe(path) for path in list_runs(out)]


def _describe(path: Path) -> list[str]:
    try:
        spec = read_spec(path)
        return [
            path.name,
            " + ".join(str(part) for part in spec.model),
            str(spec.data),
            str(spec.seed),
            f"{spec.steps:,}",
            _progress_of(path, spec),
            "  ".join(f"{name} {value:.3f}" for name, value in kept_scores(path).items()),
        ]
    except UntwineError as error:
        return [path.name, "", "", "", "", f"unreadable: {error}", ""]


def _progress_of(path: Path, spec: Run) -> str:
    if is_finished(path):
        return "finished"
    saved = states(path / "states")
    step = step_of(saved[0]) if saved else 0
    return f"{'running, saved' if is_running(path) else 'stopped'} at {100 * step // spec.steps} %"


def read_scores(path: Path) -> dict[str, dict[str, Any]]:
    """What scores.json of a run holds: by metric its settings, values and references."""
    if not (path / "scores.json").exists():
        return {}
    kept = read_json(path / "scores.json")
    parts = {"params", "examples", "seed", "values", "references"}
    if not all(isinstance(entry, dict) and parts <= entry.keys() for entry in kept.values()):
        raise RunError(f"{path / 'scores.json'} is damaged; delete it and evaluate the run again")
    return kept


def kept_scores(path: Path) -> dict[str, float]:
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
