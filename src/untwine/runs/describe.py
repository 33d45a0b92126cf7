"""Runs in words: a line in a list, the parameters, the command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from untwine.errors import UntwineError
from untwine.runs.directory import describe_progress, list_runs, read_spec, score_values
from untwine.schema import format_value
from untwine.spec import Run


def data_label(spec: Run) -> str:
    """What the data is called: its name, or that of the file or folder it comes from."""
    return Path(str(spec.data.params.get("path") or spec.data.name)).name


def spec_rows(spec: Run) -> Sequence[tuple[str, str]]:
    """The specification as pairs to read."""
    pieces = [*spec.model, spec.data, spec.network, spec.likelihood]
    kinds = ["model"] * len(spec.model) + ["data", "network", "likelihood"]
    named = [(kind, str(piece)) for kind, piece in zip(kinds, pieces, strict=True)]
    titles = {"latent": "latents", "lr": "learning rate"}
    numbers = {titles.get(name, name): str(value) for name, value in spec.numbers.items()}
    options = {name.replace("_", " "): str(v) for name, v in spec.training.changed().items()}
    return [*named, *{**numbers, "steps": f"{spec.steps:,}", **options}.items()]


def train_command(spec: Run) -> str:
    """The command that makes this run again."""
    own = spec.data.name in {"folder", "array", "table"}  # named by their path
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


def describe_runs(out: str | Path) -> list[list[str]]:
    """A row per run below `out`: name, model, data, seed, steps, state, scores."""
    return [_describe(path) for path in list_runs(out)]


def _describe(path: Path) -> list[str]:
    try:
        spec = read_spec(path)
        return [
            path.name,
            " + ".join(str(part) for part in spec.model),
            str(spec.data),
            str(spec.seed),
            f"{spec.steps:,}",
            describe_progress(path, spec),
            "  ".join(f"{name} {value:.3f}" for name, value in score_values(path).items()),
        ]
    except UntwineError as error:
        return [path.name, "", "", "", "", f"unreadable: {error}", ""]
