"""Train a run in its directory, or resume it."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import untwine
from untwine.data.cache import CONTENT_PREFIX
from untwine.data.in_memory import store as store_examples
from untwine.data.opening import load_dataset
from untwine.errors import ParameterError, RunError
from untwine.runs.directory import TrainedRun, is_finished, open_run, read_record, read_spec
from untwine.runs.names import place_run
from untwine.runs.progress import ProgressFile, noting_failure
from untwine.runs.states import latest_state, list_states, save_state, state_step
from untwine.runs.tracking import Tracking
from untwine.spec import Run, build_model, plan, split_data
from untwine.state import Row, State
from untwine.tools.compute import eval_mode, limit_threads, pick_device, seeded
from untwine.tools.files import sha256, write_bytes
from untwine.tools.process import lock_directory, stop_requested
from untwine.tools.sealed import write_json
from untwine.tools.terminal import warn
from untwine.tools.threads import pick_threads
from untwine.tools.trust import is_mine, mark_as_mine
from untwine.tools.weights import pack_weights
from untwine.train import Compile, OnRow, fit
from untwine.vae import VAE

OnCheckpoint = Callable[[VAE, int], object]


def run(
    spec: Run,
    out: str | Path = "runs",
    *,
    device: str = "auto",
    threads: int | None = None,
    compile: Compile = "auto",
    checkpoint_every: int = 1000,
    on_row: OnRow | None = None,
    on_checkpoint: OnCheckpoint | None = None,
    track: str = "",
    name: str = "",
    store: bool = True,
    quiet: bool = False,
) -> Path:
    """Train a run in its directory below `out`, or resume it; a finished run is skipped.

    A resumed run keeps its directory, the device, the threads and the compilation with which it was
    started, and ends with the weights and the history it would have had without the interruption.
    `on_row` is called with every new row of the history, and `on_checkpoint` with the model and the
    step after every checkpoint; what the latter raises ends the training. `track` names a tracker
    that gets every row and pictures: tensorboard, wandb or mlflow. `name` begins the name of a new
    directory.

    Returns:
        the run's directory
    """
    spec = resumable(store_data(spec, out) if store else spec, out)
    path = place_run(spec, out, name)
    tracking = Tracking(track, spec, path) if track else None
    if is_finished(path):
        require_same(path, spec)
        adopt(path, spec)
        return path
    data, held_out = split_data(spec, load_dataset(spec.data))
    model = build_model(spec, data, latent=spec.latent, seed=spec.seed, batch=spec.batch)
    data.batches(spec.batch, spec.seed, pick_device(device))  # refuses a batch too large
    path.mkdir(parents=True, exist_ok=True)
    with lock_directory(path), stop_requested() as stop:
        if is_finished(path):  # by another process, in the meantime
            return path
        how = prepare_or_resume(path, spec, model, device, threads, compile)
        size = max_state_bytes(model)
        resume = latest_state(path / "states", warn, run=spec.hash, max_bytes=size)
        began = time.monotonic() - (resume[1].get("seconds", 0) if resume else 0)
        live = ProgressFile(path, spec.steps, began, resume[1].get("history", ()) if resume else ())
        with (
            limit_threads(how["threads"]),
            noting_failure(path),
            mention_checkpoint(path),
            _closing(tracking),
        ):
            history = fit(
                model,
                data,
                steps=spec.steps,
                batch=spec.batch,
                lr=spec.lr,
                seed=spec.seed,
                **{**asdict(spec.training), "validation": held_out or 0.0},
                on_row=_together(live, tracking and tracking.on_row, on_row),
                device=how["device"],
                compile=how["compile"],
                resume=resume,
                checkpoint=lambda state: save_progress(path, spec, state, live, on_checkpoint),
                checkpoint_every=checkpoint_every,
                stop=stop,
                quiet=quiet,
            )
            if tracking:
                tracking.write_pictures(model.eval(), data)
        finish_run(path, spec, model, history, time.monotonic() - began)
    return path


def _together(*functions: OnRow | None) -> OnRow:
    """One function that calls all of these."""

    def call_all(row: Row) -> None:
        for function in functions:
            if function:
                function(row)

    return call_all


@contextlib.contextmanager
def _closing(tracking: Tracking | None) -> Iterator[None]:
    """Close the tracker, however the training ends."""
    try:
        yield
    finally:
        if tracking:
            tracking.close()


def store_data(spec: Run, out: str | Path) -> Run:
    """Store data that was given in Python; the run that names its file has the same hash."""
    if spec.data.name != "memory" or spec.data.params["path"]:
        return spec
    digest = str(spec.data.params["digest"])
    file = Path(out).absolute() / "data" / f"{digest}.npz"
    if not file.exists():
        store_examples(load_dataset(spec.data), file)
    return replace(spec, data=replace(spec.data, params={"path": str(file), "digest": digest}))


def resumable(spec: Run, out: str | Path) -> Run:
    """The run itself, or the one of version 0.1 below `out` that asks for the same.

    That version knew folders of pictures by the names and sizes of their files.
    """
    digest = str(spec.data.params.get("digest", ""))
    if not digest.startswith(CONTENT_PREFIX) or place_run(spec, out).exists():
        return spec
    former = load_dataset(spec.data).former_digest
    if not former:
        return spec
    data = replace(spec.data, params={**spec.data.params, "digest": former})
    former_spec = replace(spec, data=data)
    return former_spec if place_run(former_spec, out).exists() else spec


def train_run(
    model: str,
    data: Any,
    out: str | Path = "runs",
    *,
    device: str = "auto",
    threads: int | None = None,
    compile: Compile = "auto",
    checkpoint_every: int = 1000,
    on_row: OnRow | None = None,
    track: str = "",
    name: str = "",
    store: bool = True,
    quiet: bool = False,
    **numbers_and_settings: Any,
) -> TrainedRun:
    """Plan a run, train or resume it, and open it: `plan`, `run` and `open_run` in one call.

    The data is a name, a folder, a file, or anything that `as_dataset` takes. Takes the keywords of
    `plan` (network, likelihood, latent, steps, batch, lr, seed, validation,
    patience, ... and the parameters of the pieces) and of `run`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as out:
    ...     trained = train_run("vae", "sprites(size=16)", out, steps=10, quiet=True)
    >>> trained.spec.steps, trained.history[-1]["step"]
    (10, 10)
    """
    spec = plan(model, data, **numbers_and_settings)
    options = {"device": device, "threads": threads, "compile": compile, "quiet": quiet}
    options |= {"checkpoint_every": checkpoint_every, "on_row": on_row, "track": track}
    path = run(spec, out, name=name, store=store, **options)
    return open_run(path)


def prepare_or_resume(
    path: Path, spec: Run, model: VAE, device: str, threads: int | None, compile: Compile
) -> dict[str, Any]:
    """How the run is computed: as it was started, or as asked for now."""
    file = path / "run.json"
    asked = {
        "device": str(pick_device(device)),
        "threads": threads or pick_threads(model, spec.batch),
        "compile": compile,
    }
    if not os.path.lexists(file):
        card = {"card": model.card.to_json()} if model.card else {}
        record = {"spec": spec.to_json(), **card, "how": asked, "versions": versions()}
        write_json(file, record)
        mark_as_mine(file)
        return asked
    require_same(path, spec)
    adopt(path, spec)
    record = read_record(path)
    how = record["how"]
    if record["versions"] != versions():
        warn(f"{path} was started with {record['versions']}; rounding may differ from there")
    if how != asked | ({} if threads else {"threads": how["threads"]}):
        warn(f"{path} is resumed with the settings it was started with: {how}")
    try:
        pick_device(how["device"])
    except ParameterError:
        raise RunError(
            f"{path} was started on {how['device']}, which this machine lacks; resume it where it "
            "was started, or start it again with another --out"
        ) from None
    return how


def versions() -> dict[str, str]:
    """What rounding depends on besides the machine."""
    return {
        "untwine": untwine.__version__,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    }


def require_same(path: Path, spec: Run) -> None:
    """Refuse a directory whose run.json is not that of this run."""
    if read_spec(path).hash != spec.hash:
        raise RunError(f"{path / 'run.json'} describes another run; move the directory away")


def adopt(path: Path, spec: Run) -> None:
    """Mark a run as one's own whose run.json says what the user has just asked for."""
    file = path / "run.json"
    if not is_mine(file) and read_record(path)["spec"] == spec.to_json():
        mark_as_mine(file)


