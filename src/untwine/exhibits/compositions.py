"""Models made of parts of several papers, beside each of the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from untwine import study_figures
from untwine.claims import mean_interval
from untwine.evidence import Evidence
from untwine.exhibits import exhibit
from untwine.exhibits.tables import MISSING
from untwine.pages import Section, file_name
from untwine.statistics import Table, higher_is_better

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Interval = tuple[float, float, float]  # mean, low, high
Gaps = dict[tuple[str, str], dict[str, Interval]]  # (composition, part): score: how much better


@exhibit
def against_parts(evidence: Evidence, *, study: str, scores: Sequence[str]) -> Iterator[Section]:
    """How much better a composition is than each of its parts, on the same seeds."""
    table = evidence.table(study)
    there = [score for score in scores if score in table]
    found = gaps(table, there)
    rows = [
        (composed, part, *(_cell(by_score.get(score)) for score in there))
        for (composed, part), by_score in found.items()
    ]
    yield Section(
        file_name("against-parts", study),
        f"Compositions against their parts, {study}",
        f"On {evidence.heading(study)}. How much better the composition is, as the mean difference "
        f"on the same seed with its 95 % interval; a star where that excludes zero. {told(found)}",
        header=("composition", "against", *there),
        rows=tuple(rows),
    )
    yield Section(
        file_name("gaps", study),
        f"The same in a figure, {study}",
        "To the right of the line the composition is better; filled where that is beyond chance.",
        _figure(found, there),
    )


def gaps(table: Table, scores: Sequence[str]) -> Gaps:
    """Differences of every composition to those of its parts that are models of the study."""
    means = {m: g.groupby(["data", "seed"])[list(scores)].mean() for m, g in table.groupby("model")}
    found: Gaps = {}
    for composed in dict.fromkeys(table["model"]):
        for part in composed.split("+") if "+" in composed else ():
            if part in means:
                better = means[composed] - means[part]
                found[composed, part] = {
                    s: interval for s in scores if (interval := _of(better, s))
                }
    return found


def _of(better: Table, score: str) -> Interval | None:
    values = better[score].dropna().to_numpy(float)
    values = values if higher_is_better(score) else -values
    return (float(values.mean()), *mean_interval(values)) if len(values) > 1 else None


def told(found: Gaps) -> str:
    """Which compositions beat each of their parts in the study beyond chance, score by score."""
    helped = [
        f"{composed} in {score}"
        for composed in dict.fromkeys(composed for composed, _ in found)
        for score in dict.fromkeys(s for by_score in found.values() for s in by_score)
        if all(
            by_score.get(score, (0.0, -1.0, 0.0))[1] > 0
            for (name, _), by_score in found.items()
            if name == composed
        )
    ]
    best = ", ".join(helped)
    return (
        f"Better than each part that is here: {best}."
        if helped
        else "None is better than each part that is here."
    )


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return MISSING
    mean, low, high = interval
    star = " *" if low > 0 or high < 0 else ""
    return f"{mean:+.3g} [{low:+.2g}, {high:+.2g}]{star}"


def _figure(found: Gaps, scores: Sequence[str]) -> Figure:
    """A panel for each score with the interval of every difference."""
    names = [f"{composed} − {part}" for composed, part in found]
    figure, axes = study_figures.panels(len(scores), width=3.4, height=0.3 * len(names) + 1.2)
    for place, (axis, score) in enumerate(zip(axes, scores, strict=True)):
        for row, by_score in enumerate(found.values()):
            mean, low, high = by_score.get(score, (np.nan, np.nan, np.nan))
            axis.plot([low, high], [row, row], color="C0")
            sure = low > 0 or high < 0
            axis.plot(mean, row, "o", color="C0", mfc="C0" if sure else "white")
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks(
            range(len(names)), names if place % 3 == 0 else [""] * len(names), fontsize=7
        )
        axis.invert_yaxis()
        axis.locator_params(axis="x", nbins=4)
        axis.set_title(score)
    return figure
