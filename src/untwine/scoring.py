"""Scores of a model on data, or of codes from anywhere."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.data import Dataset
from untwine.errors import DataError, IncompatibleError, ParameterError, UntwineError
from untwine.guards import locked
from untwine.progress import progress
from untwine.registry import Choice, Entry, metrics
from untwine.representation import Representation, Rows
from untwine.runs import open_run, read_scores, warn
from untwine.schema import Value
from untwine.spec import Settings
from untwine.store import write_json
from untwine.vae import VAE

ROWS = 15_000  # rows of an array that are scored: 10,000 to learn from and 5,000 to test on
SEEDS = 5
Subject = Representation | Rows
Names = Iterable[str] | str | None


@dataclass(frozen=True)
class Score:
    """The values of one metric, beside those of reference codes on the same factors."""

    values: dict[str, float]
    references: dict[str, dict[str, float]] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)  # standard deviation over seeds


def needs(entry: Entry) -> list[str]:
    """What a metric asks for: the names of its positional arguments."""
    return [
        p.name
        for p in inspect.signature(entry.function).parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


def applicable(subject: Subject) -> list[str]:
    """The metrics that can be computed of this."""
    return [name for name in metrics if all(map(subject.has, needs(metrics[name])))]


def reference_codes(
    factors: ArrayLike, test_factors: ArrayLike | None = None, *, seed: int = 0
) -> dict[str, Rows]:
    """Codes to compare with: the factors themselves, a rotation of them, and noise."""
    from untwine.metrics._arrays import check  # imports all metrics, which nothing else here needs

    rng = np.random.default_rng(seed)
    n = len(np.asarray(factors))
    every = factors if test_factors is None else np.concatenate([factors, test_factors])
    _, f = check(every, every)
    standard = (f - f.mean(0)) / f.std(0)
    rotation = mixing(f.shape[1])
    codes = {
        "perfect": standard,
        "rotated": standard @ rotation,
        "random": rng.standard_normal(f.shape),
    }
    if f.shape[1] == 1:
        del codes["rotated"]  # one factor cannot be turned
    if test_factors is None:
        return {kind: Rows(z, f) for kind, z in codes.items()}
    return {kind: Rows(z[:n], f[:n], z[n:], f[n:]) for kind, z in codes.items()}


def mixing(k: int) -> NDArray[np.float64]:
    """(k, k) an orthogonal matrix in which every axis has a part of every other.

    The cosine transform: a turn by 45 degrees for two factors.
    """
    at, of = np.meshgrid(np.arange(k) + 0.5, np.arange(k))
    return np.cos(np.pi * at * of / k) * np.where(of, np.sqrt(2 / k), np.sqrt(1 / k))


def score(subject: Subject, choice: Choice) -> Score:
    """One metric of one representation, beside the reference codes where it compares with factors.

    References are told of metrics that need no more than codes and factors.
    """
    values = compute(subject, choice)
    if not _has_references(metrics[choice.name]):
        return Score(values)
    test = subject.test_factors if "test_factors" in needs(metrics[choice.name]) else None
    factors = subject.factors
    assert factors is not None
    return Score(values, _references(_of_rows(choice), factors, test))


_REFERENCES: dict[str, dict[str, dict[str, float]]] = {}  # the same for every run on the same rows


def _references(
    choice: Choice, factors: ArrayLike, test: ArrayLike | None
) -> dict[str, dict[str, float]]:
    """What reference codes score, computed once for the same factors."""
    rows = [np.ascontiguousarray(part) for part in (factors, test) if part is not None]
    total = hashlib.sha256(json.dumps(choice.to_json()).encode())
    for part in rows:
        total.update(f"{part.shape}{part.dtype}".encode())
        total.update(part.tobytes())
    known = total.hexdigest()
    if known not in _REFERENCES:
        _REFERENCES[known] = {}
        for kind, code in reference_codes(factors, test).items():
            with contextlib.suppress(UntwineError):  # what suits the codes need not suit these
                _REFERENCES[known][kind] = compute(code, choice)
    return {kind: dict(values) for kind, values in _REFERENCES[known].items()}


def _has_references(entry: Entry) -> bool:
    asked = set(needs(entry))
    return {"codes", "factors"} <= asked <= {"codes", "factors", "test_codes", "test_factors"}


def _of_rows(choice: Choice) -> Choice:
    """The same metric without fresh draws, which reference codes do not have."""
    fresh = choice.params.get("draws") == "fresh"
    return replace(choice, params={**choice.params, "draws": "rows"}) if fresh else choice


def compute(subject: Subject, choice: Choice) -> dict[str, float]:
    """The values of one metric by name."""
    entry = metrics[choice.name]
    result = entry.function(*_inputs(subject, choice), **choice.params)
    return result if isinstance(result, dict) else {entry.name: result}


def _inputs(subject: Subject, choice: Choice) -> list[Any]:
    """What a metric asks for, in order."""
    if choice.params.get("draws") == "fresh":
        if not isinstance(subject, Representation) or subject.data.factors is None:
            raise IncompatibleError(
                f"{choice.name} with fresh draws needs a model on data with factors; "
                "draws=rows takes the given rows"
            )
        return [subject.encode_levels, subject.data.factors.sizes]
    asked = needs(metrics[choice.name])
    for name in asked:
        if not subject.has(name):
            raise DataError(
                f"there are no {name.replace('_', ' ')} here, which {choice.name} needs"
            )
    return [_need(getattr(subject, name), choice) for name in asked]


def _need(value: Any, choice: Choice) -> Any:
    """An attribute as it is; a method called with those of the metric's numbers that it names."""
    if not inspect.ismethod(value):
        return value
    return value(**{name: choice.params[name] for name in inspect.signature(value).parameters})


