"""Numbers of a finished run that an item needs beside its scores, such as one on other data.

A measure is a function of a finished run and of the parameters that a paper's file gives, in one of
the modules here; its name there is that of the function, with hyphens. What it finds is kept in the
run's `measures.json`, and is a column of the study's table.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from untwine.errors import UnknownNameError, UntwineError
from untwine.runs import Finished, open_run, read_json
from untwine.schema import unknown
from untwine.store import write_json

Measure = Callable[..., dict[str, float]]
MEASURES: dict[str, Measure] = {}


def measure(function: Measure) -> Measure:
    """Make a function known under its own name."""
    name = function.__name__.replace("_", "-")
    if name in MEASURES:
        raise UntwineError(f"a second measure is named {name}; choose another name")
    MEASURES[name] = function
    return function


def measured(path: Path, name: str, how: Mapping[str, Any], label: str = "") -> dict[str, float]:
    """What a measure finds of the run in a directory, from its file if it is there.

    Returns:
        columns `LABEL.KEY`, where the label is the measure's name unless another is given.
    """
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    if name not in MEASURES:
        raise UnknownNameError(unknown("measure", name, MEASURES))
    label = label or name
    asked = json.loads(json.dumps({"measure": name, **how}))
    file = path / "measures.json"
    kept = read_json(file) if file.exists() else {}
    if kept.get(label, {}).get("asked") != asked:
        finished: Finished = open_run(path)
        kept[label] = {"asked": asked, "values": MEASURES[name](finished, **how)}
        write_json(file, kept)
    return {f"{label}.{key}": float(value) for key, value in kept[label]["values"].items()}
