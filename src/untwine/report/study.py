"""The report of a study: one HTML page, and its figures as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from untwine.errors import DataError
from untwine.report import figures
from untwine.study import statistics
from untwine.study.folder import StudyFolder, as_folder
from untwine.study.inference import CONFIDENCE
from untwine.study.statistics import Table, higher_is_better, number
from untwine.study.table import results_table
from untwine.tools.figures import STYLE
from untwine.tools.files import write_bytes
from untwine.tools.pages import Section, render, save_figures

ONE_SEED = "One seed only, so uncertainty cannot be estimated."


def write_study_report(
    study: StudyFolder | str | Path, *, published: StudyFolder | None = None, quiet: bool = True
) -> Path:
    """Write `report/index.html` and `report/figures/` into a study's directory.

    Args:
        folder: the study.
        published: published results, drawn behind ours where model and score match.
        quiet: hide progress output.

    Returns:
        the page
    """
    from matplotlib import rc_context

    folder = as_folder(study)
    table = results_table(folder)
    published_runs = (
        None if published is None else restrict_to_data(results_table(published), table)
    )
    with rc_context(STYLE):
        saved = save_figures(sections(table, published_runs), folder.path / "report", quiet=quiet)
    html = render(
        "study.html",
        title=folder.study.name,
        study=folder.study,
        runs=len(table),
        planned=len(folder.study.runs) or len(table),
        settings=table["setting"].nunique(),
        models=table["model"].nunique(),
        datasets=list(map(str, table["data"].unique())),
        seeds=table["seed"].nunique(),
        published=published_name(published, published_runs),
        sections=saved,
    )
    file = folder.path / "report" / "index.html"
    write_bytes(file, html)
    return file


def published_name(folder: StudyFolder | None, published: Table | None) -> str:
    """The name and datasets of the published runs drawn behind ours."""
    if folder is None or published is None:
        return ""
    return f"{folder.study.name} on {', '.join(map(str, published['data'].unique()))}"


def restrict_to_data(published: Table, table: Table) -> Table:
    """Published runs on the datasets of our runs; `sprites` counts as dSprites.

    If no dataset matches, all published runs.
    """
    names = {str(name).partition("(")[0] for name in table["data"].unique()}
    names |= {"dsprites"} if "sprites" in names else set()
    same = published[published["data"].isin(names)]
    return same if len(same) else published


def restrict_to_values(published: Table, table: Table) -> Table:
    """Published runs at the parameter values of our runs of the same model.

    If no value of a model matches, all of its published runs.
    """
    import pandas as pd

    groups: list[Table] = []
    for model, group in published.groupby("model", sort=False):
        ours = table[table["model"] == model]["value"].map(number).dropna()
        same = group[group["value"].map(number).isin(ours)]
        groups.append(same if len(same) else group)
    return pd.concat(groups) if groups else published


def sections(table: Table, published: Table | None) -> Iterator[Section]:
    """The sections of the report, most important first."""
    scores = statistics.standard_scores(table)
    if not scores:
        raise DataError("no score differs between the runs, so there is nothing to report")
    yield best_settings(table, scores)
    yield Section(
        "by-model",
        "Scores by model",
        _leaders(table, scores),
        figures.by_model(
            table, scores, None if published is None else restrict_to_values(published, table)
        ),
    )
    yield model_table(table, scores)
    if table["data"].nunique() > 1:
        yield by_data(table, scores)
    yield from _by_value(table, scores, published)
    yield Section(
        "by-seed",
        "Scores by seed",
        _spread(table, scores),
        figures.by_seed(table, scores),
    )
    yield from _relations(table, scores)


def best_settings(table: Table, scores: list[str]) -> Section:
    """The table of recommendations, with their certainty."""
    best = statistics.recommendations(table, scores)
    rows = tuple(
        (
            str(r.data),
            str(r.score),
            str(r.setting),
            f"{r.mean:.3f} [{r.low:.3f}, {r.high:.3f}]" if r.runs > 1 else f"{r.mean:.3f} [–]",
            f"{100 * r.chance:.0f} %" if r.chance == r.chance else "–",
        )
        for r in best.itertuples()
    )
    return Section(
        "recommendations",
        "What to use",
        f"The setting with the best mean for each score, the 95 % interval of that mean, and how "
        f"often it stays best when seeds are resampled. {_certainty(best)}",
        header=("data", "score", "best setting", "mean", "stays best"),
        rows=rows,
    )


def _certainty(recommendations: Table) -> str:
    """A sentence on how many recommendations are certain."""
    chance = recommendations["chance"].dropna()
    if not len(chance):
        some = "Some settings have only one seed, so the certainty of the choices is unknown."
        return ONE_SEED if recommendations["runs"].max() < 2 else some
    certain = int((chance >= CONFIDENCE).sum())
    if certain == len(recommendations):
        return "All choices are certain at 95 %."
    return (
        f"{certain} of {len(recommendations)} choices are certain at 95 %; the others need more "
        "seeds."
    )


def model_table(table: Table, scores: list[str]) -> Section:
    """The table of means and medians by model."""
    summary = statistics.summary(table, ["model"], scores)
    models = list(dict.fromkeys(table["model"]))
    cells = {(r.model, r.score): f"{r.mean:.3f}/{r.median:.3f}" for r in summary.itertuples()}
    rows = tuple((m, *(cells.get((m, s), "") for s in scores)) for m in models)
    return Section(
        "by-model-table",
        "Mean and median by model",
        "Over all settings, datasets and seeds of a model.",
        header=("model", *scores),
        rows=rows,
    )


def by_data(table: Table, scores: list[str]) -> Section:
    """The section of mean scores by dataset and model; higher-is-better scores if there are any."""
    scores = [score for score in scores if higher_is_better(score)] or scores[:1]
    grid = statistics.mean_by_dataset(table, scores).dropna(how="all")
    sign = 1 if higher_is_better(scores[0]) else -1
    best = list((sign * grid).idxmax(axis=1).items())
    leaders = {model for _, model in best}
    verdict = (
        f"{leaders.pop()} leads on all of them"
        if len(leaders) == 1
        else ("the leader differs: " + ", ".join(f"{model} on {data}" for data, model in best))
    )
    return Section(
        "by-data",
        "Scores by dataset",
        f"The mean of {', '.join(scores)}; {verdict}.",
        figures.by_data(table, scores),
    )


def _by_value(table: Table, scores: list[str], published: Table | None) -> Iterator[Section]:
    plotted = [s for s in ("mig", "dci.disentanglement") if s in scores] or scores[:1]
    plotted += [error for error in statistics.ERRORS if error in statistics.score_names(table)][:1]
    for score in plotted:
        figure = figures.by_value(table, score, published)
        if figure is not None:
            rises = {m: statistics.slope(g, score) for m, g in table.groupby("model", sort=False)}
            slopes = [
                f"{m} {'+' if r > 0 else '−'}{abs(r):.2f}" for m, r in rises.items() if r == r
            ]
            trend = f" Rank correlation between the value and {score}: {', '.join(slopes)}."
            yield Section(
                f"by-value-{score.replace('.', '-').replace(' ', '-')}",
                f"{score} by parameter value",
                f"Mean and one standard deviation over seeds.{trend if slopes else ''}",
                figure,
            )


def _relations(table: Table, scores: list[str]) -> Iterator[Section]:
    wide = [*scores, *statistics.comparison_scores(table)]
    if len(wide) > 1:
        ranks = statistics.rank_correlation(table, wide)
        pairs = ranks.where(np.triu(np.ones(ranks.shape), 1) > 0).stack().dropna()
        if len(pairs):
            yield Section(
                "correlation",
                "Do scores agree?",
                f"Spearman's rank correlation over runs, averaged over datasets. {_agree(pairs)}",
                figures.correlation(table, wide),
            )
    shares = [share for s in scores if (share := statistics.variance_shares(table, s))]
    if shares:
        yield Section(
            "variance",
            "What explains a score?",
            "Shares of the variance within a dataset: between models, between the settings of a "
            f"model, and between the seeds of a setting. {_by_seeds(table, shares)}",
            figures.shares(table, scores),
        )
    yield from _pairs_and_errors(table, scores)


def _agree(pairs: Table) -> str:
    high, low = pairs.idxmax(), pairs.idxmin()
    most = f"{high[0]} and {high[1]} agree most ({pairs.max():.2f})"
    return f"{most}, {low[0]} and {low[1]} least ({pairs.min():.2f})."


def _by_seeds(table: Table, shares: list[dict[str, float]]) -> str:
    if not _repeated(table):
        return ONE_SEED
    return f"Seeds explain {100 * np.mean([share['seed'] for share in shares]):.0f} % on average."


def _repeated(table: Table) -> bool:
    """Whether any setting has more than one seed."""
    return bool((table.groupby(["setting", "data"])["seed"].nunique() > 1).any())


def _pairs_and_errors(table: Table, scores: list[str]) -> Iterator[Section]:
    score = "mig" if "mig" in scores else scores[0]
    figure = figures.comparisons(table, score)
    if figure is not None:
        pairs = statistics.compare_pairs(table, score)
        significant = int((pairs["p"] < 0.05).sum())
        yield Section(
            "comparisons",
            f"Models compared by {score}",
            f"Differences seed by seed, over all datasets, with 95 % intervals. {significant} of "
            f"{len(pairs)} are significant (filled; Student's test, corrected by Holm).",
            figure,
        )
    errors = [error for error in statistics.ERRORS if error in statistics.score_names(table)]
    if errors:
        ranks = statistics.rank_correlation(table, [errors[0], *scores])[errors[0]].drop(errors[0])
        correlations = ", ".join(f"{s} {value:+.2f}" for s, value in ranks.dropna().items())
        yield Section(
            "trade-off",
            "Reconstruction against scores",
            f"One dot per run. Rank correlation of {errors[0]} with: {correlations or 'none'}.",
            figures.trade_off(table, errors[0], scores),
        )


def _leaders(table: Table, scores: list[str]) -> str:
    """A sentence on the model with the best mean of each score."""
    summary = statistics.summary(table, ["model"], scores)
    leaders: list[str] = []
    for score in scores:
        rows = summary[summary["score"] == score]
        sign = 1 if higher_is_better(score) else -1
        best = rows.loc[(sign * rows["mean"]).idxmax()]
        leaders.append(f"{best['model']} in {score} ({best['mean']:.3f})")
    return f"Boxes are quartiles, lines medians, dots means. Best mean: {', '.join(leaders)}."


def _spread(table: Table, scores: list[str]) -> str:
    """A sentence on the spread between seeds relative to that between settings."""
    dots = "One dot per run; bars are the means of settings."
    if not _repeated(table):
        return f"{dots} {ONE_SEED}"
    means = table.groupby(["setting", "data"])[scores].agg(["mean", "std"])
    ratio = {s: float(means[s]["std"].mean() / max(1e-12, means[s]["mean"].std())) for s in scores}
    ratios = ", ".join(f"{s} {value:.1f}" for s, value in ratio.items() if value == value)
    sentence = f" Spread between seeds divided by spread between settings: {ratios}."
    return dots + sentence if ratios else dots
