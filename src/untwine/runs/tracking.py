"""Experiment trackers: TensorBoard, Weights & Biases and MLflow receive every row and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from untwine.data.dataset import Dataset
from untwine.errors import RunError, UnknownNameError
from untwine.records import is_image
from untwine.schema import unknown_name
from untwine.spec import Run
from untwine.state import Row
from untwine.tools.compute import seeded
from untwine.tools.extras import needs_extra
from untwine.tools.files import resolve
from untwine.tools.images import image_grid
from untwine.tools.terminal import warn
from untwine.vae import VAE

Picture = NDArray[np.uint8]
SAMPLE_ROWS, SAMPLE_COLUMNS = 4, 8
TRAVERSAL_REACH, TRAVERSAL_STEPS = 2.5, 9


class Tracker(Protocol):
    """What a tracker does. It is opened with the first row, whose step it is given."""

    def write_row(self, step: int, values: Row) -> object: ...

    def write_picture(self, name: str, step: int, picture: Picture) -> object: ...

    def close(self) -> object: ...


def refuse_link(path: Path) -> Path:
    """The path, unless a link there leads elsewhere: the directory may be someone else's."""
    if path.is_symlink():
        raise RunError(f"{path} is a link; remove it")
    return path


class TensorBoard:
    """Event files below `OUT/tensorboard`, a folder for each run."""

    def __init__(self, spec: Run, run: Path, first_step: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        folder = refuse_link(run.parent / "tensorboard") / run.name
        # A resumed run repeats the rows since its checkpoint; they replace those of before.
        self.writer = SummaryWriter(str(folder), purge_step=first_step)

    def write_row(self, step: int, values: Row) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step, new_style=True, double_precision=True)
        self.writer.flush()

    def write_picture(self, name: str, step: int, picture: Picture) -> None:
        self.writer.add_image(name, picture, step, dataformats="HWC")

    def close(self) -> None:
        self.writer.close()


class Wandb:
    """A run of Weights & Biases in the project `untwine`, or that of WANDB_PROJECT."""

    def __init__(self, spec: Run, run: Path, first_step: int) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        self.wandb = wandb
        self.run = wandb.init(
            project=wandb.Settings().project or "untwine",
            id=spec.hash,
            name=run.name,
            config=spec.to_json(),
            dir=str(run.parent),
            resume="allow",
        )
        # A resumed run repeats the rows since its checkpoint, bit for bit; it refuses these.
        self.next_step = int(self.run.step or 0) if self.run.resumed else 0

    def write_row(self, step: int, values: Row) -> None:
        if step >= self.next_step:
            self.run.log(values, step=step)

    def write_picture(self, name: str, step: int, picture: Picture) -> None:
        self.run.log({name: self.wandb.Image(picture)}, step=step)

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """A run of MLflow; by default in the database `OUT/mlflow.db`."""

    def __init__(self, spec: Run, run: Path, first_step: int) -> None:
        import os

        import mlflow  # pyright: ignore[reportMissingImports]

        out = run.parent
        place = os.environ.get("MLFLOW_TRACKING_URI")
        if not place and set(str(resolve(out))) & set("?#%"):
            raise RunError(
                f"MLflow cannot keep its files in {out}, as ?, # and % have a meaning in its "
                "addresses; use another --out, or set MLFLOW_TRACKING_URI"
            )
        pictures = None if place else (resolve(out) / "mlflow").as_uri()
        place = place or f"sqlite:///{refuse_link(resolve(out) / 'mlflow.db')}"
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / ".mlflow.lock"):  # two processes cannot both create the database
            self.client = mlflow.MlflowClient(tracking_uri=place)
            existing = self.client.get_experiment_by_name("untwine")
            experiment = (
                existing.experiment_id
                if existing
                else self.client.create_experiment("untwine", artifact_location=pictures)
            )
        self.last_step = -1
        same = self.client.search_runs([experiment], f"tags.untwine_hash = '{spec.hash}'")
        if same:
            self.id = same[0].info.run_id
            # A resumed run repeats the rows since its checkpoint, bit for bit.
            rows = self.client.get_metric_history(self.id, "loss")
            self.last_step = max((row.step for row in rows), default=-1)
            return
        tags = {"untwine_hash": spec.hash}
        created = self.client.create_run(experiment, run_name=run.name, tags=tags)
        self.id = created.info.run_id
        for name, value in spec.to_json().items():
            self.client.log_param(self.id, name, str(value)[:500])

    def write_row(self, step: int, values: Row) -> None:
        if step <= self.last_step:
            return
        names = sorted(values, key="loss".__eq__)  # last: with it the row is complete
        for name in names:
            self.client.log_metric(self.id, name, values[name], step=step)

    def write_picture(self, name: str, step: int, picture: Picture) -> None:
        self.client.log_image(self.id, picture, f"{name}.png")

    def close(self) -> None:
        self.client.set_terminated(self.id)


