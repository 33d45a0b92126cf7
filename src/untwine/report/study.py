"""The report of a study: one HTML page, and its figures as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from untwine.errors import DataError
from untwine.plot import studies as figures
from untwine.report.learned import not_finished, what_was_learned
from untwine.report.published import (
    published_name,
    restrict_to_data,
    restrict_to_values,
    which_values,
)
from untwine.study import statistics
from untwine.study.comparisons import compare_pairs, recommendations
from untwine.study.folder import StudyFolder, as_folder
from untwine.study.statistics import Table, higher_is_better
from untwine.study.summary import caption, cells, decimals, summary_table
from untwine.study.table import results_table
from untwine.study.titles import (
    explain_scores,
    join_names,
    model_title,
    score_title,
    setting_title,
)
from untwine.tools.figures import STYLE
from untwine.tools.files import write_bytes
from untwine.tools.pages import Section, render, save_figures

ONE_SEED = "One seed only, so uncertainty cannot be estimated."
MAX_OPEN_ROWS = 15  # of the table of comparisons, before it is folded


def write_study_report(
    study: StudyFolder | str | Path, *, published: StudyFolder | None = None, quiet: bool = True
) -> Path:
    """Write `report/index.html` and `report/figures/` into a study's directory.

    Args:
        study: the study, or its directory.
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
        about=describe_study(folder, table, published_name(published, published_runs)),
        sections=saved,
    )
    file = folder.path / "report" / "index.html"
    write_bytes(file, html)
    return file


def describe_study(folder: StudyFolder, table: Table, published: str = "") -> list[str]:
    """Sentences on what a study holds, what is missing, and what its scores are called.

    Args:
        folder: of the study.
        table: its results.
        published: the published runs that are drawn behind ours.
    """
    planned = len(folder.study.runs) or len(table)
    of_planned = f" of {planned:,}" if planned != len(table) else ""
    counts = [
        f"{n:,} {what}{'s' if n != 1 else ''}"
        for what in ("model", "setting", "seed")
        if (n := table[what].nunique())
    ]
    on = ", ".join(map(str, table["data"].unique()))
    behind = f"; in grey the published runs of {published}" if published else ""
    abbreviations = explain_scores(statistics.reported_scores(table))
    sentences = [
        folder.study.about,
        f"{len(table):,}{of_planned} runs: {', '.join(counts)}, on {on}{behind}.",
        not_finished(folder),
        f"{abbreviations}." if abbreviations else "",
    ]
    return [sentence for sentence in sentences if sentence]


def sections(table: Table, published: Table | None) -> Iterator[Section]:
    """The sections of the report, most important first."""
    scores = statistics.reported_scores(table)
    if not scores:
        raise DataError("no score differs between the runs, so there is nothing to report")
    yield what_was_learned(table, scores)
    yield best_settings(table, scores)
    yield _by_model(table, scores, published)
    yield score_table(table, scores)
    labelled = statistics.standard_scores(table) or scores
    if table["data"].nunique() > 1:
        yield by_data(table, labelled)
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
    best = recommendations(table, scores)
    digits = {s: decimals(g.rename(columns={"std": "sd"})) for s, g in best.groupby("score")}
    several = table["data"].nunique() > 1
    rows = tuple(
        (
            *([str(r.data)] if several else []),
            figures.marked_title(table, r.score),
            " or ".join(map(setting_title, str(r.setting).split(" or "))),
            _with_deviation(r, digits[r.score]),
            str(r.runs),
            _tied(r),
        )
        for r in best.itertuples()
    )
    header = ("score", "best setting", "mean ± sd [95 % interval]", "n")
    return Section(
        "recommendations",
        "What to use",
        "The setting with the best mean for each score, and the settings that are not "
        "significantly worse: compared seed by seed, with Student's test corrected by Holm. "
        f"{_certainty(best)}",
        header=(*(["data"] if several else []), *header, "not significantly worse"),
        rows=rows,
    )


def _with_deviation(row: Table, digits: int) -> str:
    if row.runs < 2:
        return f"{row.mean:.{digits}f} [–]".replace("-", "−")
    bounds = f"{row.low:.{digits}f}, {row.high:.{digits}f}"
    return f"{row.mean:.{digits}f} ± {row.std:.{digits}f} [{bounds}]".replace("-", "−")


def _tied(row: Table) -> str:
    """The settings that may be as good; long lists are counted."""
    if row.tied != row.tied:
        return "–"
    names = list(map(setting_title, row.others)) or ["none"]
    return ", ".join(names) if len(names) <= 2 else f"{', '.join(names[:2])}, {len(names) - 2} more"


