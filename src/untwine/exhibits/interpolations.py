"""Images on the way from one image to another, and what a classifier sees on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from untwine import pictures
from untwine.evidence import Evidence, Runs, present
from untwine.exhibits import exhibit
from untwine.exhibits.profiles import lines
from untwine.pages import Section, file_name
from untwine.statistics import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@exhibit
def interpolations(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    feature: str,
    features: Mapping[str, Sequence[str]],
    steps: int = 7,
    pairs: int = 3,
    label: str = "paths",
    seed: int = 0,
) -> Iterator[Section]:
    """From images with a feature to images without, a row for each model.

    Below them the probability of the feature along the way, as the measure `paths` of the same
    parameters found it under this label.
    """
    from untwine.measures.features import judge_of
    from untwine.measures.paths import between, ends_of

    there = present(evidence, study, runs)
    models = {name: evidence.opened(study, there[name], seed) for name in there}
    ends = ends_of(judge_of(next(iter(models.values())).data, features), feature, pairs)
    first, last = (torch.tensor(images) for images in ends)
    made = [between(finished.model, first, last, steps) for finished in models.values()]
    order = ", ".join(models)
    for pair in range(len(first)):
        rows = [_row(first[pair], images[pair], last[pair]) for images in made]
        yield Section(
            file_name("interpolations", study, str(pair + 1)),
            f"From {feature.lower()} to none, pair {pair + 1}",
            f"On {evidence.heading(study)}. Left and right the real images, which the classifier "
            f"did not learn from, between them the straight path between their codes. Rows from "
            f"above: {order}.",
            picture=pictures.grid(torch.stack(rows).numpy()),
        )
    tables = {name: evidence.select(study, there[name]) for name in there}
    yield Section(
        file_name("probability", study, feature),
        f"Probability of {feature.lower()} along the path",
        "By the classifier, on average over all pairs; the mean over seeds with one standard "
        "deviation. The dotted line is the real images at which the paths begin.",
        _probability(tables, feature, label, steps),
    )


def _row(first: Tensor, path: Tensor, last: Tensor) -> Tensor:
    """(S + 2, C, H, W) a path between the real images at its ends."""
    return torch.cat([first[None], path, last[None]])


def _probability(tables: Mapping[str, Table], feature: str, label: str, steps: int) -> Figure:
    figure = lines(tables, {str(step): f"{label}.at {step}" for step in range(1, steps + 1)})
    axis = figure.axes[0]
    real = next(iter(tables.values()))[f"{label}.real"].mean()
    axis.axhline(real, color="grey", linewidth=0.8, linestyle=":")
    axis.set(xlabel="step of the path", ylabel=f"probability of {feature.lower()}", ylim=(0, 1.02))
    return figure