def max_state_bytes(model: VAE) -> int:
    """More bytes than a training state of this model has."""
    return 8 * sum(value.nbytes for value in model.state_dict().values()) + (1 << 26)


@contextlib.contextmanager
def mention_checkpoint(path: Path) -> Iterator[None]:
    """Add to an error which checkpoint is kept."""
    try:
        yield
    except RunError as error:
        checkpoints = list_states(path / "states")
        where = (
            f"; the checkpoint of step {state_step(checkpoints[0])} is kept in {path}"
            if checkpoints
            else ""
        )
        raise RunError(f"{error}{where}") from None


def save_progress(
    path: Path,
    spec: Run,
    state: State,
    live: ProgressFile,
    on_checkpoint: OnCheckpoint | None = None,
) -> None:
    """Write the state of a run that would have begun at this time without interruptions.

    Then call `on_checkpoint`, which cannot change the training's random numbers.
    """
    tensors, facts = state.pack()
    facts |= {"run": spec.hash, "seconds": time.monotonic() - live.began}
    save_state(path / "states", state.step, tensors, facts)
    live.write(state.step)
    if on_checkpoint:
        with seeded(0), eval_mode(state.model):
            on_checkpoint(state.model, state.step)


def finish_run(path: Path, spec: Run, model: VAE, history: list[Row], seconds: float) -> None:
    """Write what came out; a run that has its done.json is finished."""
    weights = pack_weights(model)
    rows = _csv(history).encode()
    write_bytes(path / "model.safetensors", weights)
    write_bytes(path / "history.csv", rows)
    done = {
        "hash": spec.hash,
        "weights": sha256(weights),
        "history": sha256(rows),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "latents": [asdict(latent) for latent in model.card.latents] if model.card else [],
    }
    write_json(path / "done.json", done)
    (path / "progress.json").unlink(missing_ok=True)
    shutil.rmtree(path / "states", ignore_errors=True)


def _csv(history: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, history[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()
