"""Tables and figures of InteL-VAE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine.plot.images import TRAVERSAL_REACH, traversal_values
from untwine.reproduce.evidence import Evidence, Runs, open_models, value_of
from untwine.reproduce.exhibits.pictures import draw_images
from untwine.reproduce.exhibits.tables import MISSING, mean_and_spread
from untwine.reproduce.papers.intel_vae.measures import (
    Means,
    active_latents,
    level_slices,
    mean_magnitudes,
)
from untwine.reproduce.registry import exhibit
from untwine.schema import format_value
from untwine.spec import Run
from untwine.study.statistics import Table, number
from untwine.tools.figures import panels
from untwine.tools.pages import Section, file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from untwine.runs.directory import TrainedRun


@exhibit
def table_by_data(
    evidence: Evidence,
    *,
    columns: Mapping[str, Mapping[str, Any]],
    rows: Mapping[str, Mapping[str, Any]],
    title: str = "The paper's numbers next to ours",
    study: str = "",
) -> Iterator[Section]:
    """A row for each dataset, a column for each model and score: mean and spread over seeds.

    Args:
        evidence: results of the studies.
        columns: the name of each column, with its `runs` and their `score`, such as `100 * sap`.
        rows: the name of each row, with its `data`: the name of a dataset, one of its parameters
            such as `zeros=0.4`, or nothing for all data of the study. A row may have its own
            `study`, and `paper` has the paper's numbers in the order of the columns. A row with
            `earlier` numbers has ours of an earlier protocol, whose runs are not part of the study.
        title: of the table.
        study: name of the study, for rows without one.
    """
    in_paper = [  # columns for which the paper has a number
        any(_paper_value(row, k) != MISSING for row in rows.values()) for k in range(len(columns))
    ]
    header: list[str] = []
    for name, has_paper in zip(columns, in_paper, strict=True):
        header += [f"{name}, paper", "ours"] if has_paper else [name]
    body: list[tuple[str, ...]] = []
    for name, row in rows.items():
        if "earlier" in row:
            pairs = zip(row["earlier"], in_paper, strict=False)
            cells = [
                c for value, two in pairs for c in ((MISSING, str(value)) if two else (str(value),))
            ]
            body.append((name, *cells, *[""] * (len(header) - len(cells))))
            continue
        source = str(row.get("study", study))
        directories = _directories_on(evidence, source, str(row.get("data", "")))
        if not directories and "paper" not in row:
            continue  # a smaller scale may lack this dataset
        cells = [name]
        for k, column in enumerate(columns.values()):
            ours = _score_cell(evidence, source, directories, column)
            cells += [_paper_value(row, k), ours] if in_paper[k] else [ours]
        body.append(tuple(cells))
    studies = dict.fromkeys(
        str(row.get("study", study)) for row in rows.values() if "earlier" not in row
    )
    yield Section(
        file_name("table", title.lower()),
        title,
        f"On {evidence.heading(*studies)}. Mean ± standard deviation over seeds.",
        header=("", *header),
        rows=tuple(body),
    )


def _paper_value(row: Mapping[str, Any], column: int) -> str:
    """Return the paper's number in a column of a row."""
    numbers = row.get("paper", ())
    has_number = column < len(numbers) and numbers[column] is not None
    return str(numbers[column]) if has_number else MISSING


def _directories_on(evidence: Evidence, study: str, data: str) -> set[str]:
    """Return the directories of a study's runs on the given data."""
    return {name for name, run in evidence.runs(study).items() if is_on(run, data)}


def is_on(run: Run, data: str) -> bool:
    """Whether a run's dataset has this name, or this value of a parameter; empty matches all."""
    key, equals, value = data.partition("=")
    if not equals:
        return data in ("", run.data.name)
    actual = format_value(run.data.params[key]) if key in run.data.params else ""
    return value == actual or number(value) == number(actual)


def _score_cell(
    evidence: Evidence, study: str, directories: set[str], column: Mapping[str, Any]
) -> str:
    descriptions = column["runs"] if isinstance(column["runs"], list) else [column["runs"]]
    for description in descriptions:
        if evidence.has(study, description):
            rows: Table = evidence.select(study, description)
            return mean_and_spread(value_of(rows[rows["run"].isin(directories)], column["score"]))
    return MISSING


