"""Metrics of a model on data, or of codes from anywhere, beside those of reference codes.

Nothing here needs torch; `evaluation` scores models.
"""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from untwine.errors import DataError, IncompatibleError, ParameterError, UntwineError
from untwine.registry import Choice, Entry, value_name
from untwine.registry import metrics as metric_registry
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.references import reference_scores
from untwine.settings import Settings
from untwine.tools.notebook import table_html
from untwine.tools.progress import progress
from untwine.tools.terminal import warn

if TYPE_CHECKING:
    from pandas import DataFrame

    from untwine.scoring.representation import Representation

    Subject = Representation | CodeArrays
Names = Iterable[str] | str | None


@dataclass(frozen=True)
class Score:
    """The values of one metric, beside those of reference codes on the same factors."""

    values: dict[str, float]  # the headline first
    references: dict[str, dict[str, float]] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)  # standard deviation over seeds

    @property
    def value(self) -> float:
        """The headline value: the first."""
        return next(iter(self.values.values()))

    def __float__(self) -> float:
        return self.value


class Scores(dict[str, Score]):
    """Scores by metric.

    >>> scores = Scores({"mig": Score({"mig": 0.5}, {"perfect": {"mig": 1.0}})})
    >>> float(scores["mig"]), scores.to_frame().loc["mig"].to_dict()
    (0.5, {'value': 0.5, 'perfect': 1.0})
    """

    def __repr__(self) -> str:
        return f"<Scores: {', '.join(f'{name} {score.value:.4g}' for name, score in self.items())}>"

    def _repr_html_(self) -> str:
        """A table for notebooks, with the reference codes that the scores have."""
        kinds = list(dict.fromkeys(kind for score in self.values() for kind in score.references))
        rows = [
            [value_name(metric, key), f"{value:.4g}{' (unreliable)' * bool(self.note(metric))}"]
            + [f"{score.references.get(kind, {}).get(key, math.nan):.4g}" for kind in kinds]
            for metric, score in self.items()
            for key, value in score.values.items()
        ]
        return table_html(["", "value", *kinds], [[c.replace("nan", "–") for c in r] for r in rows])

    def note(self, metric: str) -> str:
        """Why the values of a metric cannot be relied on; empty if they can."""
        return metric_registry.parse(metric)[0].unreliable(self[metric].values)

    def to_frame(self) -> DataFrame:
        """A row per value, with those of the reference codes, the spread and notes as columns."""
        import pandas as pd

        rows = {
            value_name(metric, key): {
                "value": value,
                **{kind: other[key] for kind, other in score.references.items() if key in other},
                **({"spread": score.spread[key]} if key in score.spread else {}),
                **({"note": note} if (note := self.note(metric)) else {}),
            }
            for metric, score in self.items()
            for key, value in score.values.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index")


def metric_needs(entry: Entry) -> list[str]:
    """What a metric asks for: the names of its positional arguments."""
    return [
        p.name
        for p in inspect.signature(entry.function).parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


def applicable(subject: Subject) -> list[str]:
    """The metrics that can be computed for this."""
    return [
        name
        for name, entry in metric_registry.items()
        if all(map(subject.has, metric_needs(entry)))
    ]


def score(subject: Subject, choice: Choice) -> Score:
    """One metric of one representation, beside the reference codes where it compares with factors.

    References are given for metrics that need no more than codes and factors.
    """
    values, entry = compute(subject, choice), metric_registry[choice.name]
    if not _has_references(entry):
        return Score(values)
    test = subject.test_factors if "test_factors" in metric_needs(entry) else None
    factors = subject.factors
    assert factors is not None
    return Score(
        values,
        reference_scores(
            _without_fresh_draws(choice), factors, test, compute, unordered=subject.unordered
        ),
    )


def _has_references(entry: Entry) -> bool:
    asked = {*metric_needs(entry)} - {"unordered"}
    return {"codes", "factors"} <= asked <= {"codes", "factors", "test_codes", "test_factors"}


def _without_fresh_draws(choice: Choice) -> Choice:
    """The same metric without fresh draws, which reference codes do not have."""
    fresh = choice.params.get("draws") == "fresh"
    return replace(choice, params={**choice.params, "draws": "rows"}) if fresh else choice


def compute(subject: Subject, choice: Choice) -> dict[str, float]:
    """The values of one metric by name."""
    entry = metric_registry[choice.name]
    result = entry.function(*_inputs(subject, choice), **choice.params)
    return result if isinstance(result, dict) else {entry.name: result}


def _inputs(subject: Subject, choice: Choice) -> list[Any]:
    """What a metric asks for, in order."""
    if choice.params.get("draws") == "fresh":
        if isinstance(subject, CodeArrays) or subject.data.factors is None:
            raise IncompatibleError(
                f"{choice.name} with fresh draws needs a model on data with factors; "
                "draws=rows takes the given rows"
            )
        return [subject.encode_levels, subject.data.factors.sizes]
    normal = choice.params.get("sampler") == "normal"
    asked = [
        "normal_samples" if normal and name == "samples" else name
        for name in metric_needs(metric_registry[choice.name])
    ]
    for name in asked:
        if not subject.has(name):
            raise DataError(
                f"there are no {name.replace('_', ' ')} here, which {choice.name} needs"
            )
    return [_resolve_need(getattr(subject, name), choice) for name in asked]


def _resolve_need(value: Any, choice: Choice) -> Any:
    """An attribute as it is; a method called with those of the metric's numbers that it names."""
    if not inspect.ismethod(value):
        return value
    return value(**{name: choice.params[name] for name in inspect.signature(value).parameters})


def choose_metrics(names: Names, subject: Subject, settings: Settings) -> list[Choice]:
    """The metrics of these names with their settings.

    None means all that apply and take no more than seconds; "all" means also the slow ones and
    every variant.
    """
    parsed = [metric_registry.parse(name) for name in _metric_names(names, subject)]
    if not parsed:
        raise ParameterError("no metric is named; write --metrics mig, or leave it out for all")
    settings.check({entry.name: entry for entry, _ in parsed}.values())
    choices = [
        metric_registry.choose(entry.name, **{**params, **settings.params_of(entry)})
        for entry, params in parsed
    ]
    for label, count in Counter(map(metric_registry.label, choices)).items():
        if count > 1:
            raise ParameterError(
                f"{label} is asked for {count} times, with numbers that no name tells apart; "
                "score them one after the other"
            )
    return choices


def _metric_names(names: Names, subject: Subject) -> list[str]:
    if names is None:
        names = applicable(subject)
        return [name for name in names if not metric_registry[name].metadata.get("slow")]
    if names == "all":
        return [name for base in applicable(subject) for name in with_variants(base)]
    return [names] if isinstance(names, str) else list(names)


def with_variants(name: str) -> list[str]:
    """The metric and its variants: `sap`, `sap[svm]`, ..."""
    variants = metric_registry[name].metadata.get("variants", {})
    return [name, *(f"{name}[{variant}]" for variant in variants)]


def each_score(
    subject: Subject, choices: Sequence[Choice], *, strict: bool, quiet: bool = True
) -> Iterator[tuple[Choice, Score]]:
    """One score after another; unless strict, one that is refused is skipped with a warning.

    What a model cannot give, such as clusters, is left out without a word.
    """
    with progress(len(choices), "scoring", quiet=quiet) as show:
        for done, choice in enumerate(choices):
            show(done, metric_registry.label(choice))
            try:
                yield choice, score(subject, choice)
            except IncompatibleError:
                if strict:
                    raise
            except UntwineError as error:
                if strict:
                    raise
                warn(f"{metric_registry.label(choice)} is left out: {error}")
        show(len(choices), "done")


def value_title(label: str, key: str) -> str:
    """One value of a metric as pages call it.

    >>> value_title("mig", "mig"), value_title("sap[svm]", "sap")
    ('Mutual information gap', 'Separated attribute predictability [svm]')
    """
    entry, _ = metric_registry.parse(label)
    title = f"{entry.title} {label.removeprefix(entry.name)}".strip()
    return title if value_name(label, key) == label else f"{title}: {key.replace('_', ' ')}"


def is_strict(metrics: Names) -> bool:
    """Whether metrics were named, so that one that is refused is an error."""
    return metrics not in (None, "all")


def json_params(choice: Choice) -> dict[str, Any]:
    """A metric's numbers as they come back from JSON."""
    return json.loads(json.dumps(dict(choice.params)))
