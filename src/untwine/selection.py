"""Which model to use: by a score, or without any labels by how much the seeds agree."""

from __future__ import annotations

import numpy as np

from untwine.errors import DataError, UnknownNameError
from untwine.jobs import has_codes
from untwine.metrics.udr import udr_scores
from untwine.results import Folder, results
from untwine.schema import unknown
from untwine.statistics import (
    DESCRIPTION,
    Table,
    higher_is_better,
    rank_correlation,
    score_names,
    usual_scores,
)

SHOWN = 5  # settings of each dataset


def with_udr(folder: Folder, table: Table) -> Table:
    """The table with a column `udr`, where the codes of at least two seeds of a setting are kept.

    A model's UDR compares it with the other seeds of its setting, on the same examples.
    """
    table = table.assign(udr=np.nan)
    for _, group in table.groupby(["setting", "data"]):
        files = [folder.runs / str(run) / "codes.npz" for run in group["run"]]
        there = [position for position, file in enumerate(files) if has_codes(file.parent)]
        if len(there) < 2:
            continue
        kept = [np.load(files[position], allow_pickle=False) for position in there]
        scores = udr_scores([k["codes"] for k in kept], [k["kl"] for k in kept])
        table.loc[group.index[there], "udr"] = scores
    return table


def best_runs(folder: Folder, by: str) -> tuple[list[str], list[list[str]], str]:
    """Header and rows of each dataset's best settings with their best runs, and what to use."""
    table = results(folder)
    if not folder.imported:
        table = with_udr(folder, table)
    if by not in table or by in DESCRIPTION or table[by].isna().all():
        raise _no_score(folder, table, by)
    sign = 1 if higher_is_better(by) else -1
    rows: list[list[str]] = []
    told: list[str] = []
    for data, group in table.dropna(subset=[by]).groupby("data", sort=False):
        means = group.groupby("setting", sort=False)[by].mean()
        means = means.sort_values(ascending=sign < 0, kind="stable")
        for setting, mean in means.head(SHOWN).items():
            of = group[group["setting"] == setting]
            first = of.loc[(sign * of[by]).idxmax()]
            best = f"{first[by]:.4g}"
            rows.append([str(setting), str(data), f"{mean:.4g}", best, str(first["run"])])
        told.append(_choice(means, by, rows[-min(SHOWN, len(means))]))
    header = ["setting", "data", f"mean {by}", f"best {by}", "best run"]
    return header, rows, "\n".join([*told, *_agreement(table, by)])


def _choice(means: Table, by: str, first: list[str]) -> str:
    """Which setting of a dataset to use, in words."""
    equal = means.index[np.isclose(means, means.iloc[0], rtol=1e-9, atol=0)]
    if len(equal) == len(means) > 1:
        return f"all {len(means)} settings have the same mean {by} on {first[1]}: it tells nothing"
    if len(equal) > 1:
        return f"use {' or '.join(map(str, equal))}: they share the best mean {by} on {first[1]}"
    return f"use {first[4]}: {first[0]} has the best mean {by} on {first[1]}"


def _no_score(folder: Folder, table: Table, by: str) -> Exception:
    if by == "udr":
        return DataError(
            f"{folder.study.name} keeps no codes of two seeds of a setting; put udr among its "
            "metrics and run it again, or choose --by a score"
        )
    return UnknownNameError(unknown("score of this study", by, score_names(table)))


def _agreement(table: Table, by: str) -> list[str]:
    """How UDR goes with the scores that need labels, where it goes with any."""
    means = table.groupby(["setting", "data"]).mean(numeric_only=True).reset_index()
    if by != "udr" or means.groupby("data").size().max() < 3:
        return []
    found = {s: rank_correlation(means, ["udr", s]).iloc[0, 1] for s in usual_scores(table)}
    goes = [f"{score} {value:+.2f}" for score, value in found.items() if value == value]
    return [f"rank correlation of UDR with: {', '.join(goes)}"] if goes else []
