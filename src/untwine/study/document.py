"""A study file before its runs are made: its content, and the line of each part of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from untwine.data.incoming.bounds import read_text, refuse_unreadable
from untwine.data.incoming.documents import MAX_CHARACTERS, KeyPath, LineError, read_yaml
from untwine.errors import ParameterError, UnknownNameError
from untwine.schema import unknown_name
from untwine.specification import OPTIONS

ENTRIES = (
    *("study", "about", "plugins", "models", "data", "seeds", "training", "metrics", "examples"),
    "scales",
)
PIECES = ("network", "likelihood")
TRAINING = ("latent", "batch", "steps", "epochs", "lr", *PIECES, *OPTIONS)
PLAIN = re.compile(r"\w[\w .+-]*")  # a name that is safe as a directory's
Mistakes = list[tuple[int, str]]  # lines, and what is wrong there


class StudyFileErrors(ParameterError):
    """Everything that is wrong with a study file, with line numbers."""

    def __init__(self, file: str, mistakes: Sequence[tuple[int, str]]) -> None:
        lines = sorted(dict.fromkeys(mistakes))
        count = "a mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
        listing = "\n".join(f"  line {line}: {sentence}" for line, sentence in lines)
        super().__init__(f"{file} has {count}:\n{listing}")


@dataclass(frozen=True)
class Document:
    """The content of a YAML file, and the line on which each part of it begins."""

    name: str
    content: dict[str, Any]
    lines: Mapping[KeyPath, int]
    folder: Path = Path()  # from which it names plug-ins

    def line(self, *place: str | int) -> int:
        """The line of the nearest part that has one."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def shipped_studies() -> list[str]:
    """The names of the studies that come with the package."""
    folder = resources.files("untwine.study").joinpath("studies")
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())


def read_document(source: str | Path) -> Document:
    """The content of a study file, or of one that comes with the package."""
    path = Path(source)
    if not path.is_file():
        if str(source) not in shipped_studies():
            kind = "study or study file"
            raise UnknownNameError(unknown_name(kind, str(source), shipped_studies()))
        packed = resources.files("untwine.study").joinpath("studies", f"{source}.yaml")
        return parse(packed.read_text("utf-8"), f"{source}.yaml")
    with refuse_unreadable(f"{path.name} is not a text file in UTF-8"):
        text = read_text(path, MAX_CHARACTERS)
    return replace(parse(text, path.name), folder=path.parent)


def parse(text: str, name: str = "study.yaml") -> Document:
    """The content of a study file with line numbers."""
    try:
        document = read_yaml(text)
    except LineError as error:
        raise StudyFileErrors(name, [(error.line, error.sentence)]) from None
    if document.twice:
        raise StudyFileErrors(name, document.twice)
    if not isinstance(document.content, dict):
        raise ParameterError(f"{name} must hold entries such as `models:` and `data:`")
    return Document(name, document.content, document.lines)


def at_scale(document: Document, scale: str) -> Document:
    """The document with what one of its scales sets; dictionaries of numbers are merged."""
    scales = document.content.get("scales") or {}
    base = {key: value for key, value in document.content.items() if key != "scales"}
    if not scale:
        return replace(document, content=base)
    if scale not in scales:
        raise UnknownNameError(unknown_name(f"scale of {document.name}", scale, scales))
    lines = dict(document.lines)
    for key, value in scales[scale].items():
        inside = ("scales", scale, key)
        moved = {p[2:]: line for p, line in document.lines.items() if p[: len(inside)] == inside}
        lines.update(moved)
        merged = key == "training" and isinstance(value, dict) and isinstance(base.get(key), dict)
        base[key] = {**base[key], **value} if merged else value
    return replace(document, content=base, lines=lines)


