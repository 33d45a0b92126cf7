"""A study is a file: names, and lists of numbers that multiply into runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from untwine.errors import DataError, ParameterError, UnknownNameError, UntwineError
from untwine.registry import metrics
from untwine.schema import unknown, written
from untwine.spec import Run, assemble, load, locate, plan

ENTRIES = ("study", "about", "models", "data", "seeds", "training", "metrics", "examples", "scales")
TRAINING = ("latent", "batch", "steps", "lr", "network", "likelihood")
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Study:
    """The runs of a study, and how they are scored."""

    name: str
    runs: tuple[Run, ...]
    metrics: tuple[str, ...]
    examples: int = 10_000
    about: str = ""

    @property
    def settings(self) -> list[Run]:
        """One run of each setting: all that differ in more than the seed."""
        return list({replace(r, seed=0).hash: r for r in reversed(self.runs)}.values())[::-1]


class Mistakes(ParameterError):
    """Everything that is wrong with a study file, with line numbers."""

    def __init__(self, file: str, found: Sequence[tuple[int, str]]) -> None:
        lines = sorted(dict.fromkeys(found))
        count = "a mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
        told = "\n".join(f"  line {line}: {sentence}" for line, sentence in lines)
        super().__init__(f"{file} has {count}:\n{told}")


@dataclass(frozen=True)
class Document:
    """The content of a YAML file, and the line on which each part of it begins."""

    name: str
    content: dict[str, Any]
    lines: Mapping[Place, int]

    def line(self, *place: str | int) -> int:
        """The line of the nearest part that has one."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def shipped() -> list[str]:
    """The names of the studies that come with the package."""
    folder = resources.files("untwine").joinpath("studies")
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())


def read_study(source: str | Path, scale: str = "") -> Study:
    """The study in a file, or one that comes with the package, with every run checked.

    Args:
        source: a YAML file, or the name of a shipped study.
        scale: which of the file's scales to take; its own numbers by default.
    """
    return resolve(read_document(source), scale)


def read_document(source: str | Path) -> Document:
    path = Path(source)
    if not path.is_file():
        if str(source) not in shipped():
            kind = "study or study file"
            raise UnknownNameError(unknown(kind, str(source), shipped()))
        packed = resources.files("untwine").joinpath("studies", f"{source}.yaml")
        return parse(packed.read_text("utf-8"), f"{source}.yaml")
    return parse(path.read_text("utf-8"), path.name)


