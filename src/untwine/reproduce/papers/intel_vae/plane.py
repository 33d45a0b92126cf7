"""InteL-VAE on points of the plane: measures and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from untwine.errors import DataError
from untwine.models.intel_sphere import Sphere
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
N_SINGLE, N_SINGLE_DRAWS = 20, 100  # examples whose codes are compared one by one, draws of each
OFF_SUPPORT = 0.95  # quantile of the prior's own distances above which a code is off the prior
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
    """How different codes are from the prior, both through the mapping.

    `aggregate` is the `inhomogeneity` of the codes of all data and the prior, `neighbours` their
    `neighbour_share`, and `single` the `off_support` share of codes of single examples. `own...`
    are the same for two samples of the prior: the scores of a perfect match.
    """
    model = run.model
    prior, second = (prior_codes(model, samples, s) for s in (seed, seed + 1))
    x = example_points(run, samples, seed)
    codes = posterior_codes(model, x, seed)
    repeated = torch.repeat_interleave(x[:N_SINGLE], N_SINGLE_DRAWS, 0)
    return {
        "aggregate": inhomogeneity(codes, prior),
        "own": inhomogeneity(second, prior),
        "neighbours": neighbour_share(codes, prior),
        "own_neighbours": neighbour_share(second, prior),
        "single": off_support(posterior_codes(model, repeated, seed), prior),
        "own_single": off_support(second, prior),
    }


def neighbour_share(a: Points, b: Points) -> float:
    """Return the share of points of two samples (N, D) whose nearest neighbour is of their own.

    ½ for two samples of one distribution, 1 for two that lie apart; free of scale. Samples must be
    of one size.

    >>> neighbour_share(np.array([[0.0], [0.1]]), np.array([[5.0], [5.1]]))
    1.0
    """
    from scipy.spatial import KDTree

    points = np.concatenate([a, b])
    kind = np.arange(len(points)) < len(a)
    nearest = np.asarray(KDTree(points).query(points, k=2)[1])[:, 1]
    return float((kind[nearest] == kind).mean())


def off_support(points: Points, prior: Points) -> float:
    """Return the share of points (N, D) that lie where draws of the prior (M, D) do not.

    A point is off if its nearest draw is further away than 95 % of the draws are from theirs. So
    0.05 is the score of the prior itself, whatever part of it the points come from.
    """
    from scipy.spatial import KDTree

    tree = KDTree(prior)
    between = tree.query(prior, k=2)[0][:, 1]
    return float((tree.query(points)[0] > np.quantile(between, OFF_SUPPORT)).mean())


@measure
def mapped_divergence(
    run: TrainedRun, *, examples: int = 50, draws: int = 1_000, prior: int = 50_000, seed: int = 0
) -> dict[str, float]:
    """The KL from posterior to prior before the mapping and after it (Theorem 1).

    `before` is the closed form on the Gaussian code, `after` the `neighbour_divergence` of draws
    through the mapping; both are means over examples. On a sphere the code has one dimension less.

    Args:
        run: the trained run.
        examples: number of examples.
        draws: from the posterior of each example.
        prior: draws from the prior.
        seed: of examples and draws.
    """
    model, x = run.model, example_points(run, examples, seed)
    drawn = prior_codes(model, prior, seed)
    dimension = drawn.shape[1] - isinstance(model.mapping, Sphere)
    (code,) = model.infer_means(x).latents.values()
    before = float(code.kl.mean())
    after = [
        neighbour_divergence(
            posterior_codes(model, one.expand(draws, *one.shape), seed), drawn, dimension
        )
        for one in x
    ]
    return {
        "before": before,
        "after": float(np.mean(after)),
        "ratio": float(np.mean(after)) / before,
    }


def neighbour_divergence(
    draws: Points, prior: Points, dimension: int, *, neighbour: int = 5
) -> float:
    """Estimate KL(q ‖ p) from draws of q (N, D) and p (M, D) by their nearest neighbours.

    d/N Σ log(ν_i / ρ_i) + log(M / (N − 1)), where ρ_i is the distance of draw i to its k-th
    neighbour among the draws and ν_i to the k-th in the prior (Wang et al., 2009).
    """
    from scipy.spatial import KDTree

    own = KDTree(draws).query(draws, k=neighbour + 1)[0][:, -1]
    other = KDTree(prior).query(draws, k=neighbour)[0][:, -1]
    gain = np.log(len(prior) / (len(draws) - 1))
    return float(dimension * np.mean(np.log(other / own)) + gain)


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
    title: str = "data and samples",
    seed: int = 0,
) -> Iterator[Section]:
    """Data and samples of each model, side by side; a figure for each dataset.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: the models, in the order of their panels.
        score: a share of the samples; its mean over seeds is the title of a panel.
        told: the score in words.
        title: what follows the name of the data in the title.
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
            f"{data.capitalize()}: {title}",
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
