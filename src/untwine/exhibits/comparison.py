"""The figures of the comparison of constrained VAEs, with the published runs behind ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from untwine import statistics, study_figures
from untwine.evidence import Evidence
from untwine.exhibits import exhibit
from untwine.exhibits.tables import MISSING, mean_and_spread
from untwine.pages import Section, file_name
from untwine.statistics import Table
from untwine.study_report import at_same_values, by_data, on_same_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    if evidence.published is None:
        return None
    theirs = on_same_data(evidence.published, ours)
    return at_same_values(theirs[theirs["model"].isin(ours["model"])], ours)


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
            file_name("by-value", score),
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
        yield Section(
            "by-seed-published",
            "The same, published",
            "Fifty seeds of each setting.",
            study_figures.by_seed(behind, [s for s in there if s in behind]),
        )
