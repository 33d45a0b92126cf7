"""The list of runs: what each is called, how far it is, and what it scored."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from untwine.explore.answers import Phase, RunLine
from untwine.registry import models
from untwine.runs.describe import data_text, model_text
from untwine.runs.directory import current_step, describe_progress, is_finished, run_state
from untwine.runs.progress import read_failure, read_progress
from untwine.schema import format_value
from untwine.spec import Run
from untwine.study.table import describe_run, varying_numbers
from untwine.study.titles import model_title


def run_line(
    name: str, path: Path, record: Mapping[str, Any], spec: Run, scores: dict[str, float] | str
) -> RunLine:
    """A run in the list; `label_runs` adds its label.

    Args:
        name: of the run in the explorer.
        path: its directory.
        record: its run.json and done.json.
        spec: its specification.
        scores: its scores, or why they cannot be read.
    """
    phase = run_phase(path)
    progress = read_progress(path) if phase == "running" else None
    return RunLine(
        name=name,
        model=model_text(spec),
        data=data_text(spec),
        shape=list(record.get("card", {}).get("shape", ())),
        seed=spec.seed,
        steps=spec.steps,
        step=spec.steps if is_finished(path) else current_step(path, phase),
        seconds_left=progress.seconds_left if progress else None,
        phase=phase,
        state="finished, weights stored elsewhere"
        if phase == "elsewhere"
        else describe_progress(path, spec),
        reason=read_failure(path) if phase == "failed" else "",
        time=_time(path, record),
        problem=scores if isinstance(scores, str) else "",
        scores={} if isinstance(scores, str) else scores,
    )


def unreadable_line(name: str, problem: str) -> RunLine:
    """A run that cannot be read."""
    return RunLine(
        name=name,
        label=name,
        model="",
        data="",
        seed=0,
        steps=0,
        phase="unreadable",
        state=f"unreadable: {problem}",
        scores={},
    )


def run_phase(path: Path) -> Phase:
    """The state of a run; `elsewhere` if it is finished and its weights are not here."""
    state = run_state(path)
    if state == "finished" and not os.path.lexists(path / "model.safetensors"):
        return "elsewhere"
    return state  # pyright: ignore[reportReturnType]


def run_labels(runs: Mapping[str, tuple[Run, str]]) -> dict[str, str]:
    """What runs are called in menus: their own name, model, parameters that differ, and seed.

    Parameters that differ are those of runs on the same data; menus name the data as well.

    Args:
        runs: by their names here, each with its specification and the name the user gave it.
    """
    data = {key: str(spec.data) for key, (spec, _) in runs.items()}
    varying = {
        each: varying_numbers(spec for key, (spec, _) in runs.items() if data[key] == each)
        for each in set(data.values())
    }
    labels = {key: _label(spec, own, varying[data[key]]) for key, (spec, own) in runs.items()}
    count = Counter((label, data[key]) for key, label in labels.items())
    return {
        key: f"{label} · {key[-12:]}" if count[label, data[key]] > 1 else label
        for key, label in labels.items()
    }


def _label(spec: Run, own_name: str, varying: Any) -> str:
    changed = [
        f"{key}={format_value(value)}"
        for part in spec.model
        for key, value in models.non_default(part).items()
        if key != "name"
    ]
    _, *differing = str(describe_run(spec, varying)["setting"]).split(" ")
    keys = {key for part in spec.model for key in part.params}
    own = [word for word in differing if word.partition("=")[0] in keys and word not in changed]
    model = " ".join([model_title(spec.model_name), *changed, *own])
    further = " ".join(word for word in differing if word not in (*changed, *own))
    return " · ".join(filter(None, [own_name, model, f"seed {spec.seed}", further]))


def newest_first(lines: Sequence[RunLine]) -> list[RunLine]:
    """Runs by when they ended or, if they have not, when they began; the newest first."""
    return sorted(reversed(lines), key=lambda line: line.time, reverse=True)


def _time(path: Path, record: Mapping[str, Any]) -> float:
    """When a run was finished or, before that, started; seconds since 1970."""
    try:
        if "finished" in record:
            return datetime.fromisoformat(record["finished"]).timestamp()
        return os.lstat(path / "run.json").st_mtime
    except (OSError, ValueError):
        return 0.0
