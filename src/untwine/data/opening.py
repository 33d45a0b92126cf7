"""Open datasets by name, expression, folder or file; the last few stay in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from untwine.data.dataset import Dataset
from untwine.errors import DataError, UnknownNameError, UntwineError
from untwine.registry import EXPRESSION, Choice, Entry, datasets
from untwine.schema import Value, format_value, unknown_name
from untwine.tools.files import expand_user, resolve
from untwine.tools.terminal import printable

FILE_PARAMETERS = ("path", "painting")  # parameters of datasets that name files
MAX_LOADED = 4  # datasets in memory
_LOADED: dict[str, Dataset] = {}  # newest last


def reopen_with(data: Choice, **changes: Value) -> Dataset:
    """The data of a run with some parameters changed.

    A parameter that the data lacks is passed on to the data it is derived from: the `split` of
    `coloured-mnist(of=mnist)` is that of mnist.
    """
    return load_dataset(_with_changes(data, changes))


def _with_changes(data: Choice, changes: dict[str, Value]) -> Choice:
    own = {key: value for key, value in changes.items() if key in data.params}
    rest = {key: value for key, value in changes.items() if key not in data.params}
    params = {key: value for key, value in data.params.items() if key != "digest"} | own
    if rest and "of" not in params:
        raise UnknownNameError(
            unknown_name(f"parameter of {data.name}", next(iter(rest)), data.params)
        )
    if rest:
        entry, settings = resolve_dataset(str(params["of"]))
        inner = _with_changes(datasets.choose(entry.name, **settings), rest)
        short = {k: v for k, v in datasets.non_default(inner).items() if k != "name"}
        params["of"] = str(Choice(inner.name, short))
    return datasets.choose(data.name, **params)


def absolute_paths(entry: Entry, params: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters with absolute paths, also inside expressions."""
    files = {key: value for key in FILE_PARAMETERS if (value := params.get(key))}
    inner = {key: value for key in entry.expressions if (value := params.get(key))}
    return {
        **params,
        **{key: str(resolve(expand_user(str(value)))) for key, value in files.items()},
        **{key: _absolute_expression(str(value)) for key, value in inner.items()},
    }


def _absolute_expression(expression: str) -> str:
    """The expression with absolute paths."""
    try:
        entry, settings = resolve_dataset(expression)
    except UntwineError:  # reported when it is opened
        return expression
    return str(Choice(entry.name, {key: format_value(value) for key, value in settings.items()}))


def resolve_dataset(data: str) -> tuple[Entry, dict[str, Value]]:
    """The entry of the dataset that a name, expression or path stands for, and its settings."""
    data = data.strip()
    if data.replace("_", "-") in datasets:  # write ./NAME for a folder of that name
        return datasets[data], {}
    if "\0" in data:
        raise DataError(f"{data!r} is not a dataset, a folder or a file")
    path = Path(os.path.expanduser(data))
    exists, is_folder = os.path.exists(path), os.path.isdir(path)
    match = EXPRESSION.fullmatch(data)
    if match and match["given"] is not None and not exists:
        entry, settings = datasets.parse(data)
        return entry, absolute_paths(entry, settings)
    if is_folder:
        return datasets["folder"], {"path": str(resolve(path))}
    if path.suffix.lower() in {".npy", ".npz"}:
        return datasets["array"], {"path": os.path.realpath(path)}
    if path.suffix.lower() in {".csv", ".tsv", ".parquet"}:
        return datasets["table"], {"path": os.path.realpath(path)}
    if exists or path.name != data:
        raise DataError(
            f"{data} is not a dataset, a folder of images, or an .npy, .npz, .csv or .parquet file"
        )
    return datasets[data], {}


def entries_of(choice: Choice) -> list[Entry]:
    """The entry of a dataset, and those of the datasets that it is derived from."""
    entry = datasets[choice.name]
    inner = [resolve_dataset(str(choice.params[key])) for key in entry.expressions]
    others = [datasets.choose(other.name, **settings) for other, settings in inner]
    return [entry, *(below for other in others for below in entries_of(other))]


def require_text(choice: Choice) -> None:
    """Refuse a path that is not UTF-8, which run.json could not name."""
    for value in choice.params.values():
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise DataError(f"the path {printable(value)} is not UTF-8; rename it")


def load_dataset(choice: Choice) -> Dataset:
    """The dataset of a choice; the last few stay in memory, those from files by digest."""
    key = json.dumps(choice.to_json())
    data = _LOADED.pop(key, None)
    if data is None:
        data = replace(datasets.make(choice), name=datasets.expression(choice, *FILE_PARAMETERS))
        if data.digest:
            key = json.dumps({**choice.to_json(), "digest": data.digest})
    _LOADED[key] = data
    while len(_LOADED) > MAX_LOADED:
        _LOADED.pop(next(iter(_LOADED)))
    return data


def choice_of(data: Dataset) -> Choice | None:
    """The choice that this very dataset was opened with, while it is in memory."""
    for key, loaded in _LOADED.items():
        if loaded is data:
            return datasets.from_json(json.loads(key))
    return None


def open_like(choice: Choice, place: str, shape: Sequence[int] = ()) -> Dataset:
    """The data at another place, prepared as the data of this choice.

    A folder or file takes the parameters of the choice, such as the size of images; anything else
    is opened as it is written. Pictures that have other channels than the examples of this shape,
    such as grey ones for a model of colours, are converted.
    """
    entry, settings = resolve_dataset(place)
    if entry.name != choice.name or "path" not in settings:
        return load_dataset(datasets.choose(entry.name, **settings))
    own = {key: value for key, value in choice.params.items() if key != "digest"} | settings
    data = _load_unlabelled(entry, own)
    if own.get("channels") or "channels" not in entry.parameters or data.shape == tuple(shape):
        return data
    same_sides = len(shape) == 3 and data.shape[1:] == tuple(shape[1:])
    return reopen_with(Choice(entry.name, own), channels=shape[0]) if same_sides else data


def _load_unlabelled(entry: Entry, params: dict[str, Value]) -> Dataset:
    """A dataset; a table of new rows may lack the columns that are factors."""
    try:
        return load_dataset(datasets.choose(entry.name, **params))
    except DataError as error:
        if not params.get("factors") or "no column named" not in str(error):
            raise
        return load_dataset(datasets.choose(entry.name, **{**params, "factors": ""}))


def open_as(expression: str, place: str, shape: Sequence[int] = ()) -> Dataset:
    """The data at a place, prepared as the data that a model's card names; as by `open_like`."""
    if not expression:
        return open_like(Choice(""), place)
    entry, params = datasets.parse(expression)
    return open_like(datasets.choose(entry.name, **params), place, shape)


def dataset(name: str, /, **params: Value) -> Dataset:
    """Open a dataset by name, or a folder or file of your own.

    >>> import untwine
    >>> len(untwine.dataset("sprites", size=32))
    737280
    >>> untwine.dataset("sprites(size=32)").shape
    torch.Size([1, 32, 32])
    """
    entry, settings = resolve_dataset(name)
    settings |= absolute_paths(entry, params)
    return load_dataset(datasets.choose(entry.name, **settings))
