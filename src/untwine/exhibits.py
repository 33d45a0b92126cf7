"""What can be shown of a reproduction: tables beside the paper's, curves, pictures.

An exhibit is a function of the evidence and the parameters that a paper's file gives; its name
there is that of the function, with hyphens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from untwine import pictures, statistics, study_figures
from untwine.errors import UnknownNameError
from untwine.evidence import Evidence, value_of
from untwine.pages import Section
from untwine.schema import unknown
from untwine.statistics import Table
from untwine.study_report import at_same_values, by_data, on_same_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS, REACH = 11, 2.5  # of a traversal
SHOWN = 8  # latents of a traversal
MISSING = "–"
Exhibit = Callable[..., Iterator[Section]]
EXHIBITS: dict[str, Exhibit] = {}


def exhibit(function: Exhibit) -> Exhibit:
    """Make a function known under its own name."""
    EXHIBITS[function.__name__.replace("_", "-")] = function
    return function


def shown(evidence: Evidence, wanted: Mapping[str, Any]) -> Iterator[Section]:
    """The sections of one entry of an item's `show`."""
    for name, how in wanted.items():
        if name not in EXHIBITS:
            raise UnknownNameError(unknown("exhibit", name, EXHIBITS))
        yield from EXHIBITS[name](evidence, **(how or {}))


@exhibit
def table(
    evidence: Evidence,
    *,
    study: str,
    columns: Mapping[str, str | Sequence[str]],
    rows: Mapping[str, Mapping[str, Any]],
    title: str = "",
) -> Iterator[Section]:
    """The paper's numbers beside ours: mean and standard deviation over seeds.

    Args:
        evidence: what our runs found.
        study: whose runs.
        columns: the paper's name of a column, and the score here, as in `100 * sap`; of several
            the first that is there.
        rows: the paper's name of a row; `runs` describes ours, `paper` is its numbers in the order
            of the columns.
        title: of the table, where an item has several.
    """
    scores = {name: _first(score, evidence.table(study)) for name, score in columns.items()}
    body = [
        _row(evidence, study, name, row, list(scores.values()))
        for name, row in rows.items()
        if "runs" not in row or evidence.has(study, row["runs"])
    ]
    header = [word for name in columns for word in (f"{name}, paper", "ours")]
    seeds = evidence.table(study)["seed"].nunique()
    yield Section(
        f"table-{study}",
        title or "The paper's numbers beside ours",
        f"On {evidence.heading(study)}. Ours: mean ± standard deviation over {seeds} "
        f"seed{'s' if seeds > 1 else ''}.",
        header=("", "here", *header),
        rows=tuple(body),
    )


def _row(
    evidence: Evidence, study: str, name: str, row: Mapping[str, Any], scores: Sequence[str]
) -> tuple[str, ...]:
    paper = [MISSING if value is None else str(value) for value in row.get("paper", ())]
    paper += [MISSING] * (len(scores) - len(paper))
    if "runs" not in row:
        return (name, "", *(cell for value in paper for cell in (value, "")))
    found = evidence.select(study, row["runs"])
    ours = [mean_and_spread(value_of(found, score)) if score else MISSING for score in scores]
    here = str(found["setting"].iloc[0])
    return (name, here, *(cell for pair in zip(paper, ours, strict=True) for cell in pair))


def _first(scores: str | Sequence[str], found: Table) -> str:
    """The first score of several that is there, if any is."""
    listed = [scores] if isinstance(scores, str) else scores
    return next((s for s in listed if s.rpartition(" * ")[2] in found), "")


def mean_and_spread(values: Table) -> str:
    """`0.123 ± 0.010`, with as many digits as the spread allows to be read."""
    values = values.dropna()
    if not len(values):
        return MISSING
    mean = float(values.mean())
    if len(values) < 2:
        return f"{mean:.3g}"
    spread = float(values.std(ddof=1))
    digits = max(0, min(4, 2 - int(np.floor(np.log10(max(abs(mean), spread, 1e-4))))))
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


