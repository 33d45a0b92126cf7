"""Find runs by name, and open a model by its run or by its folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.data.opening import open_as
from untwine.errors import DataError, RunError, UntwineError
from untwine.registry import datasets
from untwine.runs.cards import load_model
from untwine.runs.directory import list_runs, open_run, read_spec
from untwine.runs.hub import is_hub_address, load_from_hub
from untwine.runs.names import run_name
from untwine.runs.received import load_data
from untwine.tools.files import expand_user
from untwine.vae import VAE


def find_run(name: str, out: str | Path = "runs") -> Path:
    """The run directory at this path, or the only one below `out` with this in its name.

    The whole name comes first, then that of the user, then the beginning and any part of a name.
    """
    if os.path.lexists(Path(name) / "run.json"):
        return Path(name)
    runs = list_runs(out)
    for fits in (
        lambda path: path.name == name,
        lambda path: path.name.startswith(f"{name}-") and _called(path) == name,
        lambda path: path.name.startswith(name),
        lambda path: name in path.name,
    ):
        matches = [path for path in runs if fits(path)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(path.name for path in matches[:5])
            more = ", ..." if len(matches) > 5 else ""
            raise RunError(f"{name!r} matches {names}{more}; use a longer prefix")
    raise RunError(f"there is no run {name!r} here or in {out}; `untwine runs` lists all runs")


def _called(path: Path) -> str | None:
    """What the user calls a run; None if it cannot be read."""
    with suppress(UntwineError, OSError):
        return run_name(path, read_spec(path))
    return None


@dataclass(frozen=True)
class TrainedModel:
    """A model and the data it is to be used on."""

    model: VAE
    open_data: Callable[[], Dataset]


def open_trained(name: str, out: str | Path = "runs", data: str | None = None) -> TrainedModel:
    """A model by its run, folder or address on the Hub, and the data named or the run's own."""
    folder, on_hub = expand_user(name), is_hub_address(name)
    if on_hub or os.path.lexists(folder / "model.json"):
        model = load_from_hub(name) if on_hub else load_model(folder)
        return TrainedModel(
            model, lambda: as_dataset(_data_of_model(folder, model, data), like=model.columns)
        )
    trained = open_run(find_run(name, out), data=data)
    return TrainedModel(trained.model, lambda: trained.data)


def _data_of_model(folder: Path, model: VAE, place: str | None) -> Dataset:
    """The data named, prepared as that of the model; a dataset by name needs no place.

    A model folder is never marked as one's own, so that it opens no file and downloads nothing.
    """
    assert model.card, "a loaded model has a card"
    if place:
        return open_as(model.card.data, place, model.card.shape)
    if model.card.data:
        entry, params = datasets.parse(model.card.data)
        if "path" not in entry.parameters:
            return load_data(folder, datasets.choose(entry.name, **params))
    raise DataError("a model folder holds no data; name a folder, a file or a dataset")
