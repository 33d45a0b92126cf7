"""Which model to use: by a score, or without any labels by how much the seeds agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from untwine.errors import DataError, UnknownNameError
from untwine.registry import metrics
from untwine.schema import unknown_name
from untwine.study.folder import StudyFolder, as_folder
from untwine.study.job import compares_runs
from untwine.study.statistics import (
    DESCRIPTION,
    Table,
    higher_is_better,
    rank_correlation,
    score_names,
    standard_scores,
)
from untwine.study.table import results_table

MAX_RECOMMENDED = 5  # settings of each dataset


def best_runs(folder: StudyFolder, by: str) -> tuple[list[str], list[list[str]], str]:
    """Header and rows of each dataset's best settings with their best runs, and what to use.

    Without a score, by the one that needs no labels.
    """
    table, by = results_table(folder), by or label_free_score()
    absent = by not in table or by in DESCRIPTION
    if absent or table[by].dtype.kind not in "if" or table[by].isna().all():
        raise _no_score(folder, table, by)
    sign = 1 if higher_is_better(by) else -1
    rows: list[list[str]] = []
    advice: list[str] = []
    for data, group in table.dropna(subset=[by]).groupby("data", sort=False):
        means = group.groupby("setting", sort=False)[by].mean()
        means = means.sort_values(ascending=sign < 0, kind="stable")
        for setting, mean in means.head(MAX_RECOMMENDED).items():
            of = group[group["setting"] == setting]
            first = of.loc[(sign * of[by]).idxmax()]
            best = f"{first[by]:.4g}"
            rows.append([str(setting), str(data), f"{mean:.4g}", best, str(first["run"])])
        advice.append(_advise(means, by, rows[-min(MAX_RECOMMENDED, len(means))]))
    header = ["setting", "data", f"mean {by}", f"best {by}", "best run"]
    return header, rows, "\n".join([*advice, *_agreement(table, by)])


def best(study: StudyFolder | str | Path, by: str = "") -> Table:
    """The best settings of each dataset with their best runs, best first.

    Args:
        study: its folder, or the path or name of that.
        by: a score; by default the one that needs no labels.
    """
    import pandas as pd

    header, rows, _ = best_runs(as_folder(study), by)
    return pd.DataFrame(rows, columns=header)


def label_free_score() -> str:
    """The metric that compares runs, and so needs no labels."""
    return next(name for name in metrics if compares_runs(name))


def _advise(means: Table, by: str, first: list[str]) -> str:
    """Which setting of a dataset to use, in words."""
    equal = means.index[np.isclose(means, means.iloc[0], rtol=1e-9, atol=0)]
    if len(equal) == len(means) > 1:
        return f"all {len(means)} settings have the same mean {by} on {first[1]}: it tells nothing"
    if len(equal) > 1:
        return f"use {' or '.join(map(str, equal))}: they share the best mean {by} on {first[1]}"
    return f"use {first[4]}: {first[0]} has the best mean {by} on {first[1]}"


def _no_score(folder: StudyFolder, table: Table, by: str) -> Exception:
    if by in metrics and compares_runs(by):
        return DataError(
            f"{folder.study.name} has no codes of two seeds of a setting; put {by} among its "
            "metrics and run it again, or choose a score with --by"
        )
    return UnknownNameError(unknown_name("score of this study", by, score_names(table)))


def _agreement(table: Table, by: str) -> list[str]:
    """How a score without labels correlates with those that need them."""
    means = table.groupby(["setting", "data"]).mean(numeric_only=True).reset_index()
    if by not in metrics or not compares_runs(by) or means.groupby("data").size().max() < 3:
        return []
    correlations = {s: rank_correlation(means, [by, s]).iloc[0, 1] for s in standard_scores(table)}
    texts = [f"{score} {value:+.2f}" for score, value in correlations.items() if value == value]
    return [f"rank correlation of {by.upper()} with: {', '.join(texts)}"] if texts else []