@exhibit
def curves(
    evidence: Evidence, *, study: str, x: str, y: Sequence[str], models: Sequence[str]
) -> Iterator[Section]:
    """Scores against another score as each model's number varies; the number beside each point."""
    rows = evidence.table(study)
    rows = rows[rows["model"].isin([*models, "vae"])]
    figure, axes = study_figures.panels(len(y), width=4.6, height=3.6)
    for axis, score in zip(axes, y, strict=True):
        for place, model in enumerate(models):
            ours = rows[rows["model"] == model]
            if model == "beta-vae":  # of which a VAE is the case of weight 1
                ours = _with_vae(ours, rows)
            _trace(axis, ours, x, score, f"C{place}", model)
        axis.set_xlabel(x)
        axis.set_ylabel(score)
    axes[0].legend(fontsize=8, frameon=False)
    yield Section(
        f"curves-{study}",
        f"{' and '.join(y)} against {x}",
        f"On {evidence.heading(study)}. Each point is a setting: the mean over seeds with one "
        "standard deviation, and the number of its model beside it. Up and to the left is better.",
        figure,
    )


def _with_vae(ours: Table, rows: Table) -> Table:
    import pandas as pd

    plain = rows[rows["model"] == "vae"].assign(value="1")
    return pd.concat([plain, ours])


def _trace(axis: Any, rows: Table, x: str, y: str, colour: str, label: str) -> None:
    """The means of a model's settings, joined in the order of their numbers."""
    rows = rows.assign(number=rows["value"].map(statistics.number))
    groups = rows.groupby("number", sort=True)
    means, spread = groups[[x, y]].mean(), groups[[x, y]].std().fillna(0)
    axis.errorbar(
        means[x],
        means[y],
        spread[y],
        spread[x],
        marker="o",
        markersize=4,
        linewidth=1.2,
        elinewidth=0.6,
        color=colour,
        label=label,
    )
    for value, row in means.iterrows():
        axis.annotate(
            f"{value:g}", (row[x], row[y]), (4, 4), textcoords="offset points", fontsize=7
        )


@exhibit
def traversals(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, str | Sequence[str]],
    scores: Sequence[str] = (),
    seed: int = 0,
) -> Iterator[Section]:
    """Images as one latent at a time moves; a picture for each model, its busiest latents first."""
    from untwine.representation import Representation

    for name, described in runs.items():
        if not evidence.has(study, described):
            continue
        finished = evidence.opened(study, described, seed)
        model, data = finished.model, finished.data
        device = "cpu"
        seen = Representation(model, data, n=min(1_000, len(data)), device=device)
        order = [int(d) for d in np.argsort(-seen.kl)[:SHOWN]]
        start = data.take(data.draw(1, np.random.default_rng(seed)))[0]
        images = model.traverse(start, torch.linspace(-REACH, REACH, STEPS), order)
        told = ", ".join(f"{seen.kl[d]:.1f}" for d in order)
        row = evidence.select(study, described)
        values = ", ".join(f"{s} {mean_and_spread(value_of(row, s))}" for s in scores)
        yield Section(
            _file_name("traversals", study, str(row["setting"].iloc[0])),
            name,
            f"On {evidence.heading(study)}. One latent a row, from −{REACH} to {REACH}, those that "
            f"say most first ({told} nats)." + (f" {values}." if values else ""),
            picture=pictures.grid(images.numpy()),
        )


@exhibit
def by_model(evidence: Evidence, *, study: str, scores: Sequence[str] = ()) -> Iterator[Section]:
    """Scores by model as boxes, with the published runs behind, and the means as a table."""
    ours = evidence.table(study)
    scores = [s for s in scores or statistics.USUAL if s in ours]
    behind = _behind(evidence, ours)
    yield Section(
        "by-model",
        "Scores by model",
        f"On {evidence.heading(study)}. {_grey(behind)}",
        study_figures.by_model(ours, scores, behind),
    )
    yield _means(ours, ["model"], scores, behind)


def _behind(evidence: Evidence, ours: Table) -> Table | None:
    """The published runs on our data and at our values."""
    theirs = evidence.published
    return None if theirs is None else at_same_values(on_same_data(theirs, ours), ours)


def _grey(behind: Table | None) -> str:
    if behind is None:
        return "The published runs are not here."
    data = ", ".join(map(str, behind["data"].unique()))
    return f"In grey the published runs at our values, on {data}."