TRACKERS: dict[str, Callable[[Run, Path, int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "mlflow": MLflow,
}


def check_tracker(name: str) -> None:
    """Refuse a tracker that does not exist or whose library is missing."""
    if name not in TRACKERS:
        raise UnknownNameError(unknown_name("tracker", name, TRACKERS))
    with needs_extra(name, f"--track {name}"):
        if name == "tensorboard":
            import tensorboard  # noqa: F401
        elif name == "wandb":
            import wandb  # noqa: F401  # pyright: ignore[reportMissingImports]
        else:
            import alembic  # noqa: F401
            import mlflow  # noqa: F401  # pyright: ignore[reportMissingImports]
            import sqlalchemy  # noqa: F401


class Tracking:
    """One tracker of one run. Whatever it raises is a warning, and ends the tracking alone."""

    def __init__(self, name: str, spec: Run, run: Path) -> None:
        check_tracker(name)
        self.name, self.spec, self.run = name, spec, run
        self.tracker: Tracker | None = None
        self.failed = False

    def on_row(self, row: Row) -> None:
        """Pass a row of the history on."""
        step = int(row["step"])
        values = {name: float(value) for name, value in row.items() if name != "step"}

        def write() -> None:
            if self.tracker is None:
                self.tracker = TRACKERS[self.name](self.spec, self.run, step)
            self.tracker.write_row(step, values)

        self._attempt(write)

    def write_pictures(self, model: VAE, data: Dataset) -> None:
        """Pass on pictures of samples and traversals, for images."""
        tracker = self.tracker
        if tracker is None or not is_image(data.shape):
            return
        step = self.spec.steps

        def write() -> None:
            tracker.write_picture("samples", step, sample_picture(model))
            tracker.write_picture("traversals", step, traversal_picture(model, data))

        self._attempt(write)

    def close(self) -> None:
        if self.tracker is not None:
            self._attempt(self.tracker.close)

    def _attempt(self, action: Callable[[], Any]) -> None:
        if self.failed:
            return
        try:
            with seeded(0):
                action()
        except Exception as error:  # a tracker must not stop a training
            self.failed = True
            warn(f"{self.name} failed and gets no more rows: {type(error).__name__}: {error}")


def sample_picture(model: VAE) -> Picture:
    """A grid of samples from the model."""
    images = model.sample(SAMPLE_ROWS * SAMPLE_COLUMNS, seed=0).cpu().numpy()
    return image_grid(images.reshape(SAMPLE_ROWS, SAMPLE_COLUMNS, *images.shape[1:]))


def traversal_picture(model: VAE, data: Dataset) -> Picture:
    """A row for each latent, which moves from −2.5 to 2.5 in the code of the first example."""
    start = data.take_repeatably([0])[0]
    values = torch.linspace(-TRAVERSAL_REACH, TRAVERSAL_REACH, TRAVERSAL_STEPS)
    return image_grid(model.given_data(data, [0]).traverse(start, values).cpu().numpy())
