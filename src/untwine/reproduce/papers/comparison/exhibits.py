"""Tables and figures of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from untwine.plot import studies as figures
from untwine.report.published import restrict_to_data, restrict_to_values
from untwine.report.study import by_data
from untwine.reproduce.evidence import Evidence, NoRuns
from untwine.reproduce.exhibits.tables import MISSING, mean_and_spread
from untwine.reproduce.registry import exhibit
from untwine.study import statistics
from untwine.study.statistics import Table
from untwine.study.titles import join_names, model_title, score_title
from untwine.tools.figures import panels
from untwine.tools.pages import Section, file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED_NAMES = {"sprites": "dsprites"}  # our dataset: theirs


@exhibit
def by_model(evidence: Evidence, *, study: str, scores: Sequence[str] = ()) -> Iterator[Section]:
    """Boxes of scores by model over the published runs, and a table of the means."""
    ours, published, where = _runs(evidence, study, every_dataset=True)
    scores = [s for s in scores or statistics.STANDARD_SCORES if s in ours]
    yield Section(
        "by-model",
        "Scores by model",
        f"{where} {_values(ours)}{_behind(published)}",
        figures.by_model(ours, scores, published),
    )
    yield _means_table(ours, ["model"], scores, published)
    if evidence.published is not None and published is not None:  # else ours are these already
        yield from _published_by_model(evidence.published, scores)


def _published_by_model(runs: Table, scores: Sequence[str]) -> Iterator[Section]:
    """Boxes of all published runs by model, and a table of their means and medians."""
    scores = [score for score in scores if score in runs]
    where = f"On {join_names(list(map(str, runs['data'].unique())))}, all values."
    yield Section(
        "published-by-model", "Published runs by model", where, figures.by_model(runs, scores)
    )
    rows = [
        (
            model_title(str(model)),
            *(f"{group[s].mean():.3f} ({group[s].median():.3f})" for s in scores),
        )
        for model, group in runs.groupby("model", sort=False)
    ]
    yield Section(
        "published-means-by-model",
        "Published means by model",
        "Mean (median) over runs, pooled over datasets and values.",
        header=("model", *map(score_title, scores)),
        rows=tuple(rows),
    )


@exhibit
def by_dataset(
    evidence: Evidence, *, study: str, scores: Sequence[str] = statistics.STANDARD_SCORES
) -> Iterator[Section]:
    """The mean of the scores by dataset and model, then the published one."""
    ours, published, _ = _runs(evidence, study, every_dataset=True)
    names = [s for s in scores if s in ours]
    if published is not None or evidence.published is None:
        yield _ours_by_dataset(ours, names)
    if evidence.published is not None:
        theirs = by_data(evidence.published, [s for s in names if s in evidence.published])
        yield Section("by-data-published", "Published runs", theirs.sentence, theirs.figure)


def _ours_by_dataset(ours: Table, names: Sequence[str]) -> Section:
    """The means of our runs; a few models on one dataset have no leader to speak of."""
    section = by_data(ours, list(names))
    if ours["data"].nunique() > 1:
        return section
    titles = join_names(list(map(score_title, names)))
    return replace(section, title="Our runs", sentence=f"{_values(ours)} The mean of {titles}.")


@exhibit
def by_value(
    evidence: Evidence, *, study: str, scores: Sequence[str], models: Sequence[str] = ()
) -> Iterator[Section]:
    """Scores by the parameter that each model varies, over the published runs.

    With one dataset, a panel for each model; with several, a panel for each dataset.
    """
    ours, published, where = _runs(evidence, study, models)
    several = ours["data"].nunique() > 1
    names = [s for s in scores if s in ours]
    for score in names:
        theirs = published if published is not None and score in published else None
        yield Section(
            file_name("by-value", study, score),
            f"{score_title(score)} by parameter value",
            f"{where}{_behind(theirs)} Mean and standard deviation over seeds.",
            _dataset_panels(ours, score, theirs)
            if several
            else figures.by_value(ours, score, theirs, behind="published, our values"),
        )
    by = ["data", "model", "value"] if several else ["model", "value"]
    yield _means_table(ours, by, names, published)


@exhibit
def published_by_value(
    evidence: Evidence,
    *,
    scores: Sequence[str],
    models: Sequence[str] = (),
    data: Sequence[str] = (),
) -> Iterator[Section]:
    """Scores of published runs by the parameter that each model varies.

    With one dataset, a panel for each model; with several, a panel for each dataset.
    """
    runs = evidence.published
    if runs is None:
        return
    runs = runs[runs["model"].isin(models)] if models else runs
    runs = runs[runs["data"].isin(data)] if data else runs
    names = list(map(str, runs["data"].unique()))
    for score in scores:
        yield Section(
            file_name("published-by-value", *models, score),
            f"Published runs: {score_title(score)} by parameter value",
            f"On {join_names(names)}. Mean and standard deviation over seeds.",
            _dataset_panels(runs, score, None) if len(names) > 1 else figures.by_value(runs, score),
        )


def _dataset_panels(ours: Table, score: str, published: Table | None) -> Figure:
    """Draw a panel for each dataset with a curve for each model."""
    names = list(dict.fromkeys(ours["data"]))
    figure, axes = panels(len(names))
    for axis, name in zip(axes, names, strict=True):
        if published is not None and score in published:
            theirs = published[published["data"].map(_format_key) == _format_key(name)]
            for _, group in theirs.groupby("model", sort=False):
                figures.curve(axis, group, score, figures.PUBLISHED_COLOUR, "published", {})
        for model, group in ours[ours["data"] == name].groupby("model", sort=False):
            figures.curve(axis, group, score, None, model_title(str(model)), {})
        axis.set_title(str(name))
        axis.set_xlabel(statistics.parameter_name(ours))
    axes[0].set_ylabel(score_title(score))
    if len(axes[0].get_legend_handles_labels()[1]) > 1:
        axes[0].legend(fontsize=7, frameon=False)
    return figure


@exhibit
def by_seed(
    evidence: Evidence, *, study: str, scores: Sequence[str], models: Sequence[str] = ()
) -> Iterator[Section]:
    """Scores of single runs: the spread over the seeds of a setting, then the published one."""
    ours, published, where = _runs(evidence, study, models)
    names = [s for s in scores if s in ours]
    yield Section(
        "by-seed",
        "Scores by seed",
        f"{where} A dot for each run, a bar for the mean of a setting.",
        figures.by_seed(ours, names),
    )
    if published is not None:
        yield Section(
            "by-seed-published",
            "Published runs",
            "Fifty seeds per setting.",
            figures.by_seed(published, [s for s in names if s in published]),
        )


def _runs(
    evidence: Evidence, study: str, models: Sequence[str] = (), *, every_dataset: bool = False
) -> tuple[Table, Table | None, str]:
    """Return our runs, the published ones behind them, and a sentence on where ours come from.

    Before ours are there, the published runs take their place: on the datasets that stand for the
    study's, or on all.
    """
    try:
        ours = evidence.table(study)
    except NoRuns:
        if evidence.published is None:
            raise
        theirs = evidence.published
        names = evidence.item.paper["published"]["studies"][study]
        theirs = theirs if every_dataset else theirs[theirs["data"].isin(names)]
        theirs = theirs[theirs["model"].isin(models)] if models else theirs
        where = "all six datasets" if every_dataset else ", ".join(names)
        return theirs, None, f"Published runs, on {where}."
    ours = ours[ours["model"].isin(models)] if models else ours
    where = f"On {evidence.heading(study)}."
    if evidence.published is None:
        where += " The published runs are not in the data directory."
    return ours, _published_runs(evidence, ours), where


def _published_runs(evidence: Evidence, ours: Table) -> Table | None:
    """Return the published runs on our datasets with our parameter values."""
    if evidence.published is None:
        return None
    theirs = restrict_to_data(evidence.published, ours)
    return restrict_to_values(theirs, ours)[0]


def _values(runs: Table) -> str:
    """Return a sentence on the values that runs have of each model's parameter."""
    rows = statistics.in_order(runs).drop_duplicates("setting")
    parts = [
        f"{model_title(str(model))} with {statistics.parameter_name(group)} = "
        f"{join_names(list(map(_format_key, group['value'])))}"
        for model, group in rows.groupby("model", sort=False)
    ]
    return f"{'; '.join(parts)}."


