"""Runs in words: a line in a list, the parameters, the command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath

from untwine.data.dataset import Dataset
from untwine.data.opening import FILE_PARAMETERS
from untwine.errors import UntwineError
from untwine.records import is_image
from untwine.registry import Choice, datasets, likelihoods, metrics, models, value_name
from untwine.runs.directory import describe_progress, list_runs, read_scores, read_spec
from untwine.runs.names import OWN_DATA, data_label, place_run
from untwine.runs.received import named_files
from untwine.schema import Value, format_value
from untwine.spec import Run
from untwine.tools.trust import is_mine

FIRST_SCORES = ("elbo", "reconstruction", "mig", "dci")  # in a line of the list of runs
MAX_SCORES = 4


def strip_folders(text: str) -> str:
    """A name, expression or path without the folders in front of file names.

    >>> strip_folders("mnist-01(of=mnist(path=/a/b/c), zeros=0.2)")
    'mnist-01(of=mnist(path=c), zeros=0.2)'
    """
    return re.sub(r"[^=,()]*[/\\](?=[^/\\])", "", text)


def without_folders(spec: Run) -> Run:
    """A specification in which files are named without their folders, to be shared."""
    params = {k: strip_folders(v) if isinstance(v, str) else v for k, v in spec.data.params.items()}
    return replace(spec, data=replace(spec.data, params=params))


def train_command(spec: Run) -> str:
    """The command that makes this run again."""
    own = spec.data.name in OWN_DATA
    place = str(spec.data.params["path"]) if own else spec.data.name
    words = ["untwine", "train", spec.model_name, place]
    for piece in [*spec.model, spec.data, spec.network, spec.likelihood]:
        for key, value in piece.params.items():
            if key != "digest" and not (own and key == "path") and value != "":
                words += ["--set", f"{piece.name}.{key}={format_value(value)}"]
    words += ["--network", spec.network.name, "--likelihood", spec.likelihood.name]
    for name, value in {**spec.numbers, **spec.training.changed()}.items():
        words += [f"--{name.replace('_', '-')}", format_value(value)]
    for plugin in spec.plugins:
        words += ["--plugin", plugin.name] if plugin.name.endswith(".py") else []
    return shlex.join(words)


def training_notes(spec: Run, data: Dataset, *, chosen: bool) -> list[str]:
    """What to tell about a training on one's own data before it starts.

    Args:
        spec: the run.
        data: its data.
        chosen: whether the user has named the likelihood.
    """
    notes: list[str] = []
    if spec.data.name in OWN_DATA and not chosen:
        like = likelihoods.expression(spec.likelihood)
        others = "logistic256 or gaussian(variance=0.02)" if is_image(data.shape) else "laplace"
        kind = "images" if is_image(data.shape) else "vectors"
        notes.append(f"likelihood: {like}, the default for {kind}; --likelihood takes {others} too")
    tops = {PurePath(name).parts[0] for name in data.example_names if len(PurePath(name).parts) > 1}
    if spec.data.name == "folder" and data.factors is None and len(tops) > 1:
        notes.append(f"{len(tops)} sub-folders; --set folder.labels=folders makes them labels")
    return notes


def same_on_other_files(spec: Run, out: str | Path) -> list[str]:
    """The runs below `out` that ask for the same of the same path, when it held other files."""
    if not spec.data.params.get("digest") or place_run(spec, out).exists():
        return []
    names: list[str] = []
    for path in list_runs(out):
        with suppress(UntwineError):
            other = read_spec(path)
            data = replace(spec.data, params={**spec.data.params, **_digest_of(other)})
            if replace(spec, data=data) == other:
                names.append(path.name)
    return names


def _digest_of(spec: Run) -> dict[str, Value]:
    return {key: value for key, value in spec.data.params.items() if key == "digest"}


def read_specs(out: str | Path) -> dict[Path, Run | Exception]:
    """The specification of each run below `out`, or why it cannot be read; oldest first."""
    specs: dict[Path, Run | Exception] = {}
    for path in list_runs(out):
        try:
            specs[path] = read_spec(path)
        except (UntwineError, OSError) as error:
            specs[path] = error
    return specs


def unmarked_runs(specs: Mapping[Path, Run | Exception]) -> list[Path]:
    """Those of `read_specs` that name files and are not marked as one's own."""
    return [
        path
        for path, spec in specs.items()
        if isinstance(spec, Run) and any(named_files(spec.data)) and not is_mine(path / "run.json")
    ]


def describe_runs(specs: Mapping[Path, Run | Exception]) -> list[list[str]]:
    """A row for each of `read_specs`: name, model, data, seed, steps, state, scores."""
    return [_describe(path, spec) for path, spec in specs.items()]


def _describe(path: Path, spec: Run | Exception) -> list[str]:
    try:
        if isinstance(spec, Exception):
            raise spec
        return [
            path.name,
            model_text(spec),
            data_text(spec),
            str(spec.seed),
            f"{spec.steps:,}",
            describe_progress(path, spec),
            _describe_scores(path),
        ]
    except (UntwineError, OSError) as error:
        return [path.name, "", "", "", "", f"unreadable: {error}", ""]


def model_text(spec: Run) -> str:
    """The model by its name and the parameters that are not at their defaults."""
    return " + ".join(_short(part.name, models.non_default(part)) for part in spec.model)


def data_text(spec: Run) -> str:
    """The data by its name and the parameters that are not at their defaults, without paths."""
    return _short(data_label(spec), datasets.non_default(spec.data))


def _short(name: str, params: Mapping[str, Value]) -> str:
    hidden = ("name", "digest", *FILE_PARAMETERS)
    return str(Choice(name, {key: value for key, value in params.items() if key not in hidden}))


def _describe_scores(path: Path) -> str:
    """The headline values of a few metrics, and how many more there are."""
    try:
        stored = read_scores(path)
    except UntwineError as error:
        return f"unreadable: {error}"
    order = dict.fromkeys([*(metric for metric in FIRST_SCORES if metric in stored), *stored])
    headlines = [_headline(metric, stored[metric]["values"]) for metric in order]
    more = len(headlines) - MAX_SCORES
    return "  ".join([*headlines[:MAX_SCORES], *([f"and {more} more"] if more > 0 else [])])


def _headline(metric: str, values: Mapping[str, float]) -> str:
    """The first value of a metric, marked if it is unreliable: `mig 0.250`."""
    key, value = next(iter(values.items()))
    mark = ""
    with suppress(UntwineError):  # a metric that is not here
        mark = " (unreliable)" if metrics.parse(metric)[0].unreliable(values) else ""
    return f"{value_name(metric, key)} {value:.3f}{mark}"
