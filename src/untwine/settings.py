"""What a person sets, on a command line or in Python, and the pieces that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from untwine.errors import ParameterError, UnknownNameError
from untwine.registry import Entry
from untwine.schema import Parameter, Value, unknown_name


class Settings:
    """What a person sets: `beta=6`, or `beta-vae.beta=6` where more than one piece has a `beta`."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = {key.replace("_", "-"): value for key, value in values.items()}

    @classmethod
    def read(cls, lines: Iterable[str]) -> Settings:
        """Settings from `NAME=VALUE` lines, as on a command line."""
        values: dict[str, object] = {}
        for line in lines:
            key, equals, text = line.partition("=")
            if not equals or not key.strip():
                raise ParameterError(f"a setting is NAME=VALUE, for example beta=6, not {line!r}")
            if key.strip() in values:
                raise ParameterError(f"{key.strip()} is set twice; set it once")
            values[key.strip()] = text.strip()
        return cls(values)

    def __or__(self, other: Settings) -> Settings:
        for key in self.values.keys() & other.values.keys():
            raise ParameterError(f"{key} is set twice; set it once")
        return Settings({**self.values, **other.values})

    def params_of(self, entry: Entry) -> dict[str, Value]:
        """The parameters of one piece that are set here."""
        params: dict[str, Value] = {}
        for p in entry.parameters.values():
            keys = [key for key in _keys(entry, p) if key in self.values]
            if len(keys) > 1:
                raise ParameterError(f"{' and '.join(keys)} are the same setting; set it once")
            for key in keys:
                value = self.values[key]
                try:
                    params[p.name] = p.parse(value) if isinstance(value, str) else p.check(value)
                except ParameterError as error:
                    raise ParameterError(f"{entry.name}.{error}") from None
        return params

    def check(self, entries: Iterable[Entry], also: Iterable[str] = ()) -> None:
        """Refuse a setting that no piece has, or that more than one piece has.

        `also` are further names to suggest for a misspelt one.
        """
        owners: dict[str, list[str]] = {}
        for entry in entries:
            for p in entry.parameters.values():
                for key in _keys(entry, p):
                    owners.setdefault(key, []).append(f"{entry.name}.{p.name}")
        for key in self.values:
            if key not in owners:
                raise UnknownNameError(unknown_name("setting", key, [*owners, *also]))
            if len(owners[key]) > 1:
                raise ParameterError(f"{key} could be {' or '.join(owners[key])}; write which")


def find_parameter(name: str, entries: Sequence[Entry], also: Iterable[str] = ()) -> Parameter:
    """The parameter that a setting of this name sets; refuse one that none or several pieces have.

    `also` are further names to suggest for a misspelt one.
    """
    asked = Settings({name: ""})
    asked.check(entries, also)
    (key,) = asked.values
    return next(p for e in entries for p in e.parameters.values() if key in _keys(e, p))


def _keys(entry: Entry, p: Parameter) -> tuple[str, str]:
    """How a parameter may be called: by its own name, and with its owner's in front."""
    bare = p.name.replace("_", "-")
    return bare, f"{entry.name}.{bare}"
