"""Compositions of parts from several papers, compared with their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from untwine.reproduce.evidence import Evidence
from untwine.reproduce.exhibits.tables import MISSING
from untwine.reproduce.registry import exhibit
from untwine.study.inference import interval as mean_interval
from untwine.study.statistics import Table, higher_is_better
from untwine.tools.figures import panels
from untwine.tools.pages import Section, file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Interval = tuple[float, float, float]  # mean, low, high
Gaps = dict[tuple[str, str], dict[str, Interval]]  # (composition, part): score: improvement


@exhibit
def against_parts(evidence: Evidence, *, study: str, scores: Sequence[str]) -> Iterator[Section]:
    """The improvement of each composition over its parts, on the same seeds."""
    table = evidence.table(study)
    names = [score for score in scores if score in table]
    improvements = gaps(table, names)
    rows = [
        (composed, part, *(_cell(by_score.get(score)) for score in names))
        for (composed, part), by_score in improvements.items()
    ]
    yield Section(
        file_name("against-parts", study),
        f"Compositions against their parts, {study}",
        f"On {evidence.heading(study)}. Improvement of the composition: the mean difference on the "
        "same seed with its 95 % interval. A star: the interval excludes zero. "
        f"{summarise_gaps(improvements)}",
        header=("composition", "against", *names),
        rows=tuple(rows),
    )
    yield Section(
        file_name("gaps", study),
        f"Improvement over the parts, {study}",
        "Right of the line the composition is better. Filled: the interval excludes zero.",
        _gap_figure(improvements, names),
    )


def gaps(table: Table, scores: Sequence[str]) -> Gaps:
    """Return the improvement of each composition over those of its parts that the study has."""
    means = {m: g.groupby(["data", "seed"])[list(scores)].mean() for m, g in table.groupby("model")}
    intervals: Gaps = {}
    for composed in dict.fromkeys(table["model"]):
        for part in composed.split("+") if "+" in composed else ():
            if part in means:
                difference = means[composed] - means[part]
                intervals[composed, part] = {
                    s: interval for s in scores if (interval := _gap_interval(difference, s))
                }
    return intervals


def _gap_interval(difference: Table, score: str) -> Interval | None:
    values = difference[score].dropna().to_numpy(float)
    values = values if higher_is_better(score) else -values
    return (float(values.mean()), *mean_interval(values)) if len(values) > 1 else None


def summarise_gaps(improvements: Gaps) -> str:
    """Name the compositions that beat each of their parts significantly, for each score."""
    better = [
        f"{composed} in {score}"
        for composed in dict.fromkeys(composed for composed, _ in improvements)
        for score in dict.fromkeys(s for by_score in improvements.values() for s in by_score)
        if all(
            by_score.get(score, (0.0, -1.0, 0.0))[1] > 0
            for (name, _), by_score in improvements.items()
            if name == composed
        )
    ]
    if not better:
        return "None is better than each of its parts in the study."
    return f"Better than each of its parts in the study: {', '.join(better)}."


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return MISSING
    mean, low, high = interval
    star = " *" if low > 0 or high < 0 else ""
    return f"{mean:+.3g} [{low:+.2g}, {high:+.2g}]{star}"


def _gap_figure(improvements: Gaps, scores: Sequence[str]) -> Figure:
    """Draw a panel for each score with the interval of each improvement."""
    names = [f"{composed} − {part}" for composed, part in improvements]
    figure, axes = panels(len(scores), width=3.4, height=0.3 * len(names) + 1.2)
    for position, (axis, score) in enumerate(zip(axes, scores, strict=True)):
        for row, by_score in enumerate(improvements.values()):
            mean, low, high = by_score.get(score, (np.nan, np.nan, np.nan))
            axis.plot([low, high], [row, row], color="C0")
            significant = low > 0 or high < 0
            axis.plot(mean, row, "o", color="C0", mfc="C0" if significant else "white")
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks(
            range(len(names)), names if position % 3 == 0 else [""] * len(names), fontsize=7
        )
        axis.invert_yaxis()
        axis.locator_params(axis="x", nbins=4)
        axis.set_title(score)
    return figure
