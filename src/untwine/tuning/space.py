"""What is searched: a range or a list of values for each parameter."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from untwine.errors import ParameterError
from untwine.optimisers import Training
from untwine.registry import Entry, datasets, likelihoods, models, networks
from untwine.schema import format_value
from untwine.settings import find_parameter
from untwine.specification import NUMBERS, OPTIONS, Run

if TYPE_CHECKING:
    from optuna import Trial

TUNABLE = {
    **{name: float if name == "lr" else int for name in NUMBERS if name not in ("seed", "steps")},
    **{name: type(getattr(Training(), name)) for name in OPTIONS if name != "validation"},
}
"""Numbers and options of a training that can be searched, with their types."""
RANGE = re.compile(r"(?P<low>[^:,]+?)\.\.(?P<high>[^:,]+)(?::(?P<scale>\w*))?")
HOW_TO = "a search is NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C"


@dataclass(frozen=True)
class Dimension:
    """One parameter and the values to try."""

    name: str
    low: float = 0
    high: float = 0
    log: bool = False
    whole: bool = False  # whole numbers only
    choices: tuple[str, ...] = ()  # instead of a range

    def suggest(self, trial: Trial) -> str:
        """The value that a trial tries, as it is written on the command line."""
        if self.choices:
            return str(trial.suggest_categorical(self.name, list(self.choices)))
        if self.whole:
            low, high = int(self.low), int(self.high)
            return str(trial.suggest_int(self.name, low, high, log=self.log))
        return repr(trial.suggest_float(self.name, self.low, self.high, log=self.log))

    def __str__(self) -> str:
        if self.choices:
            return f"{self.name}={','.join(self.choices)}"
        text = f"{self.name}={format_value(self.low)}..{format_value(self.high)}"
        return text + (":log" if self.log else "")


def read_search(lines: Iterable[str], spec: Run) -> list[Dimension]:
    """The dimensions of a search of a planned run."""
    pieces: Sequence[Entry] = [
        *(models[part.name] for part in spec.model),
        datasets[spec.data.name],
        networks[spec.network.name],
        likelihoods[spec.likelihood.name],
    ]
    dimensions = [_read_dimension(line, pieces) for line in lines]
    if not dimensions:
        raise ParameterError(f"there is nothing to search; {HOW_TO}")
    names = [dimension.name for dimension in dimensions]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{name} is searched twice; name it once")
    return dimensions


def _read_dimension(line: str, pieces: Sequence[Entry]) -> Dimension:
    name, equals, text = (part.strip() for part in line.partition("="))
    if not equals or not name or not text:
        raise ParameterError(f"{HOW_TO}, not {line!r}")
    key = name.replace("-", "_")
    parameter = None if key in TUNABLE else find_parameter(name, pieces, also=TUNABLE)
    kind: Any = parameter.type if parameter else TUNABLE[key]
    name = key if parameter is None else name
    match = RANGE.fullmatch(text)
    if match is None:
        choices = tuple(dict.fromkeys(value.strip() for value in text.split(",")))
        for value in choices:
            if parameter:
                parameter.parse(value)
        if len(choices) < 2:
            raise ParameterError(f"{name} has one value, {text!r}; {HOW_TO}")
        return Dimension(name, choices=choices)
    if kind not in (int, float):
        raise ParameterError(f"{name} is not a number; write its values as {name}=A,B,C")
    if match["scale"] not in (None, "log"):
        raise ParameterError(f"a range ends with :log or nothing, not :{match['scale']}")
    low, high = (_number(name, match[end], kind) for end in ("low", "high"))
    for end in (low, high):
        if parameter:
            parameter.check(end)
    log = match["scale"] == "log"
    if not low < high or (log and low <= 0):
        least = " above 0" if log else ""
        raise ParameterError(f"the range of {name} must rise from a number{least}, not {text!r}")
    return Dimension(name, low, high, log, whole=kind is int)


def _number(name: str, text: str, kind: type) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        whole = "a whole number" if kind is int else "a number"
        raise ParameterError(f"{name} needs {whole}, not {text!r}; {HOW_TO}")
    return value
