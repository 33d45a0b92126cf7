"""InteL-VAE on points of the plane: measures and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from untwine.errors import DataError
from untwine.renderers.outlines import INSIDE, SIZE
from untwine.reproduce.evidence import Evidence, Runs, value_of
from untwine.reproduce.exhibits.tables import mean_and_spread
from untwine.reproduce.registry import exhibit, measure
from untwine.runs.directory import TrainedRun
from untwine.tools.figures import panels
from untwine.tools.pages import Section, file_name
from untwine.vae import VAE

if TYPE_CHECKING:
    from untwine.renderers.outlines import Shape

Points = NDArray[np.floating[Any]]  # (N, D)
N_COMPARED = 2_000  # points whose pairwise distances are computed
N_DOTS = 2_000  # points of each kind in a panel
N_EXEMPLARS, N_DRAWS = 5, 60  # examples whose posteriors are drawn, and draws from each
PLOT_MARGIN = 1.3  # half the width of a panel, relative to the largest coordinate of the data
PRIOR_COLOUR, ALL_CODES_COLOUR, SINGLE_COLOUR, DATA_COLOUR = (
    "#3b7dd8",
    "#d8463b",
    "#1f7a45",
    "#5a6270",
)


@measure
def in_gaps(run: TrainedRun, *, samples: int = 10_000, seed: int = 0) -> dict[str, float]:
    """The share of samples in the hole of the data or between its clusters, and that of the data.

    A model can leave the gap empty and still be wrong, so `mismatch` is the `inhomogeneity` of
    samples and data.
    """
    name = run.spec.data.name
    real = example_points(run, samples, seed).numpy()
    generated = generate_points(run.model, samples, seed)
    return {
        "share": share_in_gap(generated, name),
        "data": share_in_gap(real, name),
        "mismatch": inhomogeneity(generated[:N_COMPARED], real[:N_COMPARED]),
    }


def share_in_gap(points: Points, data: str) -> float:
    """Return the share of points (N, 2) in the hole of an outline, or between two clusters.

    >>> share_in_gap(np.array([[0.5, 0.0], [2.0, 0.0]]), "circle")
    0.5
    """
    if data == "clusters":
        return share_between(points)
    if data not in INSIDE:
        names = ", ".join([*INSIDE, "clusters"])
        raise DataError(f"no gap known in {data}; use {names}")
    return share_in_hole(points, cast("Shape", data))


def share_in_hole(samples: ArrayLike, shape: Shape, *, shrink: float = 0.5) -> float:
    """Return the share of samples (N, 2) in the hole of an outline, where no data lies.

    The hole is the outline shrunk towards its centre (each loop of infinity towards its own), so
    that samples scattered a little about the outline do not count.

    Args:
        samples: points in the plane.
        shape: the dataset's name.
        shrink: size of the hole: ½ is a radius of 1 for the circle, 1 the whole inside.

    >>> share_in_hole([[0.0, 0.9], [0.0, 1.1], [2.0, 0.0], [0.1, 0.1]], "circle")
    0.5
    """
    x = np.asarray(samples, dtype=np.float64).reshape(-1, 2)
    centre = np.zeros(2)
    if shape == "infinity":
        x, centre = np.abs(x), np.array([SIZE / 2, 0.0])  # the left loop mirrors the right
    return float(INSIDE[shape](centre + (x - centre) / shrink).mean())


def share_between(samples: ArrayLike, *, gap: float = 1.0) -> float:
    """Return the share of samples (N, 2) between clusters at ±2 on the first axis, |x₁| < gap.

    >>> share_between([[-2.1, 0.0], [0.5, 0.2], [1.9, -0.1], [2.0, 0.0]])
    0.25
    """
    return float((np.abs(np.asarray(samples)[:, 0]) < gap).mean())


def inhomogeneity(a: Points, b: Points) -> float:
    """Return how different two samples (N, D) and (M, D) are, from 0 to 1, free of scale.

    The energy distance 2E|a − b| − E|a − a'| − E|b − b'| as a share of 2E|a − b|: 0 only for the
    same distribution, 1 for two different points.

    >>> inhomogeneity(np.zeros((3, 2)), np.ones((4, 2)))
    1.0
    """
    from scipy.spatial.distance import cdist, pdist

    apart = 2 * cdist(a, b).mean()
    # Zero distances of points to themselves are left out.
    within = sum(pdist(x).mean() for x in (a, b))
    return float(max(0.0, 1 - within / apart)) if apart else 0.0


@measure
def prior_mismatch(
    run: TrainedRun, *, samples: int = N_COMPARED, seed: int = 0
) -> dict[str, float]:
    """How different the codes of all data are from the prior, both through the mapping.

    `own` is the same for two samples of the prior: the score of a perfect match.
    """
    model = run.model
    prior, second = (prior_codes(model, samples, s) for s in (seed, seed + 1))
    codes = posterior_codes(model, example_points(run, samples, seed), seed)
    return {"aggregate": inhomogeneity(codes, prior), "own": inhomogeneity(second, prior)}


def generate_points(model: VAE, n: int, seed: int) -> Points:
    """Return (n, D) draws from E_p(z)[p(x|z)], with the decoder's noise."""
    return model.sample(n, seed=seed, noise=True).numpy()