def _means(ours: Table, by: list[str], scores: Sequence[str], behind: Table | None) -> Section:
    """The mean of each score by group, the published one beside it where it is here."""
    rows: list[tuple[str, ...]] = []
    for key, group in ours.groupby(by, sort=False):
        theirs = behind
        for name, value in zip(by, key, strict=True):
            theirs = None if theirs is None else theirs[theirs[name].map(_plain) == _plain(value)]
        cells = [(_mean(theirs, score), mean_and_spread(group[score])) for score in scores]
        rows.append((*map(_plain, key), *(cell for pair in cells for cell in pair)))
    header = [word for score in scores for word in (f"{score}, published", "ours")]
    return Section(
        "means-by-" + "-".join(by),
        f"Means by {' and '.join(by)}",
        "Ours: mean ± standard deviation over runs.",
        header=(*by, *header),
        rows=tuple(rows),
    )


def _mean(rows: Table | None, score: str) -> str:
    known = rows is not None and score in rows and rows[score].notna().any()
    return f"{rows[score].mean():.3f}" if known and rows is not None else MISSING


def _plain(value: object) -> str:
    """A number at its shortest, 1 for 1.0; data by the name under which it is published."""
    found = statistics.number(value)
    name = str(value).partition("(")[0]
    return ("dsprites" if name == "sprites" else name) if found != found else f"{found:g}"


@exhibit
def by_dataset(
    evidence: Evidence, *, study: str, scores: Sequence[str] = statistics.USUAL
) -> Iterator[Section]:
    """The mean of the scores by dataset and model; the published table below."""
    ours = evidence.table(study)
    there = [s for s in scores if s in ours]
    yield by_data(ours, there)
    if evidence.published is not None:
        theirs = by_data(evidence.published, [s for s in there if s in evidence.published])
        yield Section("by-data-published", "The same, published", theirs.sentence, theirs.figure)


@exhibit
def by_value(
    evidence: Evidence, *, study: str, scores: Sequence[str], models: Sequence[str] = ()
) -> Iterator[Section]:
    """Scores by the number that each model varies, with the published runs behind.

    One dataset has a panel for each model, several have a panel each.
    """
    ours = evidence.table(study)
    ours = ours[ours["model"].isin(models)] if models else ours
    behind = _behind(evidence, ours)
    several = ours["data"].nunique() > 1
    there = [s for s in scores if s in ours]
    for score in there:
        draw = _by_dataset if several else study_figures.by_value
        yield Section(
            _file_name("by-value", score),
            f"{score} by parameter value",
            f"On {evidence.heading(study)}. Means and one standard deviation over seeds. "
            + _grey(behind),
            draw(ours, score, behind),
        )
    by = ["data", "model", "value"] if several else ["model", "value"]
    yield _means(ours, by, there, behind)


def _by_dataset(ours: Table, score: str, behind: Table | None) -> Figure:
    """A panel for each dataset with a curve for each model."""
    names = list(dict.fromkeys(ours["data"]))
    figure, axes = study_figures.panels(len(names))
    for axis, name in zip(axes, names, strict=True):
        if behind is not None and score in behind:
            theirs = behind[behind["data"].map(_plain) == _plain(name)]
            for _, group in theirs.groupby("model", sort=False):
                study_figures.curve(axis, group, score, study_figures.BEHIND, "published", {})
        for model, group in ours[ours["data"] == name].groupby("model", sort=False):
            study_figures.curve(axis, group, score, None, str(model), {})
        axis.set_title(str(name))
    axes[0].set_ylabel(score)
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def _file_name(*words: str) -> str:
    return re.sub(r"[^\w-]+", "-", "-".join(words)).strip("-")


@exhibit
def by_seed(
    evidence: Evidence, *, study: str, scores: Sequence[str], models: Sequence[str] = ()
) -> Iterator[Section]:
    """Every run: how far apart the seeds of one setting lie, beside the published spread."""
    ours = evidence.table(study)
    ours = ours[ours["model"].isin(models)] if models else ours
    there = [s for s in scores if s in ours]
    yield Section(
        "by-seed",
        "Scores by seed",
        f"On {evidence.heading(study)}. A dot for each run, a bar for the mean of a setting.",
        study_figures.by_seed(ours, there),
    )
    behind = _behind(evidence, ours)
    if behind is not None:
        theirs = at_same_values(behind[behind["model"].isin(ours["model"])], ours)
        yield Section(
            "by-seed-published",
            "The same, published",
            "Fifty seeds of each setting.",
            study_figures.by_seed(theirs, [s for s in there if s in theirs]),
        )
