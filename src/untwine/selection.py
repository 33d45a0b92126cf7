"""Which model to use: by a score, or without any labels by how much the seeds agree."""

from __future__ import annotations

import numpy as np

from untwine.errors import DataError, UnknownNameError
from untwine.metrics.udr import udr_scores
from untwine.registry import metrics
from untwine.results import Folder, results
from untwine.schema import unknown
from untwine.statistics import DESCRIPTION, Table, score_names, usual_scores

SHOWN = 10  # settings


def with_udr(folder: Folder, table: Table) -> Table:
    """The table with a column `udr`, where the codes of at least two seeds of a setting are kept.

    A model's UDR compares it with the other seeds of its setting, on the same examples.
    """
    table = table.assign(udr=np.nan)
    for _, group in table.groupby(["setting", "data"]):
        files = [folder.runs / str(run) / "codes.npz" for run in group["run"]]
        there = [position for position, file in enumerate(files) if file.exists()]
        if len(there) < 2:
            continue
        kept = [np.load(files[position], allow_pickle=False) for position in there]
        scores = udr_scores([k["codes"] for k in kept], [k["kl"] for k in kept])
        table.loc[group.index[there], "udr"] = scores
    return table


def best_runs(folder: Folder, by: str) -> tuple[list[str], list[list[str]], str]:
    """Header and rows of the best settings, each with its best run, and a sentence about it."""
    table = results(folder)
    if not folder.imported:
        table = with_udr(folder, table)
    if by not in table or by in DESCRIPTION or table[by].isna().all():
        raise _no_score(folder, table, by)
    sign = 1 if higher_is_better(by) else -1
    rows: list[list[str]] = []
    for (setting, data), group in table.groupby(["setting", "data"]):
        group = group.dropna(subset=[by])
        if len(group):
            first = group.loc[(sign * group[by]).idxmax()]
            mean, most = group[by].mean(), first[by]
            rows.append([str(setting), str(data), f"{mean:.4f}", f"{most:.4f}", str(first["run"])])
    rows.sort(key=lambda row: (row[1], -sign * float(row[2])))
    header = ["setting", "data", f"mean {by}", f"best {by}", "best run"]
    return header, rows[:SHOWN], _sentence(table, by, rows[0])


def higher_is_better(score: str) -> bool:
    """Whether more of a score is better; of one that no metric here gives, yes."""
    name = score.partition(".")[0].partition("[")[0]
    return bool(metrics[name].facts["higher_is_better"]) if name in metrics else True


def _no_score(folder: Folder, table: Table, by: str) -> Exception:
    if by == "udr":
        return DataError(
            f"{folder.study.name} keeps no codes of two seeds of a setting; put udr among its "
            "metrics and run it again, or choose --by a score"
        )
    return UnknownNameError(unknown("score of this study", by, score_names(table)))


def _sentence(table: Table, by: str, first: list[str]) -> str:
    """The choice in words, and for UDR how it goes with the scores that need labels."""
    told = f"use {first[4]}: {first[0]} has the best mean {by} on {first[1]}"
    if by != "udr":
        return told
    means = table.groupby(["setting", "data"]).mean(numeric_only=True)
    goes = [
        f"{score} {means['udr'].corr(means[score], method='spearman'):+.2f}"
        for score in usual_scores(table)
        if score != "udr" and len(means) > 2
    ]
    return f"{told}; rank correlation of UDR with: {', '.join(goes)}" if goes else told
