"""Which latents each class of the data switches on, and what they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from untwine import pictures, study_figures
from untwine.evidence import Evidence, Runs, opened_models
from untwine.exhibits import exhibit
from untwine.exhibits.traversals import REACH, STEPS
from untwine.measures.downstream import Means, active, magnitudes
from untwine.pages import Section, file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from untwine.runs import Finished


@exhibit
def classes(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    share: float = 0.1,
    names: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> Iterator[Section]:
    """The mean |z| of each latent for each class as a table of colours, a picture for each model.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: the name of a model, and the description of its runs.
        share: of the largest mean |z| of a class, above which a latent counts as on.
        names: of the classes, by dataset; else they are numbered.
        seed: of the run that is shown.
    """
    for name, finished in opened_models(evidence, study, runs, seed):
        means = magnitudes(finished)
        on = active(means, share)
        yield Section(
            file_name("classes", study, name),
            name,
            f"On {evidence.heading(study)}. Mean |z| of each latent (across) for each class "
            f"(down). {100 * on.mean():.0f} % of the latents are on for a class in the mean: "
            f"above {share:g} of the largest of that class. In all, {int(on.any(0).sum())} of "
            f"{means.shape[1]} are on for some class.",
            _heat(means, class_names(finished, names)),
        )


def class_names(finished: Finished, names: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """What the levels of the first factor are called."""
    factors = finished.data.factors
    count = factors.sizes[0] if factors else 0
    given = (names or {}).get(finished.spec.data.name, ())
    return list(given) if len(given) == count else [str(level) for level in range(count)]


def _heat(means: Means, names: Sequence[str]) -> Figure:
    figure, (axis,) = study_figures.panels(1, width=8.4, height=0.24 * len(names) + 0.9)
    shown: Any = axis.imshow(means, cmap="YlGnBu", aspect="auto", vmin=0)
    axis.set_yticks(range(len(names)), list(names))
    axis.set_xlabel("latent")
    axis.spines[:].set_visible(False)
    figure.colorbar(shown, ax=axis, label="mean |z|")
    return figure


def distinctive(means: Means) -> list[int]:
    """(L, D) to the latent of each class whose mean stands out most from the other classes.

    >>> distinctive(np.array([[5.0, 3.0, 0.0], [5.0, 0.0, 1.0]]))
    [1, 2]
    """
    others = (means.sum(0) - means) / max(1, len(means) - 1)
    return [int(d) for d in (means - others).argmax(1)]


@exhibit
def class_traversals(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    levels: Sequence[int],
    names: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> Iterator[Section]:
    """For some classes the latent that most stands out for it moves, from an image of the class."""
    for name, finished in opened_models(evidence, study, runs, seed):
        model, data = finished.model, finished.data
        means, called = magnitudes(finished), class_names(finished, names)
        latents = distinctive(means)
        rng = np.random.default_rng(seed)
        assert data.factors is not None
        starts = [data.take(data.factors.draw(1, rng, fixed={0: level}))[0] for level in levels]
        values = torch.linspace(-REACH, REACH, STEPS)
        rows = [
            model.traverse(x, values, [latents[level]])[0].numpy()
            for x, level in zip(starts, levels, strict=True)
        ]
        told = ", ".join(f"{called[level]}: latent {latents[level]}" for level in levels)
        yield Section(
            file_name("class-traversals", study, name),
            f"{name}: a latent of each class",
            f"On {evidence.heading(study)}. From −{REACH} to {REACH}, a row for each class: "
            f"the latent whose mean |z| stands out most for it ({told}).",
            picture=pictures.grid(np.stack(rows)),
        )
