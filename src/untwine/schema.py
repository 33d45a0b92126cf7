"""A keyword-only signature is a schema: names, types, defaults, and help from the docstring."""

from __future__ import annotations

import difflib
import inspect
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Annotated, Any, Literal

from untwine.errors import ParameterError, UnknownNameError

Value = bool | int | float | str | tuple[int, ...]
"""Values of a parameter: everything that survives JSON and a command line."""
TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


MAX_COUNT = 2**20  # upper end of whole numbers that have none of their own
MAX_WIDTH = 10_000  # units, latents or clusters: memory grows with them
MAX_REPEATS = 10_000  # seeds, draws or retries of one command
MAX_WORKERS = 4096
MAX_THREADS = 1024
MAX_SEED = 2**63 - 1
MAX_TEXT = 4096  # characters of a value
MAX_NUMBERS = 1000  # in a list of them
MAX_SHOWN = 60  # characters of a value that an error quotes


@dataclass(frozen=True)
class Range:
    """Bounds of a numeric parameter, part of its type, as in `Annotated[int, Range(1)]`."""

    least: float
    most: float = math.inf
    closed: bool = True  # whether the bounds themselves are allowed

    def __contains__(self, value: float) -> bool:
        if self.closed:
            return self.least <= value <= self.most
        return self.least < value < self.most

    def __str__(self) -> str:
        if self.most == math.inf:
            return f"of at least {self.least:g}" if self.closed else f"above {self.least:g}"
        if self.most in (MAX_COUNT, MAX_SEED):
            return f"of at least {self.least:g} and at most {self.most}"
        form = "from {:.15g} to {:.15g}" if self.closed else "between {:.15g} and {:.15g}"
        return form.format(self.least, self.most)


Count = Annotated[int, Range(1)]
Width = Annotated[int, Range(1, MAX_WIDTH)]
MaybeWidth = Annotated[int, Range(0, MAX_WIDTH)]
Natural = Annotated[int, Range(0)]
Positive = Annotated[float, Range(0, closed=False)]
NonNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
OpenShare = Annotated[float, Range(0, 1, closed=False)]


@dataclass(frozen=True)
class Parameter:
    """One keyword of a registered function."""

    name: str
    type: Any
    default: Value
    help: str
    range: Range | None = None

    @property
    def type_name(self) -> str:
        """The type in words, such as `a number of at least 0`, `"mws" or "mss"`."""
        if typing.get_origin(self.type) is Literal:
            return " or ".join(json.dumps(choice) for choice in typing.get_args(self.type))
        bounds = f" {self.range}" if self.range else ""
        if typing.get_origin(self.type) is tuple:
            return f"whole numbers{bounds}, with commas between"
        return f"{TYPE_NAMES[self.type]}{bounds}"

    def check(self, value: object) -> Value:
        """Convert a value to the type of this parameter, or raise `ParameterError`."""
        converted = _convert(value, self.type)
        if converted is None or not self._in_range(converted):
            shown = f"{value!r:.{MAX_SHOWN}}"
            raise ParameterError(f"{self.name} must be {self.type_name}, not {shown}")
        return converted

    def _in_range(self, value: Value) -> bool:
        if self.range is None:
            return True
        numbers = value if isinstance(value, tuple) else (value,)
        return all(number in self.range for number in typing.cast(tuple[float, ...], numbers))

    def parse(self, text: str) -> Value:
        """Read a value from text, as on a command line."""
        if len(text) > MAX_TEXT:
            raise ParameterError(f"{self.name} has more than {MAX_TEXT:,} characters; write fewer")
        if self.type is str:
            return text
        if typing.get_origin(self.type) is tuple:
            text = f"[{text.strip('[]()')}]"
        try:
            return self.check(json.loads(text.lower() if self.type is bool else text))
        except ParameterError:
            raise
        except (ValueError, RecursionError):  # no JSON, too many digits, or nested too deep
            return self.check(text)


def _convert(value: object, wanted: Any) -> Value | None:
    """The value as the wanted type, or None if the conversion would lose something."""
    if typing.get_origin(wanted) is Literal:
        return typing.cast(Value, value) if value in typing.get_args(wanted) else None
    if typing.get_origin(wanted) is tuple:
        return _integers(value)
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) <= sys.float_info.max else None
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if type(value) is wanted:
        return typing.cast(Value, value)
    return None


def _integers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list | tuple) or len(typing.cast(list[object], value)) > MAX_NUMBERS:
        return None
    items = [_convert(item, int) for item in typing.cast(Iterable[object], value)]
    return None if None in items else typing.cast(tuple[int, ...], tuple(items))