def _certainty(best: Table) -> str:
    """A sentence on how many recommendations are certain."""
    tied = best["tied"].dropna()
    if not len(tied):
        some = "Some settings have only one seed, so the certainty of the choices is unknown."
        return ONE_SEED if best["runs"].max() < 2 else some
    certain = int((tied == 0).sum())
    if certain == len(best):
        return "All choices are certain at 95 %."
    return f"{certain} of {len(best)} choices are certain at 95 %; the others need more seeds."


def _by_model(table: Table, scores: list[str], published: Table | None) -> Section:
    behind, sentence = "", ""
    if published is not None:
        published, others = restrict_to_values(published, table)
        behind = f"published, {which_values(published, others)}, {figures.count_runs(published)}"
        sentence = f" Grey boxes are published runs, {which_values(published, others)}."
    figure = figures.by_model(table, scores, published, behind)
    return Section("by-model", "Scores by model", _leaders(table, scores) + sentence, figure)


def score_table(table: Table, scores: list[str]) -> Section:
    """The table of means and deviations by setting, as `untwine study table` writes it."""
    summary = summary_table(table, scores)
    header, rows, best = cells(summary, "setting")
    return Section(
        "table",
        "Scores by setting",
        f"{caption(summary)} The command untwine study table writes it as CSV, Markdown or LaTeX.",
        header=tuple(header),
        rows=tuple(map(tuple, rows)),
        best=frozenset(best),
    )


def by_data(table: Table, scores: list[str]) -> Section:
    """The section of mean scores by dataset and model; higher-is-better scores if there are any."""
    scores = [score for score in scores if higher_is_better(score)] or scores[:1]
    grid = statistics.mean_by_dataset(table, scores).dropna(how="all")
    sign = 1 if higher_is_better(scores[0]) else -1
    best = list((sign * grid).idxmax(axis=1).items())
    leaders = {model for _, model in best}
    verdict = (
        f"{model_title(leaders.pop())} leads on all of them"
        if len(leaders) == 1
        else "the leader differs: " + ", ".join(f"{model_title(m)} on {data}" for data, m in best)
    )
    return Section(
        "by-data",
        "Scores by dataset",
        f"The mean of {', '.join(map(score_title, scores))}; {verdict}.",
        figures.by_data(table, scores),
    )


def _by_value(table: Table, scores: list[str], published: Table | None) -> Iterator[Section]:
    for score in scores:
        figure = figures.by_value(table, score, published)
        if figure is not None:
            rises = {m: statistics.slope(g, score) for m, g in table.groupby("model", sort=False)}
            slopes = [f"{model_title(m)} {_signed(r)}" for m, r in rises.items() if r == r]
            title = score_title(score)
            trend = f" Rank correlation between the value and {title}: {', '.join(slopes)}."
            yield Section(
                f"by-value-{score.replace('.', '-').replace(' ', '-')}",
                f"{title} by parameter value",
                f"Mean and one standard deviation over seeds.{trend if slopes else ''}",
                figure,
            )