def choose(names: Names, subject: Subject, settings: Settings) -> list[Choice]:
    """The metrics of these names with their settings.

    None means all that apply and take no more than seconds; "all" means also the slow ones and
    every variant.
    """
    chosen = [metrics.parse(name) for name in _names(names, subject)]
    if not chosen:
        raise ParameterError("no metric is named; write --metrics mig, or leave it out for all")
    settings.check({entry.name: entry for entry, _ in chosen}.values())
    found = [
        metrics.choose(entry.name, **{**given, **settings.of(entry)}) for entry, given in chosen
    ]
    for label, count in Counter(map(metrics.label, found)).items():
        if count > 1:
            raise ParameterError(
                f"{label} is asked for {count} times, with numbers that no name tells apart; "
                "score them one after the other"
            )
    return found


def _names(names: Names, subject: Subject) -> list[str]:
    if names is None:
        return [name for name in applicable(subject) if not metrics[name].facts.get("slow")]
    if names == "all":
        return [name for base in applicable(subject) for name in with_variants(base)]
    return [names] if isinstance(names, str) else list(names)


def with_variants(name: str) -> list[str]:
    """The metric and its variants: `sap`, `sap[svm]`, ..."""
    return [name, *(f"{name}[{variant}]" for variant in metrics[name].facts.get("variants", {}))]


def each_score(
    subject: Subject, choices: Sequence[Choice], *, strict: bool, quiet: bool = True
) -> Iterator[tuple[Choice, Score]]:
    """One score after another; unless strict, one that is refused is told and left out.

    What a model cannot give, such as clusters, is left out without a word.
    """
    with progress(len(choices), "scoring", quiet=quiet) as show:
        for done, choice in enumerate(choices):
            show(done, metrics.label(choice))
            try:
                yield choice, score(subject, choice)
            except IncompatibleError:
                if strict:
                    raise
            except UntwineError as error:
                if strict:
                    raise
                warn(f"{metrics.label(choice)} is left out: {error}")
        show(len(choices), "done")


def evaluate(
    model: VAE,
    data: Dataset,
    names: Names = None,
    *,
    n: int = 10_000,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = True,
    **settings: Value,
) -> dict[str, Score]:
    """Scores of a model by metric, on n random examples, with n / 2 others to test on.

    Args:
        model: to be scored, on the posterior mean through the mapping.
        data: with factors, for metrics that need them.
        names: of the metrics, such as "mig" or "sap[svm]"; "all" for all with every variant; by
            default all that apply and take no more than seconds.
        n: number of examples.
        seed: of their choice.
        device: where to encode.
        quiet: no progress bars.
        settings: parameters of the metrics, by their own names.

    >>> import untwine
    >>> data = untwine.dataset("sprites", size=16)
    >>> model = untwine.build("vae", data)
    >>> scores = untwine.evaluate(model, data, ["mig", "reconstruction"], n=100, bins=10)
    >>> sorted(scores), sorted(scores["mig"].references)
    (['mig', 'reconstruction'], ['perfect', 'random', 'rotated'])
    """
    representation = Representation(model, data, n=n, seed=seed, device=device, quiet=quiet)
    chosen = choose(names, representation, Settings(settings))
    strict = names not in (None, "all")
    found = each_score(representation, chosen, strict=strict, quiet=quiet)
    return {metrics.label(choice): value for choice, value in found}


