"""Scores of a model on data, and of a run, in whose directory they are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.errors import DamagedFile, DataError, UntwineError
from untwine.registry import metrics as metric_registry
from untwine.runs.directory import TrainedRun, open_run, read_scores, write_scores
from untwine.schema import Value
from untwine.scoring.representation import N_EXAMPLES, Representation
from untwine.scoring.scores import (
    Names,
    Score,
    Scores,
    choose_metrics,
    each_score,
    is_strict,
    json_params,
)
from untwine.settings import Settings
from untwine.spec import open_split, split_data
from untwine.tools.deprecated import renamed_keywords
from untwine.tools.process import lock_directory
from untwine.tools.terminal import warn
from untwine.vae import VAE


@renamed_keywords(names="metrics", n="n_examples")
def evaluate(
    model: VAE,
    data: Any,
    metrics: Names = None,
    *,
    n_examples: int = N_EXAMPLES,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = True,
    **settings: Value,
) -> Scores:
    """Score a model on random examples, and half as many others to test on.

    Args:
        model: to be scored, on the posterior mean through the mapping.
        data: with factors, for metrics that need them; a dataset or anything that `as_dataset`
            takes.
        metrics: names such as "mig" or "sap[svm]"; "all" for all with every variant; by default
            every applicable metric that finishes in seconds.
        n_examples: number of examples.
        seed: for choosing the examples.
        device: where to encode.
        quiet: hide progress bars.
        settings: parameters of the metrics, by their own names.

    >>> import untwine
    >>> data = untwine.dataset("sprites", size=16)
    >>> model = untwine.build("vae", data)
    >>> scores = untwine.evaluate(model, data, ["mig", "reconstruction"], n_examples=100, bins=10)
    >>> sorted(scores), sorted(scores["mig"].references)
    (['mig', 'reconstruction'], ['perfect', 'random', 'rotated'])
    """
    data = as_dataset(data, like=model.columns)
    representation = Representation(
        model, data, n_examples=n_examples, seed=seed, device=device, quiet=quiet
    )
    return score_metrics(representation, metrics, Settings(settings))


def score_metrics(representation: Representation, metrics: Names, settings: Settings) -> Scores:
    """The scores of a representation, computed anew."""
    choices = choose_metrics(metrics, representation, settings)
    scores = each_score(
        representation, choices, strict=is_strict(metrics), quiet=representation.quiet
    )
    return Scores({metric_registry.label(choice): score for choice, score in scores})


@renamed_keywords(names="metrics", n="n_examples")
def evaluate_run(
    path: str | Path,
    metrics: Names = None,
    *,
    n_examples: int = N_EXAMPLES,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = True,
    settings: Iterable[str] = (),
    split: str | None = None,
    data: str | Dataset | None = None,
    trust: bool = False,
) -> Scores:
    """Score a finished run; scores are stored in its `scores.json`, and only new ones computed.

    `split` chooses the examples: `training`, `validation`, `all`, or a split of the dataset. By
    default a run is scored on its held-out examples, if it has any, and else on all. `data` and
    `trust` are those of `open_run`. Scores on other data than the run's own are not stored.
    """
    trained = open_run(path, data=data, trust=trust)
    representation = represent_run(
        trained, n_examples=n_examples, seed=seed, device=device, quiet=quiet, split=split
    )
    if not trained.has_own_data:
        warn(
            f"this is not the data that {trained.path.name} was trained on, so its scores are "
            "shown and not stored"
        )
        return score_metrics(representation, metrics, Settings.read(settings))
    scores = partial(evaluate_representation, trained.path, representation, metrics)
    return scores(settings=settings, split=None if is_default_split(trained, split) else split)


def represent_run(
    trained: TrainedRun,
    *,
    n_examples: int = N_EXAMPLES,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = True,
    split: str | None = None,
    repeat: bool = False,
) -> Representation:
    """A run's model on a sample of its data, encoded in batches of the size it was trained on."""
    return Representation(
        trained.model,
        data_to_score(trained, split),
        n_examples=n_examples,
        seed=seed,
        device=device,
        quiet=quiet,
        chunk=trained.spec.batch,
        repeat=repeat,
    )


def is_default_split(trained: TrainedRun, split: str | None) -> bool:
    """Whether these are the examples on which a run is scored by default."""
    return split in (None, "all" if trained.validation is None else "validation")


def data_to_score(trained: TrainedRun, split: str | None) -> Dataset:
    """The examples of a run to score on, or another split of its dataset."""
    if is_default_split(trained, split):
        return trained.validation or trained.data
    if split == "all":
        return trained.data
    if not trained.has_own_data:
        raise DataError(
            "--split chooses among the run's own data, which this is not; leave it out, or name "
            "the split in --data, as in 'mnist(split=test)'"
        )
    if split == "training":
        return replace(split_data(trained.spec, trained.data)[0], evaluation=None)
    if split == "validation" and "split" not in trained.spec.data.params:
        raise DataError("this run held out no examples; leave --split out, or train it anew")
    assert split is not None, "no split is the default"
    return open_split(trained.spec.data, split)


def evaluate_representation(
    path: Path,
    representation: Representation,
    metrics: Names = None,
    *,
    settings: Iterable[str] = (),
    split: str | None = None,
    with_stored: bool = False,
) -> Scores:
    """The scores of a run's representation, stored in the run's directory.

    With `with_stored`, all stored scores of the same examples are added and taken as they are,
    whatever their settings.
    """
    label = metric_registry.label
    choices = choose_metrics(metrics, representation, Settings.read(settings))
    sample: dict[str, Any] = {"examples": representation.n_asked, "seed": representation.seed}
    if len(representation.index) < representation.n_asked:
        sample["distinct"] = len(representation.index)  # which earlier scores do not have
    if split:
        sample["split"] = split
    how = {label(choice): {"params": json_params(choice), **sample} for choice in choices}
    with lock_directory(path):
        stored = _stored_scores(path)
        if with_stored:
            how |= {name: sample for name in stored if _is_registered(name)}
        missing = [choice for choice in choices if not _is_stored(stored, label(choice), how)]
        scores = each_score(
            representation, missing, strict=is_strict(metrics), quiet=representation.quiet
        )
        for choice, score in scores:
            params = json_params(choice)
            stored[label(choice)] = {"params": params, **sample, **asdict(score)}
            write_scores(path, stored)
    return Scores(
        {
            name: Score(stored[name]["values"], stored[name]["references"])
            for name in how
            if _is_stored(stored, name, how)
        }
    )


def examples_of_scores(path: Path) -> tuple[int, int]:
    """The number of examples, and the seed, that most stored scores of a run have."""
    samples = Counter((entry["examples"], entry["seed"]) for entry in _stored_scores(path).values())
    return samples.most_common(1)[0][0] if samples else (N_EXAMPLES, 0)


def _stored_scores(path: Path) -> dict[str, dict[str, Any]]:
    """The scores in a run's directory; damaged ones are named, and computed again."""
    try:
        return read_scores(path)
    except DamagedFile as error:
        warn(f"{error}, which is done now for those that are asked for")
        return {}


def _is_registered(label: str) -> bool:
    """Whether this installation has the metric of a stored score."""
    try:
        return bool(metric_registry.parse(label))
    except UntwineError:
        return False


def _is_stored(stored: dict[str, Any], label: str, how: dict[str, Any]) -> bool:
    """Whether a metric is stored with these settings."""
    asked = {"split": None, **how[label]}
    return label in stored and all(stored[label].get(key) == asked[key] for key in asked)