def _relations(table: Table, scores: list[str]) -> Iterator[Section]:
    if len(scores) > 1:
        ranks = statistics.rank_correlation(table, scores)
        pairs = ranks.where(np.triu(np.ones(ranks.shape), 1) > 0).stack().dropna()
        if len(pairs):
            yield Section(
                "correlation",
                "Do scores agree?",
                f"Spearman's rank correlation over runs, averaged over datasets. {_agree(pairs)}",
                figures.correlation(table, scores),
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
    names = [score_title(name) for name in (*high, *low)]
    most = f"{names[0]} and {names[1]} agree {'most ' if len(pairs) > 1 else ''}"
    if len(pairs) < 2:
        return f"{most}with {_signed(pairs.max())}."
    return (
        f"{most}({_signed(pairs.max())}), {names[2]} and {names[3]} least ({_signed(pairs.min())})."
    )


def _signed(value: float) -> str:
    """A correlation with its sign: +0.50, −0.50."""
    return f"{'+' if value > 0 else '−'}{abs(value):.2f}"


def _by_seeds(table: Table, shares: list[dict[str, float]]) -> str:
    if not _repeated(table):
        return ONE_SEED
    return f"Seeds explain {100 * np.mean([share['seed'] for share in shares]):.0f} % on average."


def _repeated(table: Table) -> bool:
    """Whether any setting has more than one seed."""
    return bool((table.groupby(["setting", "data"])["seed"].nunique() > 1).any())


def _pairs_and_errors(table: Table, scores: list[str]) -> Iterator[Section]:
    figure = figures.comparisons(table, scores)
    if figure is not None:
        yield Section(
            "comparisons",
            "Models compared",
            "Differences between the means of models, seed by seed, over all their settings and "
            "datasets. Filled dots are significant. For each score, intervals and p values are "
            "corrected by Holm for the number of pairs, so an interval that excludes zero is a "
            f"filled dot. {_decided(table, scores)}",
            figure,
        )
        yield comparison_table(table, scores)
    errors = [error for error in statistics.ERRORS if error in scores]
    others = [score for score in scores if score not in errors]
    if errors and others:
        ranks = statistics.rank_correlation(table, [errors[0], *others])[errors[0]].drop(errors[0])
        named = [f"{score_title(s)} {_signed(value)}" for s, value in ranks.dropna().items()]
        title = score_title(errors[0])
        yield Section(
            "trade-off",
            "Reconstruction against scores",
            f"One dot per run. Rank correlation of {title} with: {', '.join(named) or 'none'}.",
            figures.trade_off(table, errors[0], others),
        )


def comparison_table(table: Table, scores: list[str]) -> Section:
    """Every comparison of two models: difference, interval, effect size, p value and decision."""
    rows: list[tuple[str, ...]] = []
    for score in scores:
        for r in compare_pairs(table, score).itertuples():
            size = max(abs(r.difference), r.high - r.low)
            digits = max(0, min(6, 2 - int(np.floor(np.log10(size))))) if size else 3
            numbers = (f"{v:.{digits}f}".replace("-", "−") for v in (r.difference, r.low, r.high))
            difference, low, high = numbers
            needed = (
                f"undecided; about {r.needed:,} seeds would decide" if r.needed else "undecided"
            )
            rows.append(
                (
                    figures.marked_title(table, score),
                    f"{model_title(r.first)} − {model_title(r.second)}",
                    difference,
                    f"[{low}, {high}]",
                    f"{r.effect:.1f}".replace("-", "−") if r.effect == r.effect else "–",
                    "< 0.001" if r.p < 0.001 else f"{r.p:.3f}",
                    str(r.pairs),
                    f"{model_title(r.better)} is better" if r.better else needed,
                )
            )
    header = ("score", "pair", "difference", "interval", "effect", "p", "seeds", "decision")
    return Section(
        "comparison-table",
        "Comparisons in numbers",
        "The effect is the difference in standard deviations over seeds. Intervals and p values "
        "are corrected as above. Seeds that would decide are for a chance of 90 %, if mean and "
        "spread stay as they are.",
        header=header,
        rows=tuple(rows),
        folded=len(rows) > MAX_OPEN_ROWS,
    )


def _decided(table: Table, scores: list[str]) -> str:
    """How many differences of each score are significant."""
    pairs = {score: compare_pairs(table, score) for score in scores}
    counts = [
        f"{score_title(score)} {int((p['better'] != '').sum())} of {len(p)}"
        for score, p in pairs.items()
        if len(p)
    ]
    return f"Significant pairs: {', '.join(counts)}."


def _leaders(table: Table, scores: list[str]) -> str:
    """A sentence on the model with the best mean of each score."""
    summary = statistics.summary(table, ["model"], scores)
    leaders: dict[str, list[str]] = {}
    for score in scores:
        rows = summary[summary["score"] == score]
        sign = 1 if higher_is_better(score) else -1
        best = rows.loc[(sign * rows["mean"]).idxmax()]
        leaders.setdefault(model_title(best["model"]), []).append(score_title(score))
    named = "; ".join(f"{model} by {join_names(names)}" for model, names in leaders.items())
    return f"Boxes are quartiles, lines medians, dots means. Best mean: {named}."


def _spread(table: Table, scores: list[str]) -> str:
    """A sentence on the spread between seeds relative to that between settings."""
    dots = "Dots are runs, bars the means of settings."
    if not _repeated(table):
        return f"{dots} {ONE_SEED}"
    means = table.groupby(["setting", "data"])[scores].agg(["mean", "std"])
    ratio = {s: float(means[s]["std"].mean() / max(1e-12, means[s]["mean"].std())) for s in scores}
    ratios = ", ".join(
        f"{score_title(s)} {value:.1f}" for s, value in ratio.items() if value == value
    )
    sentence = f" Spread between seeds divided by spread between settings: {ratios}."
    return dots + sentence if ratios else dots
