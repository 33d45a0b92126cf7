"""A run's data with other parameters, such as its test part."""

from __future__ import annotations

from untwine.data import Dataset
from untwine.errors import UnknownNameError
from untwine.registry import Choice, datasets
from untwine.schema import Value, unknown
from untwine.spec import locate


def varied(data: Choice, **changes: Value) -> Dataset:
    """The data of a run with some parameters changed.

    A parameter that the data does not have is one of the data that it is made of: the `split` of
    `coloured-mnist(of=mnist)` is that of mnist.
    """
    from untwine.spec import load

    return load(_changed(data, changes))


def _changed(data: Choice, changes: dict[str, Value]) -> Choice:
    own = {key: value for key, value in changes.items() if key in data.params}
    rest = {key: value for key, value in changes.items() if key not in data.params}
    params = {key: value for key, value in data.params.items() if key != "digest"} | own
    if rest and "of" not in params:
        raise UnknownNameError(unknown(f"parameter of {data.name}", next(iter(rest)), data.params))
    if rest:
        entry, given = locate(str(params["of"]))
        inner = _changed(datasets.choose(entry.name, **given), rest)
        short = {k: v for k, v in datasets.shortened(inner).items() if k != "name"}
        params["of"] = str(Choice(inner.name, short))
    return datasets.choose(data.name, **params)
