"""A study is a file: names, and lists of numbers that multiply into runs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untwine import registry
from untwine.data.incoming.bounds import read_text, refuse_unreadable
from untwine.data.incoming.documents import MAX_CHARACTERS, KeyPath, LineError, read_yaml
from untwine.data.opening import load_dataset, resolve_dataset
from untwine.errors import (
    DataError,
    IncompatibleError,
    ParameterError,
    UnknownNameError,
    UntwineError,
)
from untwine.registry import load_plugin, metrics
from untwine.schema import format_value, unknown_name
from untwine.spec import build_model, plan, split_data
from untwine.specification import NUMBER_BOUNDS, OPTIONS, Run
from untwine.tools.files import expand_user
from untwine.tools.notebook import card_html

if TYPE_CHECKING:
    from untwine.data.dataset import Dataset
    from untwine.vae import VAE

ENTRIES = (
    *("study", "about", "plugins", "models", "data", "seeds", "training", "metrics", "examples"),
    "scales",
)
PIECES = ("network", "likelihood")
TRAINING = ("latent", "batch", "steps", "epochs", "lr", *PIECES, *OPTIONS)
MAX_SEEDS = 100_000
MAX_RUNS = 1_000_000
PLAIN = re.compile(r"\w[\w .+-]*")  # a name that is safe as a directory's
STAND_IN = "sprites(size=16)"  # on which models are checked where no dataset can be opened
Mistake = list[tuple[int, str]]  # lines, and what is wrong there


@dataclass(frozen=True)
class Study:
    """The runs of a study, and how they are scored."""

    name: str
    runs: tuple[Run, ...]
    metrics: tuple[str, ...]
    examples: int = 10_000
    about: str = ""

    def __repr__(self) -> str:
        counts = f"{len(self.settings)} settings, {len(self.runs)} runs"
        return f"<Study {self.name}: {counts}, metrics {', '.join(self.metrics)}>"

    def _repr_html_(self) -> str:
        """The study as a card for notebooks."""
        data = (registry.datasets.expression(run.data) for run in self.runs)
        rows = {
            "runs": f"{len(self.runs)} of {len(self.settings)} settings",
            "models": ", ".join(dict.fromkeys(run.model_name for run in self.runs)),
            "data": ", ".join(dict.fromkeys(data)),
            "metrics": ", ".join(self.metrics),
        }
        return card_html(self.name, rows.items(), text=self.about.strip())

    @property
    def settings(self) -> list[Run]:
        """One run of each setting: all that differ in more than the seed."""
        return list({replace(r, seed=0).hash: r for r in reversed(self.runs)}.values())[::-1]


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


def read_study(source: str | Path, scale: str = "") -> Study:
    """The study in a file, or one that comes with the package, with every run checked.

    Args:
        source: a YAML file, or the name of a shipped study.
        scale: which of the file's scales to take; its own numbers by default.
    """
    return expand(read_document(source), scale)


def read_document(source: str | Path) -> Document:
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


def expand(document: Document, scale: str = "") -> Study:
    """The study of a document; all its mistakes are told at once."""
    wrong = list(_bad_scales(document))
    if wrong and scale:
        raise StudyFileErrors(document.name, wrong)
    document = _shaped(at_scale(document, scale), wrong)
    content = document.content
    plugins = [str(path) for path in _list(content.get("plugins") or [])]
    _accepted(document, "plugins", plugins, lambda path: _load_plugin(document, path), wrong)
    names = _metrics(document, wrong)
    datasets = [str(name) for name in _list(content.get("data") or [])]
    good = _accepted(document, "data", datasets, _openable, wrong)
    runs = list(_runs(document, good, _seeds(document, wrong), names, wrong))
    examples = content.get("examples", 10_000)
    if type(examples) is not int or examples < 2:
        wrong.append(
            (document.line("examples"), f"examples must be 2 or more, not {_short(examples)}")
        )
    if wrong:
        raise StudyFileErrors(document.name, wrong)
    unique = tuple({run.hash: run for run in runs}.values())
    name = str(content.get("study", Path(document.name).stem))
    title = f"{name}-{scale}" if scale else name
    return Study(title, unique, tuple(names), examples, str(content.get("about") or "").strip())


def _bad_scales(document: Document) -> Iterator[tuple[int, str]]:
    scales = document.content.get("scales") or {}
    if not isinstance(scales, dict):
        yield document.line("scales"), f"scales must hold `NAME:` with entries, not {scales!r}"
        return
    for name, body in scales.items():
        if not isinstance(body, dict):
            yield document.line("scales", name), f"the scale {name} must hold entries, not {body!r}"
        if not PLAIN.fullmatch(name):
            yield document.line("scales", name), _no_name("a scale", name)


def _shaped(document: Document, wrong: Mistake) -> Document:
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
        listed = {str(model): i for i, model in enumerate(_list(models))}
        lines.update({("models", m): document.line("models", i) for m, i in listed.items()})
        models = dict.fromkeys(listed)
    bodies = {model: _body(document, model, body, wrong) for model, body in models.items()}
    training = _training(document, ("training",), content.get("training"), wrong)
    shaped = {**content, "models": bodies, "training": training}
    return replace(document, content=shaped, lines=lines)


def _body(document: Document, model: str, body: Any, wrong: Mistake) -> dict[str, Any]:
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


def _training(document: Document, place: KeyPath, value: Any, wrong: Mistake) -> dict[str, Any]:
    """The numbers of training that there are; names where names must be."""
    numbers = _mapping(document, place, value, wrong)
    wrong += _unknown_keys(document, place, numbers, "entry of training", TRAINING)
    for key in PIECES:
        if not all(isinstance(name, str) for name in _list(numbers.get(key, ""))):
            sentence = f"{key} must be a name, not {numbers.pop(key)!r}"
            wrong.append((document.line(*place, key), sentence))
    return {key: item for key, item in numbers.items() if key in TRAINING}


def _mapping(document: Document, place: KeyPath, value: Any, wrong: Mistake) -> dict[str, Any]:
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
) -> Mistake:
    return [
        (document.line(*place, key), unknown_name(kind, key, names))
        for key in keys
        if key not in names
    ]


def _metrics(document: Document, wrong: Mistake) -> list[str]:
    """The metrics of a study, each of a name of its own."""
    requested = document.content.get("metrics")
    if not requested and "metrics" in document.content:
        sentence = "there must be some metrics; leave the entry out to score nothing"
        wrong.append((document.line("metrics"), sentence))
    names = [str(name) for name in _list(requested or [])]
    good = _accepted(document, "metrics", names, metrics.read, wrong)
    labels: dict[str, str] = {}
    for name in good:
        label = metrics.label(metrics.read(name))
        if label in labels:
            sentence = f"{labels[label]} and {name} are both told as {label}; keep one of them"
            wrong.append((document.line("metrics", names.index(name)), sentence))
        labels[label] = name
    return good


def _accepted(
    document: Document, entry: str, names: list[str], use: Any, wrong: Mistake
) -> list[str]:
    """The names that can be used; what is wrong with the others is noted."""
    good: list[str] = []
    for position, name in enumerate(names):
        try:
            use(name)
            good.append(name)
        except UntwineError as error:
            wrong.append((document.line(entry, position), str(error)))
    return good


def _load_plugin(document: Document, path: str) -> None:
    """Import a plug-in that a study file names, from the folder of the file."""
    load_plugin(document.folder / expand_user(path))


def _openable(data: str) -> None:
    entry, params = resolve_dataset(data)
    from untwine.registry import datasets

    load_dataset(datasets.choose(entry.name, **params))


def _seeds(document: Document, wrong: Mistake) -> list[int]:
    seeds: Any = document.content.get("seeds", 1)
    many = type(seeds) is int and seeds > MAX_SEEDS
    listed: Any = [] if many else list(range(seeds)) if type(seeds) is int else seeds
    largest = NUMBER_BOUNDS["seed"][1]
    whole = isinstance(listed, list) and all(type(s) is int and 0 <= s <= largest for s in listed)
    if not whole or not listed:
        sentence = (
            f"seeds must be how many (1 to {MAX_SEEDS:,}), or a list of whole numbers from 0, not "
            f"{_short(seeds)}"
        )
        wrong.append((document.line("seeds"), sentence))
        return [0]
    return listed


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}..."


def _runs(
    document: Document,
    datasets: Sequence[str],
    seeds: Sequence[int],
    names: Sequence[str],
    wrong: Mistake,
) -> Iterator[Run]:
    """Every run; a setting that cannot be is noted and left out."""
    if _count_runs(document, max(1, len(datasets)) * len(seeds)) > MAX_RUNS:
        sentence = f"these lists multiply to more than {MAX_RUNS:,} runs; write shorter ones"
        wrong.append((document.line("models"), sentence))
        return
    for model, body in document.content["models"].items():
        training = {**document.content["training"], **body["training"]}
        try:
            settings = list(itertools.product(_grid(body), _products(training)))
        except ParameterError as error:
            wrong.append((document.line("models", model, "zip"), str(error)))
            continue
        for data, (params, numbers) in itertools.product(datasets or [STAND_IN], settings):
            try:
                run, built, opened = build_setting(model, data, params, numbers)
            except UntwineError as first:
                values = {**params, **numbers}
                for error in (first, *_each_alone(model, data, params, numbers)):
                    # a stand-in tells of names and numbers, not of what fits the data
                    if datasets or isinstance(error, UnknownNameError | ParameterError):
                        wrong.append((_line_of(document, model, values, str(error)), str(error)))
                continue
            if datasets:
                wrong += _unmet(document, run, built, opened, names)
            yield from (replace(run, seed=seed) for seed in seeds)


def _count_runs(document: Document, each: int) -> int:
    """How many runs a document has with so many of each setting, counted before any is made."""
    common, total = document.content["training"], 0
    for body in document.content["models"].values():
        lists = {key: value for key, value in body.items() if key not in ("zip", "training")}
        training = {**common, **body["training"]}
        columns = [*lists.values(), *training.values(), next(iter(body["zip"].values()), 0)]
        total += each * math.prod(len(_list(column)) for column in columns)
    return total


def _each_alone(
    model: str, data: str, params: Mapping[str, Any], numbers: Mapping[str, Any]
) -> Iterator[UntwineError]:
    """What is wrong with each part of a setting by itself, as the first mistake hides the others.

    Network and likelihood stay, since they have parameters of their own.
    """
    pieces = {key: numbers[key] for key in PIECES if key in numbers}
    parts: list[tuple[dict[str, Any], dict[str, Any]]] = [({k: v}, {}) for k, v in params.items()]
    parts += [({}, {key: value}) for key, value in numbers.items()]
    for one, number in parts:
        try:
            plan(model, data, settings=_settings(one), **{**pieces, **number})
        except UntwineError as error:
            yield error


def _settings(params: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_text(value)}" for key, value in params.items()]


def _line_of(document: Document, model: str, values: Mapping[str, Any], sentence: str) -> int:
    """The line of the entry that a sentence names first; that of the model, if it names none."""
    place = ("models", model)
    words = [(key.replace("_", "-"), key) for key in values]
    words += [(str(values[key]).partition("(")[0], key) for key in PIECES if key in values]
    plain = sentence.replace("_", "-")  # sentences may say lambda-od for lambda_od
    matches = [
        (re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", plain), key) for word, key in words
    ]
    named = sorted((key in PIECES, match.start(), key) for match, key in matches if match)
    for *_, key in named:
        places = [(*place, "training", key), (*place, "zip", key), (*place, key), ("training", key)]
        for inside in places:
            if inside in document.lines:
                return document.lines[inside]
    return document.line(*place)


def build_setting(
    model: str, data: str, params: Mapping[str, Any], numbers: Mapping[str, Any]
) -> tuple[Run, VAE, Dataset]:
    """One setting, built and tried on a small batch."""
    run = plan(model, data, settings=_settings(params), **numbers)
    opened, _ = split_data(run, load_dataset(run.data))
    built = build_model(run, opened, latent=run.latent, seed=0, batch=run.batch)
    if run.batch > len(opened):
        raise DataError(f"a batch of {run.batch} cannot be drawn from {len(opened)} examples")
    return run, built, opened


def _unmet(
    document: Document, run: Run, model: VAE, data: Dataset, names: Sequence[str]
) -> Iterator[tuple[int, str]]:
    """The metrics that a model or its data cannot give."""
    from untwine.scoring.scores import metric_needs

    for position, name in enumerate(names):
        try:
            _probe(model, data, metric_needs(metrics.parse(name)[0]))
        except IncompatibleError as error:
            sentence = f"{name} cannot be had of {run.model_name} on {run.data.name}: {error}"
            yield document.line("metrics", position), sentence


def _probe(model: VAE, data: Dataset, asked: Sequence[str]) -> None:
    """Refuse what a metric asks for, if the data has no factors or the model no such latents."""
    import torch

    if data.factors is None and {"factors", "test_factors", "batch_codes"} & {*asked}:
        raise IncompatibleError("this data has no factors")
    x, model = torch.rand(4, *data.shape), model.given_in_turn()
    if "assignments" in asked:
        model.assign(x)
    if "batch_codes" in asked:
        model.encode_group(x)


def _text(value: Any) -> str:
    return format_value(tuple(value) if isinstance(value, list) else value)


def _grid(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All combinations of a model's lists; those under `zip` go side by side."""
    lists = {key: value for key, value in body.items() if key not in ("zip", "training")}
    side_by_side = body["zip"]
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