@exhibit
def classes(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    share: float = 0.1,
    names: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> Iterator[Section]:
    """A heat map for each model: the mean |z| of each latent for each class.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: name of each model, and a description of its runs.
        share: of the largest mean |z| of a class, above which a latent is active.
        names: of the classes, by dataset; numbers by default.
        seed: of the runs.
    """
    for name, run in open_models(evidence, study, runs, seed):
        means = mean_magnitudes(run)
        active = active_latents(means, share)
        yield Section(
            file_name("classes", study, name),
            name,
            f"On {evidence.heading(study)}. Mean |z| of each latent (across) for each class "
            f"(down). On average {100 * active.mean():.0f} % of latents are active for a class: "
            f"their mean is above {share:g} of the largest of that class. "
            f"{int(active.any(0).sum())} of {means.shape[1]} are active for at least one class.",
            _class_heat_map(means, class_names(run, names)),
        )


def class_names(run: TrainedRun, names: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """Return the names of the levels of the first factor."""
    factors = run.data.factors
    count = factors.sizes[0] if factors else 0
    own = (names or {}).get(run.spec.data.name, ())
    return list(own) if len(own) == count else [str(level) for level in range(count)]


def _class_heat_map(means: Means, names: Sequence[str]) -> Figure:
    figure, (axis,) = panels(1, width=8.4, height=0.24 * len(names) + 0.9)
    image: Any = axis.imshow(means, cmap="YlGnBu", aspect="auto", vmin=0)
    axis.set_yticks(range(len(names)), list(names))
    axis.set_xlabel("latent")
    axis.spines[:].set_visible(False)
    figure.colorbar(image, ax=axis, label="mean |z|")
    return figure


@exhibit
def class_traversals(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    levels: Sequence[int],
    names: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> Iterator[Section]:
    """Traversals of the most distinctive latent of some classes, from an image of the class."""
    for name, run in open_models(evidence, study, runs, seed):
        model, data = run.model, run.data
        labels, latents = class_names(run, names), distinctive_latents(mean_magnitudes(run))
        rng = np.random.default_rng(seed)
        assert data.factors is not None
        starts = [
            data.take(data.factors.sample_indices(1, rng, fixed={0: level}))[0] for level in levels
        ]
        rows = [
            model.traverse(x, traversal_values(), [latents[level]])[0].numpy()
            for x, level in zip(starts, levels, strict=True)
        ]
        legend = ", ".join(f"{labels[level]}: latent {latents[level]}" for level in levels)
        yield Section(
            file_name("class-traversals", study, name),
            f"{name}: a latent of each class",
            f"On {evidence.heading(study)}. From −{TRAVERSAL_REACH} to {TRAVERSAL_REACH}, a row "
            f"for each class: the latent with the most distinctive mean |z| ({legend}).",
            picture=draw_images(np.stack(rows)),
        )


def distinctive_latents(means: Means) -> list[int]:
    """Return for each class the latent whose mean (L, D) is furthest above that of the others.

    >>> distinctive_latents(np.array([[5.0, 3.0, 0.0], [5.0, 0.0, 1.0]]))
    [1, 2]
    """
    others = (means.sum(0) - means) / max(1, len(means) - 1)
    return [int(d) for d in (means - others).argmax(1)]


@exhibit
def level_traversals(
    evidence: Evidence, *, study: str, runs: Mapping[str, Runs], each: int = 1, seed: int = 0
) -> Iterator[Section]:
    """Traversals of the most informative latents of each level, the top level first.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: name of each model, and a description of its runs.
        each: number of latents per level.
        seed: of the run and of the starting image.
    """
    from untwine.scoring.latents import run_latents

    for name, run in open_models(evidence, study, runs, seed):
        model, data = run.model, run.data
        nats = run_latents(run).nats
        levels = level_slices(model)
        order = [d for level in levels for d in _most_informative(nats, level, each)]
        start = data.take(data.sample_indices(1, np.random.default_rng(seed)))[0]
        images = model.traverse(start, traversal_values(), order)
        information = ", ".join(f"{nats[level].sum():.1f}" for level in levels)
        yield Section(
            file_name("levels", study, name),
            name,
            f"On {evidence.heading(study)}. One latent per row, from −{TRAVERSAL_REACH} to "
            f"{TRAVERSAL_REACH}, {each} of each level, the highest level first. The levels carry "
            f"{information} nats in total.",
            picture=draw_images(images.numpy()),
        )


def _most_informative(nats: np.ndarray, level: slice, count: int) -> list[int]:
    """Return the most informative latents of a level.

    >>> _most_informative(np.array([9.0, 1.0, 3.0, 2.0]), slice(1, 4), 2)
    [2, 3]
    """
    return [int(d) + level.start for d in np.argsort(-nats[level])[:count]]


@exhibit
def by_level(
    evidence: Evidence, *, study: str, runs: Runs, scores: Mapping[str, str], title: str = ""
) -> Iterator[Section]:
    """Bars of a score for each level of a code, from the columns `SCORE 0`, `SCORE 1`, ..."""
    rows = evidence.select(study, runs)
    figure, axes = panels(len(scores), width=4.2, height=3.0)
    for axis, (name, score) in zip(axes, scores.items(), strict=True):
        columns = sorted(column for column in rows if column.startswith(f"{score} "))
        means, spread = rows[columns].mean(), rows[columns].std().fillna(0)
        axis.bar(range(1, len(columns) + 1), means, yerr=spread, color="C0", alpha=0.7)
        axis.set_xlabel("level, 1 is the highest")
        axis.set_title(name)
    yield Section(
        f"by-level-{study}",
        title or "Effect of each level",
        f"On {evidence.heading(study)}. One level at a time is resampled from the prior. Mean and "
        "standard deviation over seeds.",
        figure,
    )
