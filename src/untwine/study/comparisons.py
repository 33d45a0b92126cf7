"""Which model or setting is better, by the rules of `inference`: seed by seed, with corrections."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from untwine.study.file import Study
from untwine.study.inference import (
    CONFIDENCE,
    POWER,
    Values,
    holm,
    holm_levels,
    interval,
    p_value,
    seeds_needed,
    visible_effect,
)
from untwine.study.statistics import Table, higher_is_better, mean_by_seed, summarise, table_of

BEST, TIED = "best", "tied"  # the best mean, and means that are not significantly worse
N_MORE_SEEDS = 10  # for which `study plan` says what they would show, too


def compare_pairs(table: Table, score: str, *, of: str = "model") -> Table:
    """Every two models compared seed by seed, each by the mean of its settings and datasets.

    Args:
        table: of runs.
        score: the column to compare.
        of: the column that names what is compared.

    Returns:
        a row for each pair: the mean `difference` with its interval (`low`, `high`), `effect`, the
        difference in standard deviations over seeds, `p`, the number of seeds (`pairs`), the
        `better` of the two if that is decided, and the seeds `needed` if not. Intervals and p
        values are corrected by Holm for the number of pairs.
    """
    means = table.groupby([of, "data", "seed"])[score].mean().unstack(of)
    named = itertools.combinations(means.columns, 2)
    gaps = {
        (str(first), str(second)): gap
        for first, second in named
        if len(gap := mean_by_seed(means[first] - means[second])) > 1
    }
    sign = 1 if higher_is_better(score) else -1
    rows: list[dict[str, Any]] = []
    for (first, second), decision in zip(gaps, _decisions(list(gaps.values())), strict=True):
        better = first if sign * decision["difference"] > 0 else second
        decided = decision["p"] < 1 - CONFIDENCE
        rows.append(
            {"first": first, "second": second, **decision, "better": better if decided else ""}
        )
    return table_of(rows)


def _decisions(gaps: list[Values]) -> list[dict[str, Any]]:
    """The mean, interval, p value and effect of each difference, corrected for their number."""
    p = np.array([p_value(gap) for gap in gaps])
    rows: list[dict[str, Any]] = []
    for gap, corrected, level in zip(gaps, holm(p), holm_levels(p), strict=True):
        low, high = interval(gap, 1 - level)
        spread = float(gap.std(ddof=1))
        rows.append(
            {
                "difference": float(gap.mean()),
                "low": low,
                "high": high,
                "p": float(corrected),
                "effect": float(gap.mean()) / spread if spread else float("nan"),
                "pairs": len(gap),
                "needed": None if corrected < 1 - CONFIDENCE else seeds_needed(gap, level),
            }
        )
    return rows


def standings(table: Table, score: str, *, of: str = "setting") -> Table:
    """A row for each setting of a dataset: mean, deviation, interval, and whether it is the best.

    Each seed counts once, with its mean over the runs of a setting. `rank` is `best` for the best
    mean and `tied` for those that are not significantly worse, by the difference to the best seed
    by seed, corrected by Holm for their number; `p` is of that difference. Where a setting has no
    two seeds in common with the best, its rank is empty and its p NaN.
    """
    sign = 1 if higher_is_better(score) else -1
    rows: list[dict[str, Any]] = []
    for data, group in table.dropna(subset=[score]).groupby("data", sort=False):
        seeds = group.groupby([of, "seed"], sort=False)[score].mean().unstack(of)
        seeds = seeds[list(dict.fromkeys(group[of]))]
        best = str((sign * seeds.mean()).idxmax())
        gaps = {str(o): (seeds[best] - seeds[o]).dropna().to_numpy(float) for o in seeds.columns}
        ranks = _ranks(gaps, best)
        for other in seeds.columns:
            values = seeds[other].dropna().to_numpy(float)
            p, rank = ranks[str(other)]
            named = {"data": str(data), of: str(other), "score": score}
            sd = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
            rows.append({**named, **summarise(values), "std": sd, "p": p, "rank": rank})
    return table_of(rows)


def _ranks(gaps: dict[str, Values], best: str) -> dict[str, tuple[float, str]]:
    """The p value and the rank of each setting, from its differences to the best."""
    ranks = {name: (float("nan"), "") for name in gaps}
    names = [name for name, gap in gaps.items() if name != best and len(gap) > 1]
    p = holm(np.array([p_value(gaps[name]) for name in names]))
    for name, value in zip(names, p, strict=True):
        ranks[name] = (float(value), TIED if value >= 1 - CONFIDENCE else "")
    for name, gap in gaps.items():
        if name == best or (len(gap) and not gap.any()):  # equal throughout
            ranks[name] = (float("nan"), BEST)
    return ranks


def recommendations(table: Table, scores: Sequence[str]) -> Table:
    """For each dataset and score the setting with the best mean, and those that are tied with it.

    `tied` is their number; NaN where a setting has one seed or all are equal. Settings that are
    equally good are all named.
    """
    rows: list[dict[str, Any]] = []
    for score in scores:
        for data, group in standings(table, score).groupby("data", sort=False):
            best = group[group["rank"] == BEST]
            tied = list(group[group["rank"] == TIED]["setting"])
            equal = len(best) == len(group) > 1
            can_tie = len(group) > 1 and not equal and group["runs"].min() > 1
            rows.append(
                {
                    "data": data,
                    "score": score,
                    "setting": "all are equal" if equal else " or ".join(best["setting"]),
                    **{k: best.iloc[0][k] for k in ("mean", "std", "low", "high", "runs")},
                    "tied": len(tied) if can_tie else float("nan"),
                    "others": tied,
                }
            )
    return table_of(rows).sort_values("data", kind="stable", key=_order_of_appearance)


def _order_of_appearance(column: Table) -> Table:
    return column.map({name: k for k, name in enumerate(dict.fromkeys(column))})


def power_sentence(study: Study) -> str:
    """What differences between its models a study will be able to see."""
    seeds: dict[str, set[int]] = {}
    for run in study.runs:
        seeds.setdefault(run.model_name, set()).add(run.seed)
    models, n = len(seeds), len(set[int].intersection(*seeds.values())) if seeds else 0
    if models < 2:
        return ""
    pairs = models * (models - 1) // 2
    level = (1 - CONFIDENCE) / pairs
    compared = f"{models} models, compared in {pairs} pair{'s' if pairs > 1 else ''}"
    larger = max(N_MORE_SEEDS, 2 * n)
    more = f"{larger} seeds would show {visible_effect(larger, level):.1f}"
    if n < 2:
        shared = "one seed" if n else "no seed in common"
        return f"{compared}: with {shared} no difference between models can be decided; {more}"
    return (
        f"{compared}: {n} seeds will show differences of {visible_effect(n, level):.1f} standard "
        f"deviations over seeds or more, with a chance of {100 * POWER:.0f} %; {more}"
    )
