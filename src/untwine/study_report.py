"""One HTML page that says what a study found, and its figures as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from untwine import statistics, study_figures
from untwine.errors import DataError
from untwine.pages import Section, render, save_figures
from untwine.results import Folder, results
from untwine.selection import with_udr
from untwine.statistics import Table, higher_is_better, number
from untwine.store import write_bytes

ONE_SEED = "One seed: no uncertainty can be told."


def write_study_report(
    folder: Folder, *, published: Folder | None = None, quiet: bool = True
) -> Path:
    """Write `report/index.html` and `report/figures/` into a study's directory.

    Args:
        folder: the study.
        published: results of others, drawn behind ours where model and score are the same.
        quiet: no progress bar.

    Returns:
        the page
    """
    from matplotlib import rc_context

    table = results(folder)
    table = table if folder.imported else with_udr(folder, table)
    behind = None if published is None else on_same_data(results(published), table)
    with rc_context(study_figures.STYLE):
        shown = save_figures(sections(table, behind), folder.path / "report", quiet=quiet)
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
        published=published_name(published, behind),
        sections=shown,
    )
    file = folder.path / "report" / "index.html"
    write_bytes(file, html)
    return file


def published_name(published: Folder | None, behind: Table | None) -> str:
    """Which published runs are drawn behind ours."""
    if published is None or behind is None:
        return ""
    return f"{published.study.name} on {', '.join(map(str, behind['data'].unique()))}"


def on_same_data(behind: Table, table: Table) -> Table:
    """Published runs on the datasets of ours, by name; drawn sprites count as dSprites.

    Where none is the same, all of them.
    """
    names = {str(name).partition("(")[0] for name in table["data"].unique()}
    names |= {"dsprites"} if "sprites" in names else set()
    same = behind[behind["data"].isin(names)]
    return same if len(same) else behind


def at_same_values(behind: Table, table: Table) -> Table:
    """Published runs at the numbers that our runs of the same model have.

    Where none of a model's is the same, all of them.
    """
    import pandas as pd

    kept: list[Table] = []
    for model, group in behind.groupby("model", sort=False):
        ours = table[table["model"] == model]["value"].map(number).dropna()
        same = group[group["value"].map(number).isin(ours)]
        kept.append(same if len(same) else group)
    return pd.concat(kept) if kept else behind


def sections(table: Table, behind: Table | None) -> Iterator[Section]:
    """All that can be said of a table, the most asked for first."""
    scores = statistics.usual_scores(table)
    if not scores:
        raise DataError("no score differs between the runs, so there is nothing to report")
    yield best_settings(table, scores)
    yield Section(
        "by-model",
        "Scores by model",
        _leaders(table, scores),
        study_figures.by_model(
            table, scores, None if behind is None else at_same_values(behind, table)
        ),
    )
    yield model_table(table, scores)
    if table["data"].nunique() > 1:
        yield by_data(table, scores)
    yield from _by_value(table, scores, behind)
    yield Section(
        "by-seed",
        "Scores by seed",
        _spread(table, scores),
        study_figures.by_seed(table, scores),
    )
    yield from _relations(table, scores)


def best_settings(table: Table, scores: list[str]) -> Section:
    """A table of recommendations, with how sure they are."""
    found = statistics.recommendations(table, scores)
    rows = tuple(
        (
            str(r.data),
            str(r.score),
            str(r.setting),
            f"{r.mean:.3f} [{r.low:.3f}, {r.high:.3f}]" if r.runs > 1 else f"{r.mean:.3f} [–]",
            f"{100 * r.chance:.0f} %" if r.chance == r.chance else "–",
        )
        for r in found.itertuples()
    )
    return Section(
        "recommendations",
        "What to use",
        f"The setting with the best mean for each score, the 95 % interval of that mean, and how "
        f"often it stays the best when seeds are drawn again. {_certainty(found)}",
        header=("data", "score", "best setting", "mean", "stays best"),
        rows=rows,
    )


def _certainty(found: Table) -> str:
    """How many recommendations are sure."""
    chance = found["chance"].dropna()
    if not len(chance):
        some = "Some settings have one seed: how sure the choices are cannot be told."
        return ONE_SEED if found["runs"].max() < 2 else some
    sure = int((chance >= statistics.SURE).sum())
    if sure == len(found):
        return "All choices are sure at 95 %."
    return f"{sure} of {len(found)} choices are sure at 95 %; the others need more seeds."


def model_table(table: Table, scores: list[str]) -> Section:
    found = statistics.summary(table, ["model"], scores)
    models = list(dict.fromkeys(table["model"]))
    cells = {(r.model, r.score): f"{r.mean:.3f}/{r.median:.3f}" for r in found.itertuples()}
    rows = tuple((m, *(cells.get((m, s), "") for s in scores)) for m in models)
    return Section(
        "by-model-table",
        "Mean and median by model",
        "Over all settings, datasets and seeds of a model.",
        header=("model", *scores),
        rows=rows,
    )


def by_data(table: Table, scores: list[str]) -> Section:
    """Scores averaged by dataset and model; only those of which more is better, if there are."""
    scores = [score for score in scores if higher_is_better(score)] or scores[:1]
    grid = statistics.pooled(table, scores).dropna(how="all")
    sign = 1 if higher_is_better(scores[0]) else -1
    best = list((sign * grid).idxmax(axis=1).items())
    leaders = {model for _, model in best}
    told = (
        f"{leaders.pop()} leads on all of them"
        if len(leaders) == 1
        else ("the leader differs: " + ", ".join(f"{model} on {data}" for data, model in best))
    )
    return Section(
        "by-data",
        "Scores by dataset",
        f"The mean of {', '.join(scores)}; {told}.",
        study_figures.by_data(table, scores),
    )


def _by_value(table: Table, scores: list[str], behind: Table | None) -> Iterator[Section]:
    shown = [s for s in ("mig", "dci.disentanglement") if s in scores] or scores[:1]
    shown += [error for error in statistics.ERRORS if error in statistics.score_names(table)][:1]
    for score in shown:
        figure = study_figures.by_value(table, score, behind)
        if figure is not None:
            rises = {m: statistics.slope(g, score) for m, g in table.groupby("model", sort=False)}
            told = [f"{m} {'+' if r > 0 else '−'}{abs(r):.2f}" for m, r in rises.items() if r == r]
            goes = f" Rank correlation between the value and {score}: {', '.join(told)}."
            yield Section(
                f"by-value-{score.replace('.', '-').replace(' ', '-')}",
                f"{score} by parameter value",
                f"Mean and one standard deviation over seeds.{goes if told else ''}",
                figure,
            )


def _relations(table: Table, scores: list[str]) -> Iterator[Section]:
    wide = [*scores, *(["udr"] if "udr" in statistics.score_names(table) else [])]
    if len(wide) > 1:
        found = statistics.rank_correlation(table, wide)
        pairs = found.where(np.triu(np.ones(found.shape), 1) > 0).stack().dropna()
        if len(pairs):
            yield Section(
                "correlation",
                "Do scores agree?",
                f"Spearman's rank correlation over runs, averaged over datasets. {_agree(pairs)}",
                study_figures.correlation(table, wide),
            )
    shares = [share for s in scores if (share := statistics.variance_shares(table, s))]
    if shares:
        yield Section(
            "variance",
            "What explains a score?",
            "Shares of the variance within a dataset: between models, between the settings of a "
            f"model, and between the seeds of a setting. {_by_seeds(table, shares)}",
            study_figures.shares(table, scores),
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
    figure = study_figures.comparisons(table, score)
    if figure is not None:
        found = statistics.paired(table, score)
        sure = int((found["p"] < 0.05).sum())
        yield Section(
            "comparisons",
            f"Models compared by {score}",
            f"Differences on the same data and seed, with 95 % intervals. {sure} of {len(found)} "
            "are beyond chance (filled; Wilcoxon's test, corrected by Holm).",
            figure,
        )
    errors = [error for error in statistics.ERRORS if error in statistics.score_names(table)]
    if errors:
        found = statistics.rank_correlation(table, [errors[0], *scores])[errors[0]].drop(errors[0])
        goes = ", ".join(f"{s} {value:+.2f}" for s, value in found.dropna().items())
        yield Section(
            "trade-off",
            "Reconstruction against scores",
            f"A dot for each run. Rank correlation of {errors[0]} with: {goes or 'none'}.",
            study_figures.trade_off(table, errors[0], scores),
        )


def _leaders(table: Table, scores: list[str]) -> str:
    """Who has the best mean of each score."""
    found = statistics.summary(table, ["model"], scores)
    told: list[str] = []
    for score in scores:
        of = found[found["score"] == score]
        sign = 1 if higher_is_better(score) else -1
        best = of.loc[(sign * of["mean"]).idxmax()]
        told.append(f"{best['model']} in {score} ({best['mean']:.3f})")
    return f"Boxes are quartiles, lines medians, dots means. Best mean: {', '.join(told)}."


def _spread(table: Table, scores: list[str]) -> str:
    """How much seeds matter beside settings."""
    dots = "A dot for each run, a bar for the mean of a setting."
    if not _repeated(table):
        return f"{dots} {ONE_SEED}"
    means = table.groupby(["setting", "data"])[scores].agg(["mean", "std"])
    ratio = {s: float(means[s]["std"].mean() / max(1e-12, means[s]["mean"].std())) for s in scores}
    told = ", ".join(f"{s} {value:.1f}" for s, value in ratio.items() if value == value)
    over = f" The spread between seeds over the spread between settings: {told}."
    return dots + over if told else dots
