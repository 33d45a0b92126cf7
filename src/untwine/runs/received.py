"""The data of runs that may have been made by others: nothing outside the run is opened unasked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from untwine.data.cache import offline
from untwine.data.dataset import Dataset
from untwine.data.opening import FILE_PARAMETERS, load_dataset, open_like, resolve_dataset
from untwine.errors import ParameterError, RunError, UntwineError
from untwine.registry import Choice, datasets
from untwine.tools.trust import is_mine

MAX_EXPRESSION = 1_000  # letters


def load_data(
    run: Path,
    choice: Choice,
    *,
    place: str = "",
    trust: bool = False,
    shape: Sequence[int] = (),
) -> Dataset:
    """The data that a run names.

    A run that is not marked as one's own opens no file outside its directory and the cache, and
    downloads nothing.

    Args:
        run: its directory.
        choice: the data in its run.json.
        place: where the user says that the data is, or other data.
        trust: whether the user trusts the run.
        shape: of the model's examples, if known.
    """
    if place:
        return open_like(choice, place, shape)
    if is_mine(run / "run.json"):
        return load_dataset(choice)
    named = list(named_files(choice))
    if named and not trust:
        raise RunError(
            f"{run} is not marked as yours, so the files that it names are not opened: "
            f"{', '.join(named)}; write `untwine trust {run}` if it is yours, or name its data "
            "with --data PLACE or as the argument DATA, whichever the command takes"
        )
    if named and choice.params.get("digest") == "":
        raise RunError(
            f"{run / 'run.json'} does not say what the data at {named[0]} is (it has no digest); "
            "name the data with --data PLACE"
        )
    if trust:
        return load_dataset(choice)
    with offline():
        return load_dataset(choice)


def named_files(choice: Choice) -> Iterator[str]:
    """The paths that a dataset names, also those of the datasets it is derived from."""
    choice = datasets.choose(choice.name, **choice.params)
    for name in FILE_PARAMETERS:
        if choice.params.get(name):
            yield str(choice.params[name])
    for name in datasets[choice.name].expressions:
        expression = str(choice.params[name])
        if len(expression) > MAX_EXPRESSION:
            raise ParameterError(f"{choice.name}.{name} has {len(expression):,} letters")
        try:
            entry, settings = resolve_dataset(expression)
        except UntwineError:  # reported when it is opened
            yield expression
        else:
            yield from named_files(datasets.choose(entry.name, **settings))
