"""What every registered metric must do."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.dataset import Dataset
from untwine.data.opening import dataset
from untwine.errors import DataError, IncompatibleError
from untwine.registry import metrics
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.references import reference_codes
from untwine.scoring.representation import Representation
from untwine.scoring.scores import compute, metric_needs, with_variants
from untwine.spec import build
from untwine.testing.contracts import (
    expect,
    expect_documented,
    expect_refusal,
    expect_survives_json,
    run_checks,
)

MetricCheck = Callable[[str], None]
Codes = NDArray[np.floating]
TRANSFORMS: Mapping[str, Callable[[Codes], Codes]] = {
    "permutation": lambda z: z[:, ::-1],
    "sign": lambda z: z * np.where(np.arange(z.shape[1]) % 2, 1.0, -1.0),
    "scale": lambda z: z * np.geomspace(0.5, 4.0, z.shape[1]),
    "shift": lambda z: z + np.linspace(-2.0, 3.0, z.shape[1]),
    "monotone": lambda z: np.tanh(z) + 0.1 * z**3,
    "dead": lambda z: np.hstack([z, np.full((len(z), 2), 1.5)]),
}
MAX_CHANGE = 5e-3  # of a score under a transform that it promises not to see
ROW_NEEDS = {"codes", "factors", "test_codes", "test_factors", "unordered"}
BAD_INPUTS: Sequence[tuple[Any, Any, str]] = (  # and what the refusal must say
    (np.zeros((5, 2)), np.zeros((4, 1), int), "the same N"),
    (np.zeros(5), np.zeros((5, 1), int), "the same N"),
    (np.full((50, 2), np.nan), np.arange(50)[:, None] % 2, "NaN"),
    (np.zeros((1, 2)), np.zeros((1, 1), int), "at least 2"),
    (np.zeros((50, 2)), np.zeros((50, 1), int), "more than one level"),
    (np.zeros((4, 2)), np.array([[0.5], [1], [2], [3]]), "whole numbers"),
    (np.array([["a"]] * 4), np.arange(4), "real numbers"),
    (np.ones((4, 1), complex), np.arange(4), "real numbers"),
)


def check_metric(name: str) -> None:
    """Check that a registered metric keeps the contract of metrics.

    Its declaration is complete; scores are plain floats in their range that repeat; perfect codes
    score better than noise; it does not see what it promises not to see; bad input and odd shapes
    are scored or refused in a sentence; tensors score as arrays.

    Args:
        name: of the metric.
    """
    run_checks(name, [partial(check, name) for check in (*METRIC_CHECKS, scores_a_model)])


def headline(name: str, subject: CodeArrays) -> float:
    """The first value of a metric with default parameters."""
    return next(iter(compute(subject, metrics.choose(name)).values()))


def example_rows(kind: str = "rotated", n: int = 600) -> CodeArrays:
    """Rows whose factors have 2, 3 and 5 levels, so that every metric has something to say."""
    factors = np.random.default_rng(0).integers((2, 3, 5), size=(n, 3))
    return reference_codes(factors)[kind]


def _compares_codes(name: str) -> bool:
    """Whether it is a function of codes and factors, and of nothing else."""
    return {"codes", "factors"} <= set(metric_needs(metrics[name])) <= ROW_NEEDS


def has_a_schema(name: str) -> None:
    """Positional arguments are what a representation has, all others are keyword-only."""
    entry = metrics[name]
    expect_documented(entry)
    for need in metric_needs(entry):
        known = hasattr(Representation, need) or hasattr(CodeArrays, need)
        expect(known, f"no representation has {need}, which it asks for")
    kinds = {p.kind for p in inspect.signature(entry.function).parameters.values()}
    allowed = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    expect(kinds <= allowed, "its arguments must be positional or keyword-only, without * and **")


def is_declared(name: str) -> None:
    """The decorator says its range, direction and invariances, the docstring its blind spots."""
    metadata = metrics[name].metadata
    missing = {"range", "higher_is_better", "unchanged_by"} - set(metadata)
    expect(not missing, f"the decorator must declare {', '.join(sorted(missing))}")
    low, high = metadata["range"]
    expect(isinstance(metadata["higher_is_better"], bool), "higher_is_better must be a boolean")
    expect(high is None or low < high, "its range must begin below its end")
    strange = set(metadata.get("unchanged_by", ())) - set(TRANSFORMS)
    expect(not strange, f"unchanged_by names {strange}; known are {', '.join(TRANSFORMS)}")
    expect("Blind spots:" in metrics[name].description, "its docstring must say 'Blind spots:'")


def has_named_variants(name: str) -> None:
    """Variants are told apart by their names, and survive JSON."""
    expect_survives_json(metrics, name)
    for label in with_variants(name):
        choice = metrics.read(label)
        expect(metrics.label(choice) == label, f"the variant {label} is called otherwise")
        expect(metrics.from_json(choice.to_json()) == choice, f"{label} does not survive JSON")


def scores_a_model(name: str, data: Dataset | None = None) -> None:
    """Scores of a plain VAE are floats in their range, and repeat; or are refused."""
    entry = metrics[name]
    if entry.metadata.get("slow") or "several_codes" in metric_needs(entry):
        return  # takes minutes, or more than one model
    examples = dataset("sprites", size=16) if data is None else data
    model = build("vae", examples, network="mlp")
    try:
        first, second = (
            compute(Representation(model, examples, n_examples=300), metrics.choose(name))
            for _ in range(2)
        )
    except IncompatibleError as error:
        expect(str(error), "it refuses a model without a word")  # such as one without clusters
        return
    expect(first == second, f"scores of the same model differ: {first} and {second}")
    plain = all(type(value) is float and math.isfinite(value) for value in first.values())
    expect(plain, f"scores must be finite floats, not {first}")
    low, high = entry.metadata["range"]
    value = next(iter(first.values()))
    inside = low - 1e-9 <= value <= (math.inf if high is None else high + 1e-9)
    expect(inside, f"{value} is outside the declared range")


def prefers_perfect_codes(name: str) -> None:
    """The factors themselves score better than noise."""
    if not _compares_codes(name):
        return
    perfect, noise = (headline(name, example_rows(kind)) for kind in ("perfect", "random"))
    better = perfect > noise if metrics[name].metadata["higher_is_better"] else perfect < noise
    expect(better, f"perfect codes score {perfect:.4g}, and noise {noise:.4g}")


def keeps_its_promises(name: str) -> None:
    """Transforms that it promises not to see leave its score as it is."""
    if not set(metric_needs(metrics[name])) <= {*ROW_NEEDS, "sampled_codes"}:
        return
    promised = metrics[name].metadata.get("unchanged_by", ())
    rows = example_rows()
    before = headline(name, rows) if promised else 0.0
    for change in promised:
        codes = np.ascontiguousarray(TRANSFORMS[change](rows.codes))
        after = headline(name, CodeArrays(codes, rows.factors))
        expect(abs(after - before) <= MAX_CHANGE, f"{change} takes it from {before} to {after}")


def refuses_bad_input(name: str) -> None:
    """Arrays that cannot be scored are refused in a sentence."""
    if not _compares_codes(name):
        return
    for codes, factors, sentence in BAD_INPUTS:
        call = partial(metrics[name].function, codes, factors)
        case = f"codes {codes.shape} of {codes.dtype} with factors {factors.shape}"
        expect_refusal(call, DataError, sentence, case)


def takes_odd_shapes(name: str) -> None:
    """One latent, one factor, dead latents and few rows are scored, or refused in a sentence."""
    if not _compares_codes(name):
        return
    rows = example_rows()
    factors = np.asarray(rows.factors)
    odd = {
        "one latent": CodeArrays(rows.codes[:, :1], factors),
        "one factor": CodeArrays(rows.codes, factors[:, :1]),
        "dead latents": CodeArrays(np.zeros_like(rows.codes), factors),
        "few rows": CodeArrays(rows.codes[:12], factors[:12]),
    }
    for kind, subject in odd.items():
        try:
            values = compute(subject, metrics.choose(name))
        except DataError as error:
            expect(len(str(error)) > 20, f"{kind}: it refuses with {str(error)!r} alone")
        else:
            expect(all(map(math.isfinite, values.values())), f"{kind}: it scores {values}")


def takes_tensors(name: str) -> None:
    """Tensors score as arrays do."""
    if not _compares_codes(name):
        return
    rows = example_rows()
    arrays: Any = (rows.codes, rows.factors)
    tensors: Any = tuple(map(torch.from_numpy, arrays))
    alike = compute(CodeArrays(*tensors), metrics.choose(name)) == compute(
        rows, metrics.choose(name)
    )
    expect(alike, "tensors score otherwise than arrays")


METRIC_CHECKS: tuple[MetricCheck, ...] = (
    has_a_schema,
    is_declared,
    has_named_variants,
    prefers_perfect_codes,
    keeps_its_promises,
    refuses_bad_input,
    takes_odd_shapes,
    takes_tensors,
)
