"""What a study has shown and what not, in words."""

from __future__ import annotations

from collections.abc import Sequence

from untwine.study import statistics
from untwine.study.comparisons import compare_pairs, recommendations
from untwine.study.folder import StudyFolder, failure_reason, runs_by_state
from untwine.study.statistics import Table
from untwine.study.titles import model_title, score_title, setting_title
from untwine.tools.pages import Section

MAX_PAIRS = 3  # of models that a sentence names


def what_was_learned(table: Table, scores: Sequence[str]) -> Section:
    """The answers of a study as a list of sentences, those that it does not have included."""
    best = recommendations(table, scores)
    points = [_best(row) for row in best.itertuples()] if table["setting"].nunique() > 1 else []
    if table["model"].nunique() > 1:
        points += [sentence for score in scores if (sentence := _models(table, score))]
    if statistics.comparison_scores(table):
        points.append(
            "The values of UDR of one setting share runs, so they vary less than independent ones: "
            "read its p values and intervals as a lower limit of the uncertainty."
        )
    if not points:
        points = ["There is one setting, so nothing is compared."]
    return Section("learned", "What was learned", "", points=tuple(points))


def _best(row: Table) -> str:
    """The best setting by a score, and whether it is better than the others."""
    where = f"By {score_title(row.score)} on {row.data}"
    if row.setting == "all are equal":
        return f"{where}, all settings are equal."
    names = " and ".join(map(setting_title, str(row.setting).split(" or ")))
    if row.tied != row.tied:
        return f"{where}, {names} came first, with one seed: whether by chance is unknown."
    if not row.tied:
        return f"{where}, {names} is best: all others are significantly worse."
    others = f"{int(row.tied)} other{'s are' if row.tied > 1 else ' is'}"
    return f"{where}, {names} came first, but {others} not significantly worse."


def _models(table: Table, score: str) -> str:
    """Which models are better than which by a score."""
    pairs = compare_pairs(table, score)
    if not len(pairs):
        return ""
    won = [
        f"{model_title(r.better)} is better than "
        f"{model_title(r.second if r.better == r.first else r.first)}"
        for r in pairs[pairs["better"] != ""].sort_values("p").itertuples()
    ]
    open_pairs = len(pairs) - len(won)
    named = "; ".join(won[:MAX_PAIRS]) + (
        f"; and {len(won) - MAX_PAIRS} more" * (len(won) > MAX_PAIRS)
    )
    title = score_title(score)
    if not won:
        seeds = pairs["needed"].dropna()
        needed = f"; the largest would need about {int(seeds.min()):,} seeds" if len(seeds) else ""
        return f"{title} decides none of {len(pairs)} differences between models{needed}."
    rest = f" {open_pairs} of {len(pairs)} pairs are undecided." if open_pairs else ""
    return f"By {title}, {named}.{rest}"


def not_finished(folder: StudyFolder) -> str:
    """A sentence on the runs of a study that are missing from its report."""
    if folder.imported:
        return ""
    states = runs_by_state(folder)
    missing = [f"{len(jobs)} {state}" for state, jobs in states.items() if jobs and state != "done"]
    if not missing:
        return ""
    reasons = {failure_reason(job) for job in states.get("failed", [])}
    why = f" Reasons of failures: {'; '.join(sorted(reasons))}." if reasons else ""
    return f"Not in this report: {', '.join(missing)}.{why}"
