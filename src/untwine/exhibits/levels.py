"""What the levels of a hierarchical code do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from untwine import pictures, study_figures
from untwine.evidence import Evidence, Runs, opened_models
from untwine.exhibits import exhibit
from untwine.exhibits.traversals import REACH, STEPS
from untwine.measures.downstream import parts
from untwine.pages import Section, file_name


@exhibit
def level_traversals(
    evidence: Evidence, *, study: str, runs: Mapping[str, Runs], each: int = 1, seed: int = 0
) -> Iterator[Section]:
    """The busiest latents of each level move, the top level first; a picture for each model.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: the name of a model, and the description of its runs.
        each: latents shown of a level.
        seed: of the run, and of the image to start from.
    """
    from untwine.representation import Representation

    for name, finished in opened_models(evidence, study, runs, seed):
        model, data = finished.model, finished.data
        kl = Representation(model, data, n=min(1_000, len(data)), device="cpu").kl
        order = [d for part in parts(model) for d in _busiest(kl, part, each)]
        start = data.take(data.draw(1, np.random.default_rng(seed)))[0]
        images = model.traverse(start, torch.linspace(-REACH, REACH, STEPS), order)
        told = ", ".join(f"{kl[part].sum():.1f}" for part in parts(model))
        yield Section(
            file_name("levels", study, name),
            name,
            f"On {evidence.heading(study)}. One latent a row, from −{REACH} to {REACH}, {each} of "
            f"each level, the highest level first. In all the levels say {told} nats.",
            picture=pictures.grid(images.numpy()),
        )


def _busiest(kl: np.ndarray, part: slice, count: int) -> list[int]:
    """The latents of a level that say most.

    >>> _busiest(np.array([9.0, 1.0, 3.0, 2.0]), slice(1, 4), 2)
    [2, 3]
    """
    return [int(d) + part.start for d in np.argsort(-kl[part])[:count]]


@exhibit
def by_level(
    evidence: Evidence, *, study: str, runs: Runs, scores: Mapping[str, str], title: str = ""
) -> Iterator[Section]:
    """Scores of each level of a code as bars, from the columns `SCORE 0`, `SCORE 1`, ..."""
    rows = evidence.select(study, runs)
    figure, axes = study_figures.panels(len(scores), width=4.2, height=3.0)
    for axis, (name, score) in zip(axes, scores.items(), strict=True):
        columns = sorted(column for column in rows if column.startswith(f"{score} "))
        means, spread = rows[columns].mean(), rows[columns].std().fillna(0)
        axis.bar(range(1, len(columns) + 1), means, yerr=spread, color="C0", alpha=0.7)
        axis.set_xlabel("level, 1 is the highest")
        axis.set_title(name)
    yield Section(
        f"by-level-{study}",
        title or "What each level changes",
        f"On {evidence.heading(study)}. One level at a time is drawn anew from the prior. Mean and "
        "one standard deviation over seeds.",
        figure,
    )
