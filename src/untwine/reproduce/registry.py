"""Exhibits and measures by name.

An exhibit is a function of the evidence and of parameters in a paper's file; it yields sections of
the page. A measure is a function of a trained run and of parameters; it returns numbers, which are
stored in the run's `measures.json` and become columns of the study's table. Both live in
`exhibits/` or in the folder of their paper and are named after their function, with hyphens.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from untwine.errors import DamagedFile, ParameterError, UnknownNameError, UntwineError
from untwine.runs.directory import open_run, read_done
from untwine.schema import unknown_name
from untwine.tools.sealed import read_json, write_json
from untwine.tools.terminal import warn

if TYPE_CHECKING:
    from untwine.tools.pages import Section

Function = TypeVar("Function", bound=Callable[..., Any])
MEASURE = {"asked": {str: object}, "values": {str: float}}
MEASURES = ({"weights": str, "measures": {str: MEASURE}}, {str: MEASURE})  # second: version 0.1
PACKAGES = ("untwine.reproduce.exhibits", "untwine.reproduce.papers")


class NamedFunctions:
    """Functions of one kind by name; an instance is the decorator that registers them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._functions: dict[str, Callable[..., Any]] = {}

    def __call__(self, function: Function) -> Function:
        name = function.__name__.replace("_", "-")
        if name in self._functions:
            raise UntwineError(f"a second {self.kind} is named {name}; choose another name")
        self._functions[name] = function
        return function

    def __getitem__(self, name: str) -> Callable[..., Any]:
        import_functions()
        if name not in self._functions:
            raise UnknownNameError(unknown_name(self.kind, name, self._functions))
        return self._functions[name]

    def call(self, name: str, subject: object, params: Mapping[str, Any] | None) -> Any:
        """The result of the function of this name; refuse parameters that it does not have."""
        function = self[name]
        try:
            inspect.signature(function).bind(subject, **(params or {}))
        except TypeError as error:
            raise ParameterError(f"the {self.kind} {name} is used wrongly: {error}") from None
        return function(subject, **(params or {}))


exhibit = NamedFunctions("exhibit")
measure = NamedFunctions("measure")


def import_functions() -> None:
    """Import every module that may hold exhibits and measures."""
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def render_entry(evidence: object, entry: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the sections of one entry of an item's `show`."""
    for name, params in entry.items():
        yield from exhibit.call(name, evidence, params)


def measure_run(
    path: Path, name: str, params: Mapping[str, Any], label: str = ""
) -> dict[str, float]:
    """Measure the run in a directory, or read the stored values of the same measure.

    Returns:
        columns `LABEL.KEY`; the label defaults to the name of the measure.
    """
    label = label or name
    asked = json.loads(json.dumps({"measure": name, **params}))
    weights = read_done(path)["weights"]
    stored = _read_measures(path, weights)
    if stored.get(label, {}).get("asked") != asked:
        stored[label] = {"asked": asked, "values": measure.call(name, open_run(path), params)}
        write_json(path / "measures.json", {"weights": weights, "measures": stored})
    return {f"{label}.{key}": float(value) for key, value in stored[label]["values"].items()}


def _read_measures(path: Path, weights: str) -> dict[str, Any]:
    """The measures stored for these weights; damaged ones are named, and taken again."""
    file = path / "measures.json"
    if not os.path.lexists(file):
        return {}
    try:
        stored = read_json(file, MEASURES, remedy="the measures are taken again")
    except DamagedFile as error:
        warn(str(error))
        return {}
    if not isinstance(stored.get("weights"), str):  # of version 0.1
        return stored
    return stored["measures"] if stored["weights"] == weights else {}