def find_bad_scales(document: Document) -> Iterator[tuple[int, str]]:
    """What is wrong with the names and the form of the scales."""
    scales = document.content.get("scales") or {}
    if not isinstance(scales, dict):
        yield document.line("scales"), f"scales must hold `NAME:` with entries, not {scales!r}"
        return
    for name, body in scales.items():
        if not isinstance(body, dict):
            yield document.line("scales", name), f"the scale {name} must hold entries, not {body!r}"
        if not PLAIN.fullmatch(name):
            yield document.line("scales", name), _no_name("a scale", name)


def shape_document(document: Document, wrong: Mistakes) -> Document:
    """The document with a dictionary for each model and for its training.

    What is of another shape, unknown or empty is noted as wrong and left out.
    """
    content, lines = document.content, dict(document.lines)
    wrong += _unknown_keys(document, (), content, "entry of a study", ENTRIES)
    name = content.get("study", "study")
    if not PLAIN.fullmatch("" if name is None else str(name)):
        wrong.append((document.line("study"), _no_name("a study", name)))
    for entry in ("models", "data"):
        if not content.get(entry):
            wrong.append((document.line(entry), f"there must be some {entry}"))
    models = content.get("models") or {}
    if not isinstance(models, dict):
        listed = {str(model): i for i, model in enumerate(as_list(models))}
        lines.update({("models", m): document.line("models", i) for m, i in listed.items()})
        models = dict.fromkeys(listed)
    bodies = {model: _body(document, model, body, wrong) for model, body in models.items()}
    training = _training(document, ("training",), content.get("training"), wrong)
    shaped = {**content, "models": bodies, "training": training}
    return replace(document, content=shaped, lines=lines)


def _body(document: Document, model: str, body: Any, wrong: Mistakes) -> dict[str, Any]:
    """A model's parameters, with `zip` and `training` as dictionaries."""
    place = ("models", model)
    params = dict(body) if isinstance(body, dict) else {}
    zipped = _mapping(document, (*place, "zip"), params.pop("zip", None), wrong)
    training = _training(document, (*place, "training"), params.pop("training", None), wrong)
    lists = _mapping(document, place, params if isinstance(body, dict) else body, wrong)
    plain = {key.replace("_", "-") for key in lists}
    for key in zipped:
        if key.replace("_", "-") in plain:
            sentence = f"{key} is under {model} and under its zip; write it once"
            wrong.append((document.line(*place, "zip", key), sentence))
    return {**lists, "zip": zipped, "training": training}


def _training(document: Document, place: KeyPath, value: Any, wrong: Mistakes) -> dict[str, Any]:
    """The numbers of training that there are; names where names must be."""
    numbers = _mapping(document, place, value, wrong)
    wrong += _unknown_keys(document, place, numbers, "entry of training", TRAINING)
    for key in PIECES:
        if not all(isinstance(name, str) for name in as_list(numbers.get(key, ""))):
            sentence = f"{key} must be a name, not {numbers.pop(key)!r}"
            wrong.append((document.line(*place, key), sentence))
    return {key: item for key, item in numbers.items() if key in TRAINING}


def _mapping(document: Document, place: KeyPath, value: Any, wrong: Mistakes) -> dict[str, Any]:
    """The entries that have a value."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        sentence = f"{place[-1]} must hold `NAME: VALUE`, not {value!r}"
        wrong.append((document.line(*place), sentence))
        return {}
    for key in (key for key, item in value.items() if item in (None, [])):
        wrong.append((document.line(*place, key), f"{key} has no value; give it one or leave out"))
    return {key: item for key, item in value.items() if item not in (None, [])}


def _no_name(kind: str, name: object) -> str:
    return f"{kind} must have a plain name of letters, digits and hyphens, not {name!r}"


def _unknown_keys(
    document: Document, place: KeyPath, keys: Iterable[str], kind: str, names: Sequence[str]
) -> Mistakes:
    return [
        (document.line(*place, key), unknown_name(kind, key, names))
        for key in keys
        if key not in names
    ]


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
