"""A study is a file: names, and lists of numbers that multiply into runs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untwine import registry
from untwine.data.opening import load_dataset, resolve_dataset
from untwine.errors import (
    DataError,
    IncompatibleError,
    ParameterError,
    UnknownNameError,
    UntwineError,
)
from untwine.registry import load_plugin, metrics
from untwine.schema import format_value
from untwine.spec import build_model, plan, split_data
from untwine.specification import NUMBER_BOUNDS, Run
from untwine.study.document import (
    PIECES,
    Document,
    Mistakes,
    StudyFileErrors,
    as_list,
    at_scale,
    find_bad_scales,
    read_document,
    shape_document,
)
from untwine.tools.files import expand_user
from untwine.tools.notebook import card_html

if TYPE_CHECKING:
    from untwine.data.dataset import Dataset
    from untwine.vae import VAE

MAX_SEEDS = 100_000
MAX_RUNS = 100_000
MAX_SETTINGS = 1_000  # each is built once, which takes some hundredths of a second
STAND_IN = "sprites(size=16)"  # on which models are checked where no dataset can be opened


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


def read_study(source: str | Path, scale: str = "") -> Study:
    """The study in a file, or one that comes with the package, with every run checked.

    Args:
        source: a YAML file, or the name of a shipped study.
        scale: which of the file's scales to take; its own numbers by default.
    """
    return expand(read_document(source), scale)


def expand(document: Document, scale: str = "") -> Study:
    """The study of a document; all its mistakes are told at once."""
    wrong = list(find_bad_scales(document))
    if wrong and scale:
        raise StudyFileErrors(document.name, wrong)
    document = shape_document(at_scale(document, scale), wrong)
    content = document.content
    plugins = [str(path) for path in as_list(content.get("plugins") or [])]
    _accepted(document, "plugins", plugins, lambda path: _load_plugin(document, path), wrong)
    names = _metrics(document, wrong)
    datasets = [str(name) for name in as_list(content.get("data") or [])]
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


def _metrics(document: Document, wrong: Mistakes) -> list[str]:
    """The metrics of a study, each of a name of its own."""
    requested = document.content.get("metrics")
    if not requested and "metrics" in document.content:
        sentence = "there must be some metrics; leave the entry out to score nothing"
        wrong.append((document.line("metrics"), sentence))
    names = [str(name) for name in as_list(requested or [])]
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
    document: Document, entry: str, names: list[str], use: Any, wrong: Mistakes
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
    load_dataset(registry.datasets.choose(entry.name, **params))


def _seeds(document: Document, wrong: Mistakes) -> list[int]:
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
    wrong: Mistakes,
) -> Iterator[Run]:
    """Every run; a setting that cannot be is noted and left out."""
    if _count_runs(document, max(1, len(datasets)) * len(seeds)) > MAX_RUNS:
        sentence = f"these lists multiply to more than {MAX_RUNS:,} runs; write shorter ones"
        wrong.append((document.line("models"), sentence))
        return
    if _count_runs(document, max(1, len(datasets))) > MAX_SETTINGS:
        sentence = (
            f"these lists multiply to more than {MAX_SETTINGS:,} settings; write several studies"
        )
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
        total += each * math.prod(len(as_list(column)) for column in columns)
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
    lengths = {len(as_list(value)) for value in side_by_side.values()}
    if len(lengths) > 1:
        raise ParameterError("the lists under zip must have one length")
    rows = list(zip(*map(as_list, side_by_side.values()), strict=True)) or [()]
    for product, row in itertools.product(_products(lists), rows):
        yield {**product, **dict(zip(side_by_side, row, strict=True))}


def _products(lists: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All combinations of values, where a list stands for each of its items."""
    for values in itertools.product(*map(as_list, lists.values())):
        yield dict(zip(lists, values, strict=True))
