"""Models of points in the plane: what they generate, and where their codes lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from untwine import study_figures
from untwine.evidence import Evidence, Runs, value_of
from untwine.exhibits import exhibit
from untwine.exhibits.tables import mean_and_spread
from untwine.pages import Section, file_name

if TYPE_CHECKING:
    from untwine.runs import Finished

DOTS = 2_000  # of each kind in a panel
EXEMPLARS, DRAWS = 5, 60  # examples whose posteriors are shown, and draws from each
BESIDE = 1.3  # the part of the plane shown, relative to the data's reach
PRIOR, TOGETHER, SINGLE, REAL = "#3b7dd8", "#d8463b", "#1f7a45", "#5a6270"


@exhibit
def planes(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    score: str = "",
    told: str = "",
    seed: int = 0,
) -> Iterator[Section]:
    """Data and what each model generates, side by side; a figure for each dataset.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: the models, in the order of their panels.
        score: a share of the samples, whose mean over seeds stands above each panel.
        told: what that share is, in words.
        seed: of the runs that are drawn.
    """
    from untwine.measures.planes import examples, generated

    for data in dict.fromkeys(run.data.name for run in evidence.runs(study).values()):
        opened = {
            name: evidence.opened(study, described, seed, data) for name, described in runs.items()
        }
        points = {"Data": examples(next(iter(opened.values())), DOTS, seed).numpy()}
        points |= {name: generated(run.model, DOTS, seed) for name, run in opened.items()}
        above = {n: _share(evidence, study, runs[n], data, score) for n in opened} if score else {}
        yield Section(
            file_name("planes", study, data),
            f"{data.capitalize()}: data and samples",
            f"{DOTS:,} points of each. Samples are drawn with the decoder's noise, from the run "
            f"with seed {seed}." + (f" In percent: {told or score}, over seeds." if score else ""),
            _scatters(points, above),
        )


def _share(evidence: Evidence, study: str, described: Runs, data: str, score: str) -> str:
    values = value_of(evidence.select(study, described, data), score)
    return f"{mean_and_spread(100 * values)} %"


def _scatters(points: Mapping[str, Any], above: Mapping[str, str]) -> Any:
    """A panel for each set of points, all of one size, with what is to stand above it."""
    figure, axes = study_figures.panels(len(points), width=2.5, height=2.7, most=4)
    reach = BESIDE * float(np.abs(points["Data"]).max())
    for axis, (name, x) in zip(axes, points.items(), strict=True):
        _dots(axis, x, REAL if name == "Data" else PRIOR)
        _square(axis, reach)
        axis.set_title(f"{name}\n{above[name]}" if name in above else name, fontsize=9)
    return figure


def _dots(axis: Any, x: Any, colour: str, *, size: float = 1.5) -> None:
    # As a picture: thousands of dots would make a file of megabytes.
    axis.scatter(x[:, 0], x[:, 1], s=size, color=colour, alpha=0.4, linewidths=0, rasterized=True)


def _square(axis: Any, reach: float) -> None:
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axis.tick_params(labelsize=7)


@exhibit
def plane_codes(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    score: str = "",
    told: str = "",
    seed: int = 0,
) -> Iterator[Section]:
    """Where the prior, all codes together and the codes of single examples lie; a panel a model.

    Args:
        evidence: what our runs found.
        study: whose runs, on one dataset.
        runs: the models, in the order of their panels.
        score: what stands above each panel, as mean over seeds.
        told: what that is, in words.
        seed: of the runs that are drawn.
    """
    figure, axes = study_figures.panels(len(runs), width=3.2, height=3.5, most=3)
    for axis, (name, described) in zip(axes, runs.items(), strict=True):
        _codes(axis, evidence.opened(study, described, seed), seed)
        values = value_of(evidence.select(study, described), score) if score else None
        axis.set_title(name if values is None else f"{name}\n{mean_and_spread(values)}", fontsize=9)
    axes[0].legend(fontsize=7, frameon=False, markerscale=6, loc="upper left")
    yield Section(
        file_name("plane-codes", study),
        "Prior and codes",
        f"On {evidence.heading(study)}. Blue: draws from the prior. Red: a code of each of many "
        f"examples. Green: many codes of each of {EXEMPLARS} examples. All through the mapping, "
        f"where there is one; from the runs with seed {seed}."
        + (f" Numbers: {told or score}, over seeds." if score else ""),
        figure,
    )


def _codes(axis: Any, finished: Finished, seed: int) -> None:
    """Codes in the first two dimensions."""
    from untwine.measures.planes import examples, posterior_codes, prior_codes

    model, x = finished.model, examples(finished, DOTS, seed)
    few = torch.repeat_interleave(x[:EXEMPLARS], DRAWS, 0)
    prior = prior_codes(model, DOTS, seed)
    together, single = posterior_codes(model, x, seed), posterior_codes(model, few, seed)
    for points, colour, label, size in (
        (prior, PRIOR, "prior", 1.5),
        (together, TOGETHER, "all codes", 1.5),
        (single, SINGLE, "codes of single examples", 5),
    ):
        _dots(axis, points, colour, size=size)
        axis.scatter([], [], s=1.5, color=colour, label=label)
    _square(axis, 1.05 * float(np.quantile(np.abs(np.concatenate([prior, together])), 0.999)))