def require_count(name: str, value: int, least: int, most: int = MAX_COUNT) -> None:
    """Refuse a whole number that is out of its range.

    >>> require_count("seeds", 0, 1, 10)
    Traceback (most recent call last):
    untwine.errors.ParameterError: seeds must be a whole number from 1 to 10, not 0
    """
    if not isinstance(value, Integral) or not least <= value <= most:
        shown = f"{value!r:.{MAX_SHOWN}}"
        raise ParameterError(f"{name} must be a whole number from {least} to {most:,}, not {shown}")


def parameters_of(function: Callable[..., object]) -> dict[str, Parameter]:
    """The keyword-only parameters of a function, in order.

    >>> def beta_vae(*, beta: float = 4.0): "Weight the KL.\\n\\nArgs:\\n    beta: its weight"
    >>> parameters_of(beta_vae)["beta"].help
    'its weight'
    """
    hints = typing.get_type_hints(function, include_extras=True)
    helps = argument_help(function)
    return {
        p.name: Parameter(
            p.name,
            _plain_type(hints.get(p.name, Any)),
            p.default,
            helps.get(p.name, ""),
            _range(p.name, hints.get(p.name, Any)),
        )
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }


def _plain_type(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _range(name: str, hint: Any) -> Range | None:
    """The range in an annotation, or None; whole numbers without an upper end get one."""
    extras = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    bounds = next((extra for extra in extras if isinstance(extra, Range)), None)
    if bounds is None or bounds.most < math.inf or _plain_type(hint) is float:
        return bounds
    return replace(bounds, most=MAX_SEED if name == "seed" else MAX_COUNT)


def argument_help(function: Callable[..., object]) -> dict[str, str]:
    """The `Args:` section of a Google-style docstring as {name: sentence}."""
    lines = (inspect.getdoc(function) or "").splitlines()
    if "Args:" not in lines:
        return {}
    helps: dict[str, str] = {}
    name = ""
    for line in lines[lines.index("Args:") + 1 :]:
        if not line.startswith("    "):
            break
        if line.startswith("     "):
            helps[name] += " " + line.strip()
        else:
            name, _, text = line.strip().partition(": ")
            helps[name] = text
    return helps


def description(function: Callable[..., object]) -> str:
    """The docstring without its `Args:` section."""
    return (inspect.getdoc(function) or "").partition("\nArgs:\n")[0].strip()


def fill_defaults(
    owner: str, parameters: Mapping[str, Parameter], params: Mapping[str, object]
) -> dict[str, Value]:
    """Values of all parameters: those in `params` checked, the others at their defaults."""
    for name in params:
        _require_parameter(owner, parameters, name)
    try:
        return {
            name: p.check(params[name]) if name in params else p.default
            for name, p in parameters.items()
        }
    except ParameterError as error:
        raise ParameterError(f"{owner}.{error}") from None


def parse_arguments(owner: str, parameters: Mapping[str, Parameter], text: str) -> dict[str, Value]:
    """`size=32, of=mix(a=x, b=y)` as checked values; commas inside parentheses do not part."""
    params: dict[str, Value] = {}
    for part in _split_arguments(text):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if not equals:
            raise ParameterError(f"{owner}: write PARAMETER=VALUE, not {part.strip()!r}")
        _require_parameter(owner, parameters, key)
        if key in params:
            raise ParameterError(f"{owner}.{key} is set twice; set it once")
        try:
            params[key] = parameters[key].parse(value.strip())
        except ParameterError as error:
            raise ParameterError(f"{owner}.{error}") from None
    return params


def _require_parameter(owner: str, parameters: Mapping[str, Parameter], name: str) -> None:
    if name not in parameters:
        raise UnknownNameError(unknown_name(f"parameter of {owner}", name, parameters))


def _split_arguments(text: str) -> list[str]:
    """Split at commas that are not inside brackets, where a part has an equals sign.

    A part without one belongs to the part before it: `widths=64,32, rate=2` has two parts.
    """
    parts: list[str] = []
    depth, current = 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    parts.append(current)
    joined: list[str] = []
    for part in parts:
        if joined and "=" not in part:
            joined[-1] += "," + part
        elif part.strip():
            joined.append(part)
    return joined


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> str:
    """The error message for an unknown name, with the closest existing names.

    >>> unknown_name("model", "beta-va", ["vae", "beta-vae"])
    "there is no model named 'beta-va'; did you mean 'beta-vae'?"
    """
    names = list(choices)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f"there is no {kind} named {name!r}; did you mean {' or '.join(map(repr, near))}?"
    existing = ", ".join(names) if names else "none at all"
    return f"there is no {kind} named {name!r}; there are: {existing}"


def is_supported(annotation: Any) -> bool:
    """Whether a parameter of this type can be checked, parsed and stored."""
    if isinstance(annotation, types.UnionType):
        return False
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation) == (int, ...)
    return annotation in TYPE_NAMES or typing.get_origin(annotation) is Literal


def format_value(value: Value) -> str:
    """Write a value as on a command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
