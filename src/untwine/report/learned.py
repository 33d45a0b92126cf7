"""What a study has shown and what not, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from untwine.study import statistics
from untwine.study.comparisons import compare_pairs, recommendations
from untwine.study.folder import StudyFolder, failure_reason, runs_by_state
from untwine.study.statistics import Table
from untwine.study.titles import join_names, model_title, score_title, setting_title
from untwine.tools.pages import Section


def what_was_learned(table: Table, scores: Sequence[str]) -> Section:
    """The answers of a study as a list of sentences, those that it does not have included."""
    points = _best(table, scores) if table["setting"].nunique() > 1 else []
    if table["model"].nunique() > 1:
        points += _models(table, scores)
    if statistics.comparison_scores(table):
        points.append(
            "The values of UDR of one setting share runs, so they vary less than independent ones: "
            "read its p values and intervals as a lower limit of the uncertainty."
        )
    points += [sentence for score in scores if (sentence := _unreliable(table, score))]
    if not points:
        points = ["There is one setting, so nothing is compared."]
    return Section("learned", "What was learned", "", points=tuple(points))


def _group(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names by what they have in common: (what, name) pairs."""
    groups: dict[str, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def _best(table: Table, scores: Sequence[str]) -> list[str]:
    """The best setting of each dataset, and whether it is better than the others."""
    sentences: list[str] = []
    for data, group in recommendations(table, scores).groupby("data", sort=False):
        where = f"On {data}, " if table["data"].nunique() > 1 else ""
        outcomes = ((_outcome(row), score_title(row.score)) for row in group.itertuples())
        for outcome, names in sorted(_group(outcomes).items(), key=lambda item: len(item[1]) < 2):
            sentences.append(f"{where}{outcome.format(names=join_names(names))}")
    return sentences


def _outcome(row: Table) -> str:
    """What became of the settings by one score, with a place for the names of scores."""
    if row.setting == "all are equal":
        return "all settings are equal by {names}."
    settings = join_names(list(map(setting_title, str(row.setting).split(" or "))))
    if row.tied != row.tied:
        return f"{settings} came first by {{names}}, with one seed: whether by chance is unknown."
    if not row.tied:
        return f"{settings} is best by {{names}}: all others are significantly worse."
    others = f"{int(row.tied)} other{'s are' if row.tied > 1 else ' is'}"
    return f"{settings} came first by {{names}}, but {others} not significantly worse."


def _models(table: Table, scores: Sequence[str]) -> list[str]:
    """Which models are better than which, and by which scores nothing is decided."""
    won: list[tuple[str, str]] = []
    undecided: list[str] = []
    for score in scores:
        pairs = compare_pairs(table, score)
        decided = pairs[pairs["better"] != ""] if len(pairs) else pairs
        if len(decided):
            won.append((_victories(decided, len(pairs)), score_title(score)))
        elif len(pairs):
            seeds = pairs["needed"].dropna()
            needed = f" ({int(seeds.min()):,} seeds)" if len(seeds) else ""
            undecided.append(f"{score_title(score)}{needed}")
    sentences = [f"By {join_names(names)}, {text}" for text, names in _group(won).items()]
    if undecided:
        sentences.append(
            f"No difference between models is decided by {join_names(undecided)}. In brackets is "
            "about how many seeds the largest would need."
        )
    return sentences


def _victories(decided: Table, pairs: int) -> str:
    """Who is better than whom, and how many pairs are undecided."""
    losers = _group(
        (model_title(r.better), model_title(r.second if r.better == r.first else r.first))
        for r in decided.sort_values("p").itertuples()
    )
    texts = [f"{model} is better than {join_names(others)}" for model, others in losers.items()]
    rest = pairs - len(decided)
    left = f" {rest} of {pairs} pairs {'are' if rest > 1 else 'is'} undecided." if rest else ""
    return f"{'; '.join(texts)}.{left}"


def _unreliable(table: Table, score: str) -> str:
    """In how many runs a score is unreliable."""
    marked = int(statistics.unreliable_runs(table, score).sum())
    runs = f"in {marked} of {len(table)} runs" if marked < len(table) else "in all runs"
    return f"{score_title(score)} is unreliable {runs}: do not rank by it." if marked else ""


def not_finished(folder: StudyFolder) -> str:
    """A sentence on the runs of a study that are missing from its report."""
    if folder.imported:
        return ""
    states = runs_by_state(folder)
    missing = [
        f"{len(jobs)} {state}" for state, jobs in states.items() if jobs and state != "finished"
    ]
    if not missing:
        return ""
    reasons = {failure_reason(job) for job in states.get("failed", [])}
    why = f" Reasons of failures: {'; '.join(sorted(reasons))}." if reasons else ""
    return f"Not in this report: {', '.join(missing)}.{why}"