def evaluate_run(
    path: Path,
    names: Names = None,
    *,
    n: int = 10_000,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = True,
    settings: Iterable[str] = (),
) -> dict[str, Score]:
    """Scores of a finished run, kept in its `scores.json`; only what is not there is computed."""
    finished = open_run(path)
    representation = Representation(
        finished.model,
        finished.data,
        n=n,
        seed=seed,
        device=device,
        quiet=quiet,
        chunk=finished.spec.batch,
    )
    chosen = choose(names, representation, Settings.read(settings))
    how = {
        metrics.label(c): {"params": kept_params(c), "examples": n, "seed": seed} for c in chosen
    }
    with locked(path):
        kept = read_scores(path)
        missing = [c for c in chosen if not _same(kept, metrics.label(c), how)]
        strict = names not in (None, "all")
        for choice, found in each_score(representation, missing, strict=strict, quiet=quiet):
            label = metrics.label(choice)
            kept[label] = {**how[label], **asdict(found)}
            write_json(path / "scores.json", kept)
    return {
        label: Score(kept[label]["values"], kept[label]["references"])
        for label in how
        if _same(kept, label, how)
    }


def kept_params(choice: Choice) -> dict[str, Any]:
    """A metric's numbers as they come back from JSON."""
    return json.loads(json.dumps(dict(choice.params)))


def _same(kept: dict[str, Any], label: str, how: dict[str, Any]) -> bool:
    """Whether a metric is kept with these settings."""
    return label in kept and all(kept[label][key] == value for key, value in how[label].items())


def score_rows(
    rows: Rows,
    names: Names = None,
    *,
    seeds: int = SEEDS,
    most: int = ROWS,
    quiet: bool = True,
    settings: Iterable[str] = (),
) -> dict[str, Score]:
    """Scores of codes from anywhere, with their spread over seeds.

    A seed decides which rows are scored where there are more than `most`, which of them test what
    was learned from the others, and what a metric draws at random; a metric with nothing left to
    chance has no spread. The values are those of seed 0.

    Args:
        rows: codes, and what is known about them.
        names: of the metrics; all that apply by default, "all" for every variant too.
        seeds: how many.
        most: rows to score.
        quiet: no progress bars.
        settings: `NAME=VALUE` parameters of the metrics.
    """
    choices = choose(names, rows, Settings.read(settings))
    subjects = [some_rows(rows, most, seed) for seed in range(seeds)]
    found: dict[str, Score] = {}
    strict = names not in (None, "all")
    for choice, first in each_score(subjects[0], choices, strict=strict, quiet=quiet):
        again = list(_again(choice, subjects))
        found[metrics.label(choice)] = replace(first, spread=_spread([first.values, *again]))
    return found


def _again(choice: Choice, subjects: list[Rows]) -> Iterator[dict[str, float]]:
    """The values of the other seeds; one whose rows are refused is told and left out."""
    if _is_exact(choice, subjects):
        return
    for seed, other in enumerate(subjects[1:], 1):
        try:
            yield compute(other, _seeded(choice, seed))
        except UntwineError as error:
            warn(f"seed {seed} of {metrics.label(choice)} is left out: {error}")


def _spread(values: list[dict[str, float]]) -> dict[str, float]:
    """The standard deviation of each value that is always there."""
    always = [key for key in values[0] if all(key in other for other in values)]
    return {key: float(np.std([other[key] for other in values])) for key in always}


def _is_exact(choice: Choice, subjects: list[Rows]) -> bool:
    """Whether nothing is left to a seed."""
    return "seed" not in choice.params and all(other is subjects[0] for other in subjects)


def _seeded(choice: Choice, seed: int) -> Choice:
    """The same metric with another seed, if it has one."""
    first = choice.params.get("seed")
    if not isinstance(first, int):
        return choice
    return replace(choice, params={**choice.params, "seed": first + seed})


def some_rows(rows: Rows, most: int, seed: int) -> Rows:
    """At most so many random rows, a third of them to test on; all, if there are no more."""
    share = most if rows.test_codes is None else most - most // 3
    if len(rows.codes) <= share and (rows.test_codes is None or len(rows.test_codes) <= most // 3):
        return rows
    rng = np.random.default_rng(seed)
    train, test = _pick(rows.codes, share, rng), _pick(rows.test_codes, most // 3, rng)
    return Rows(
        rows.codes[train],
        None if rows.factors is None else rows.factors[train],
        None if rows.test_codes is None else rows.test_codes[test],
        None if rows.test_factors is None else rows.test_factors[test],
        tuple(other[train] for other in rows.others),
    )


def part_scored(rows: Rows, most: int) -> tuple[int, int]:
    """How many rows are scored, and how many there are, those to test on included."""
    used = some_rows(rows, most, 0)
    counts = [
        len(part.codes) + (0 if part.test_codes is None else len(part.test_codes))
        for part in (used, rows)
    ]
    return counts[0], counts[1]


def _pick(values: NDArray[Any] | None, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of at most so many random rows, in order."""
    n = 0 if values is None else len(values)
    return np.sort(rng.choice(n, size=min(n, most), replace=False))