def parse(text: str, name: str = "study.yaml") -> Document:
    """The content of a study file with line numbers."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ParameterError(f"{name} is not YAML: {error}") from None
    lines: dict[Place, int] = {}
    content = None if node is None else _plain(node, (), lines)
    if not isinstance(content, dict):
        raise ParameterError(f"{name} must hold entries such as `models:` and `data:`")
    return Document(name, content, lines)


def _plain(node: yaml.Node, place: Place, lines: dict[Place, int]) -> Any:
    """A node as plain Python values; the line of each part is noted."""
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child, (*place, i), lines) for i, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in found:
                raise Mistakes("the file", [(key.start_mark.line + 1, f"{name} is there twice")])
            lines[(*place, name)] = key.start_mark.line + 1
            found[name] = _plain(value, (*place, name), lines)
        return found
    return yaml.SafeLoader("").construct_object(node)


def scaled(document: Document, scale: str) -> Document:
    """The document with what one of its scales sets; dictionaries of numbers are merged."""
    scales = document.content.get("scales") or {}
    base = {key: value for key, value in document.content.items() if key != "scales"}
    if not scale:
        return replace(document, content=base)
    if scale not in scales:
        raise UnknownNameError(unknown(f"scale of {document.name}", scale, scales))
    lines = dict(document.lines)
    for key, value in scales[scale].items():
        inside = ("scales", scale, key)
        moved = {p[2:]: line for p, line in document.lines.items() if p[: len(inside)] == inside}
        lines.update(moved)
        base[key] = {**base[key], **value} if key == "training" and key in base else value
    return replace(document, content=base, lines=lines)


def resolve(document: Document, scale: str = "") -> Study:
    """The study of a document; all its mistakes are told at once."""
    document = scaled(document, scale)
    content, wrong = document.content, list(_unknown_entries(document))
    for entry in ("models", "data"):
        if not content.get(entry):
            wrong.append((document.line(entry), f"there must be some {entry}"))
    names = [str(name) for name in _list(content.get("metrics", []))]
    wrong += _refused(document, "metrics", names, metrics.read)
    datasets = [str(name) for name in _list(content.get("data", []))]
    bad_data = _refused(document, "data", datasets, _openable)
    seeds = _seeds(document, wrong)
    runs = [] if bad_data else list(_runs(document, datasets, seeds, wrong))
    examples = content.get("examples", 10_000)
    if type(examples) is not int or examples < 2:
        wrong.append((document.line("examples"), f"examples must be 2 or more, not {examples!r}"))
    if wrong + bad_data:
        raise Mistakes(document.name, wrong + bad_data)
    unique = tuple({run.hash: run for run in runs}.values())
    name = str(content.get("study", document.name.removesuffix(".yaml")))
    title = f"{name}-{scale}" if scale else name
    return Study(title, unique, tuple(names), examples, str(content.get("about", "")).strip())


def _unknown_entries(document: Document) -> Iterator[tuple[int, str]]:
    training = document.content.get("training") or {}
    for place, known, entries in (
        ((), ENTRIES, document.content),
        (("training",), TRAINING, training),
    ):
        for key in entries:
            if key not in known:
                kind = "entry of training" if place else "entry of a study"
                yield document.line(*place, key), unknown(kind, key, known)


def _refused(
    document: Document, entry: str, names: Iterable[str], use: Any
) -> list[tuple[int, str]]:
    """What is wrong with each of these names."""
    wrong: list[tuple[int, str]] = []
    for position, name in enumerate(names):
        try:
            use(name)
        except UntwineError as error:
            wrong.append((document.line(entry, position), str(error)))
    return wrong


def _openable(data: str) -> None:
    entry, given = locate(data)
    from untwine.registry import datasets

    load(datasets.choose(entry.name, **given))


def _seeds(document: Document, wrong: list[tuple[int, str]]) -> list[int]:
    seeds = document.content.get("seeds", 1)
    listed = list(range(seeds)) if type(seeds) is int and seeds > 0 else seeds
    if not isinstance(listed, list) or not all(type(s) is int and s >= 0 for s in listed):
        sentence = f"seeds must be how many, or a list of whole numbers from 0, not {seeds!r}"
        wrong.append((document.line("seeds"), sentence))
        return [0]
    return listed or [0]


def _runs(
    document: Document, datasets: list[str], seeds: list[int], wrong: list[tuple[int, str]]
) -> Iterator[Run]:
    """Every run; a setting that cannot be is noted and left out."""
    models = document.content.get("models") or {}
    models = {str(name): {} for name in models} if isinstance(models, list) else models
    for model, body in models.items():
        body = body or {}
        place = ("models", model)
        training = {**(document.content.get("training") or {}), **body.get("training", {})}
        try:
            settings = list(itertools.product(_grid(body), _products(training)))
        except ParameterError as error:
            wrong.append((document.line(*place, "zip"), str(error)))
            continue
        for data in datasets:
            for given, numbers in settings:
                try:
                    run = planned(model, data, given, numbers)
                except UntwineError as error:
                    key = next((k for k in (*body, *numbers) if k in str(error)), "")
                    inside = ("training", key) if key in numbers else (*place, key)
                    wrong.append((document.line(*inside), str(error)))
                    continue
                yield from (replace(run, seed=seed) for seed in seeds)


def planned(model: str, data: str, given: Mapping[str, Any], numbers: Mapping[str, Any]) -> Run:
    """One setting, built and tried on a small batch."""
    settings = [f"{key}={_text(value)}" for key, value in given.items()]
    run = plan(model, data, settings=settings, **numbers)
    opened = load(run.data)
    assemble(run, opened, latent=run.latent, seed=0, batch=run.batch)
    if run.batch > len(opened):
        raise DataError(f"a batch of {run.batch} cannot be drawn from {len(opened)} examples")
    return run


def _text(value: Any) -> str:
    return written(tuple(value) if isinstance(value, list) else value)


def _grid(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All combinations of a model's lists; those under `zip` go side by side."""
    lists = {key: value for key, value in body.items() if key not in ("zip", "training")}
    side_by_side = body.get("zip") or {}
    lengths = {len(_list(value)) for value in side_by_side.values()}
    if len(lengths) > 1:
        raise ParameterError("the lists under zip must have one length")
    rows = list(zip(*map(_list, side_by_side.values()), strict=True)) or [()]
    for product, row in itertools.product(_products(lists), rows):
        yield {**product, **dict(zip(side_by_side, row, strict=True))}


def _products(lists: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All combinations of values, where a list stands for each of its items."""
    for values in itertools.product(*map(_list, lists.values())):
        yield dict(zip(lists, values, strict=True))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