def _behind(published: Table | None) -> str:
    """Return a sentence on the published runs that a figure shows in grey."""
    if published is None:
        return ""
    data = ", ".join(map(str, published["data"].unique()))
    return f" Grey: the published runs with our parameter values, on {data}."


def _means_table(
    ours: Table, by: list[str], scores: Sequence[str], published: Table | None
) -> Section:
    """Return a table of the mean of each score by group, next to the published mean."""
    rows: list[tuple[str, ...]] = []
    for key, group in statistics.in_order(ours).groupby(by, sort=False):
        theirs = published
        for name, value in zip(by, key, strict=True):
            theirs = (
                None
                if theirs is None
                else theirs[theirs[name].map(_format_key) == _format_key(value)]
            )
        cells = [(_format_mean(theirs, score), mean_and_spread(group[score])) for score in scores]
        rows.append((*map(_title, key), *(cell for pair in cells for cell in pair)))
    titles = list(map(score_title, scores))
    header = [word for title in titles for word in (f"{title}, published", "ours")]
    if published is None:  # there is one kind of runs
        rows = [row[: len(by)] + row[len(by) + 1 :: 2] for row in rows]
        header = titles
    return Section(
        "means-by-" + "-".join(by),
        f"Means by {' and '.join(by)}",
        f"{'Mean' if published is None else 'Ours: mean'} ± standard deviation over runs.",
        header=(*by, *header),
        rows=tuple(rows),
    )


def _title(key: object) -> str:
    """Return a value at its shortest, or a model or dataset by its title."""
    return model_title(_format_key(key))


def _format_mean(rows: Table | None, score: str) -> str:
    if rows is None or score not in rows or rows[score].isna().all():
        return MISSING
    return f"{rows[score].mean():.3f}"


def _format_key(value: object) -> str:
    """Return a number at its shortest, 1 for 1.0, or a dataset by its published name."""
    number = statistics.number(value)
    if number == number:
        return f"{number:g}"
    name = str(value).partition("(")[0]
    return PUBLISHED_NAMES.get(name, name)
