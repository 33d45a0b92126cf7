"""The table of a paper: mean ± standard deviation of every score, the best marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from untwine.errors import DataError, ParameterError
from untwine.study.comparisons import BEST, TIED, standings
from untwine.study.statistics import Table, reported_scores, table_of, unreliable_runs
from untwine.study.titles import score_title, setting_title

Form = Literal["csv", "markdown", "latex"]
COLUMNS = ("mean", "sd", "n", "low", "high", "p", "rank", "unreliable")
TIED_MARK, UNRELIABLE_MARK = "†", "‡"
CAPTION = (
    "Mean ± standard deviation over n seeds. The best mean is bold; † marks means that are not "
    "significantly worse (seed by seed, Student's test, corrected by Holm)."
)
UNRELIABLE_CAPTION = "‡ marks means of scores that are unreliable in some runs."
LATEX_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {"†": r"$^\dagger$", "±": r"$\pm$", "–": "--"}
LATEX_SPECIAL |= {
    "‡": r"$^\ddagger$",
    "−": "$-$",
    "β": r"$\beta$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def summary_table(table: Table, scores: Sequence[str] = (), *, by: str = "setting") -> Table:
    """A row for each dataset, setting (or model) and score: mean, deviation, n, interval, rank.

    `unreliable` is the number of runs in which the score is marked as unreliable.

    Args:
        table: of runs.
        scores: to summarise; by default all that a report shows.
        by: `setting` or `model`.
    """
    if by not in ("setting", "model"):
        raise ParameterError(f"a study is summarised by setting or model, not {by!r}")
    scores = list(scores) or reported_scores(table)
    if not scores:
        raise DataError("no score differs between the runs, so there is nothing to tabulate")
    rows: list[dict[str, object]] = []
    for score in scores:
        marked = table[unreliable_runs(table, score)].groupby(["data", by]).size()
        for row in standings(table, score, of=by).to_dict("records"):
            named = {"data": row["data"], by: row[by], "score": score, "sd": row["std"]}
            count = int(marked.get((row["data"], row[by]), 0))
            rows.append({**row, **named, "n": row["runs"], "unreliable": count})
    return table_of(rows)[["data", by, "score", *COLUMNS]]


def cells(summary: Table, by: str) -> tuple[list[str], list[list[str]], set[tuple[int, int]]]:
    """A table of `mean ± sd`: its header, its rows, and the positions of the best cells."""
    scores = list(dict.fromkeys(summary["score"]))
    digits = {score: decimals(group) for score, group in summary.groupby("score")}
    several = summary["data"].nunique() > 1
    rows: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for (data, name), group in summary.groupby(["data", by], sort=False):
        named = [data, setting_title(str(name))] if several else [setting_title(str(name))]
        by_score = {row.score: row for row in group.itertuples()}
        numbers = sorted({row.n for row in by_score.values()})
        row = [*map(str, named), "–".join(str(n) for n in {numbers[0]: 0, numbers[-1]: 0})]
        for score in scores:
            cell = by_score.get(score)
            if cell is not None and cell.rank == BEST:
                best.add((len(rows), len(row)))
            row.append("" if cell is None else _cell(cell, digits[score]))
        rows.append(row)
    first = ["data", by] if several else [by]
    return [*first, "n", *map(score_title, scores)], rows, best


def decimals(summary: Table) -> int:
    """Decimals that show two digits of the typical standard deviation."""
    deviations = summary["sd"][summary["sd"] > 0].dropna()
    size = float(np.median(deviations)) if len(deviations) else 0.01
    return max(0, min(6, 1 - math.floor(math.log10(size))))


def _cell(row: Table, digits: int) -> str:
    mark = TIED_MARK * (row.rank == TIED) + UNRELIABLE_MARK * (row.unreliable > 0)
    deviation = f" ± {row.sd:.{digits}f}" if row.n > 1 else ""
    return f"{row.mean:.{digits}f}{deviation}{mark}".replace("-", "−")


def caption(summary: Table) -> str:
    """What the marks of a summary mean."""
    return f"{CAPTION} {UNRELIABLE_CAPTION}" if summary["unreliable"].any() else CAPTION


def format_summary(summary: Table, form: Form, *, by: str = "setting") -> str:
    """A summary as CSV (a row for each mean), Markdown or LaTeX (a column for each score)."""
    if form == "csv":
        from untwine.tools.tables import format_csv

        return format_csv(summary)
    header, rows, best = cells(summary, by)
    return (_markdown if form == "markdown" else _latex)(header, rows, best, caption(summary))


def _markdown(
    header: list[str], rows: list[list[str]], best: set[tuple[int, int]], below: str
) -> str:
    first = header.index("n")
    lines = [header, ["---"] * first + ["---:"] * (len(header) - first)]
    lines += [
        [
            f"**{cell}**" if (r, c) in best else cell.replace("|", "\\|")
            for c, cell in enumerate(row)
        ]
        for r, row in enumerate(rows)
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{below}\n"


def _latex(header: list[str], rows: list[list[str]], best: set[tuple[int, int]], below: str) -> str:
    def bold(r: int, c: int, cell: str) -> str:
        return rf"\textbf{{{escape_latex(cell)}}}" if (r, c) in best else escape_latex(cell)

    first = header.index("n")
    body = [
        " & ".join(bold(r, c, cell) for c, cell in enumerate(row)) + r" \\"
        for r, row in enumerate(rows)
    ]
    columns = "l" * first + "r" * (len(header) - first)
    return "\n".join(
        [
            f"% needs \\usepackage{{booktabs}}. {below}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(escape_latex, header)) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def escape_latex(text: str) -> str:
    """Text in which LaTeX sees no command.

    >>> escape_latex("50 % of a_b ± 1†")
    '50 \\\\% of a\\\\_b $\\\\pm$ 1$^\\\\dagger$'
    """
    return "".join(LATEX_SPECIAL.get(c, c) for c in text.replace("\\", "/"))