def prior_codes(model: VAE, n: int, seed: int) -> Points:
    """Return (n, D) draws from the prior, through the mapping."""
    return model.map_latents(model.sample_latents(n, seed=seed)).numpy()


def posterior_codes(model: VAE, x: Tensor, seed: int) -> Points:
    """Return (B, D) a draw from the posterior of each example (B, ...), through the mapping."""
    return model.sample_codes(x, seed=seed).numpy()


def example_points(run: TrainedRun, n: int, seed: int) -> Tensor:
    """Return (n, ...) random examples of a run's data."""
    return run.data.take(run.data.sample_indices(n, np.random.default_rng(seed)))


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
    """Data and samples of each model, side by side; a figure for each dataset.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: the models, in the order of their panels.
        score: a share of the samples; its mean over seeds is the title of a panel.
        told: the score in words.
        seed: of the runs and of the samples.
    """
    for data in dict.fromkeys(run.data.name for run in evidence.runs(study).values()):
        trained = {
            name: evidence.open_model(study, description, seed, data)
            for name, description in runs.items()
        }
        points = {"Data": example_points(next(iter(trained.values())), N_DOTS, seed).numpy()}
        points |= {name: generate_points(run.model, N_DOTS, seed) for name, run in trained.items()}
        labels = {
            n: _percent_label(evidence, study, runs[n], data, score) for n in trained if score
        }
        yield Section(
            file_name("planes", study, data),
            f"{data.capitalize()}: data and samples",
            f"{N_DOTS:,} points of each. Samples are drawn with the decoder's noise, from the run "
            f"with seed {seed}." + (f" Per cent: {told or score}, over seeds." if score else ""),
            _scatters(points, labels),
        )


def _percent_label(evidence: Evidence, study: str, description: Runs, data: str, score: str) -> str:
    values = value_of(evidence.select(study, description, data), score)
    return f"{mean_and_spread(100 * values)} %"


def _scatters(points: Mapping[str, Any], labels: Mapping[str, str]) -> Any:
    """Draw a panel for each set of points, all of one size, with a label in its title."""
    figure, axes = panels(len(points), width=2.5, height=2.7, most=4)
    reach = PLOT_MARGIN * float(np.abs(points["Data"]).max())
    for axis, (name, x) in zip(axes, points.items(), strict=True):
        _draw_dots(axis, x, DATA_COLOUR if name == "Data" else PRIOR_COLOUR)
        _set_square_limits(axis, reach)
        axis.set_title(f"{name}\n{labels[name]}" if name in labels else name, fontsize=9)
    return figure


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
    """The prior, the codes of all examples and those of single examples; a panel for each model.

    Args:
        evidence: results of the studies.
        study: name of the study, on one dataset.
        runs: the models, in the order of their panels.
        score: its mean over seeds is the title of a panel.
        told: the score in words.
        seed: of the runs and of the codes.
    """
    figure, axes = panels(len(runs), width=3.2, height=3.5, most=3)
    for axis, (name, description) in zip(axes, runs.items(), strict=True):
        _draw_codes(axis, evidence.open_model(study, description, seed), seed)
        values = value_of(evidence.select(study, description), score) if score else None
        axis.set_title(name if values is None else f"{name}\n{mean_and_spread(values)}", fontsize=9)
    axes[0].legend(fontsize=7, frameon=False, markerscale=6, loc="upper left")
    yield Section(
        file_name("plane-codes", study),
        "Prior and codes",
        f"On {evidence.heading(study)}. Blue: draws from the prior. Red: one code each of many "
        f"examples. Green: many codes each of {N_EXEMPLARS} examples. All through the mapping, if "
        f"the model has one; from the runs with seed {seed}."
        + (f" Numbers: {told or score}, over seeds." if score else ""),
        figure,
    )


def _draw_codes(axis: Any, run: TrainedRun, seed: int) -> None:
    """Draw the first two dimensions of codes."""
    model, x = run.model, example_points(run, N_DOTS, seed)
    repeated = torch.repeat_interleave(x[:N_EXEMPLARS], N_DRAWS, 0)
    prior = prior_codes(model, N_DOTS, seed)
    together, single = posterior_codes(model, x, seed), posterior_codes(model, repeated, seed)
    for points, colour, label, size in (
        (prior, PRIOR_COLOUR, "prior", 1.5),
        (together, ALL_CODES_COLOUR, "all codes", 1.5),
        (single, SINGLE_COLOUR, "codes of single examples", 5),
    ):
        _draw_dots(axis, points, colour, size=size)
        axis.scatter([], [], s=1.5, color=colour, label=label)
    _set_square_limits(
        axis, 1.05 * float(np.quantile(np.abs(np.concatenate([prior, together])), 0.999))
    )


def _draw_dots(axis: Any, x: Any, colour: str, *, size: float = 1.5) -> None:
    # Rasterised: as vectors, thousands of dots would make a file of megabytes.
    axis.scatter(x[:, 0], x[:, 1], s=size, color=colour, alpha=0.4, linewidths=0, rasterized=True)


def _set_square_limits(axis: Any, reach: float) -> None:
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axis.tick_params(labelsize=7)
