"""Figures of one model: traversals, samples, reconstructions, codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.errors import IncompatibleError, ParameterError, UnknownNameError
from untwine.latents import LatentStatistics, measure_sample, sample_examples
from untwine.plot.images import (
    TRAVERSAL_REACH,
    TRAVERSAL_STEPS,
    random_examples,
    reconstruction_images,
    sample_images,
    traversal_images,
    traversal_values,
)
from untwine.records import ACTIVE_NATS
from untwine.runs.directory import TrainedRun
from untwine.schema import unknown_name
from untwine.tools.figures import panels, styled
from untwine.tools.images import GRID_GAP, ImageArray, image_grid
from untwine.vae import VAE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_TRAVERSED = 10  # latents, unless some are named
TILE = 0.55  # inches of an image in a figure
BATCH = 64  # examples encoded together where a model must encode batches
MAX_LEGEND_LEVELS = 10  # a factor of more levels has a colour bar


@styled
def traversals(
    model: VAE | TrainedRun,
    data: Dataset | None = None,
    *,
    latents: Sequence[int] | None = None,
    steps: int = TRAVERSAL_STEPS,
    reach: float = TRAVERSAL_REACH,
    seed: int = 1,
) -> Figure:
    """One example, as one latent at a time moves: a row per latent, the most informative first.

    Args:
        model: a model, or a finished run.
        data: the data to take the example from; a run has its own.
        latents: numbers of the latents; by default the active ones, at most ten.
        steps: images in a row.
        reach: the largest value of a latent; the smallest is minus this.
        seed: for choosing the example.
    """
    vae, examples = model_and_data(model, data)
    _require_images(vae)
    measured = _measure(model, vae, examples)
    rows = _informative(measured) if latents is None else list(latents)
    for number in rows:
        if not 0 <= number < len(measured.nats):
            last = len(measured.nats) - 1
            raise ParameterError(f"latents are 0 to {last}; there is no {number}")
    values = traversal_values(steps, reach)
    vae, drawn = random_examples(vae, examples, 1, seed)
    images = traversal_images(vae, drawn[0], rows, values)
    labels = [f"z{number}  {measured.nats[number]:.2f} nats" for number in rows]
    return _grid_figure(
        images, labels, [f"{value:g}" for value in values[:: (steps - 1) // 2 or 1]]
    )


@styled
def samples(model: VAE | TrainedRun, *, rows: int = 4, columns: int = 8, seed: int = 1) -> Figure:
    """Samples from the prior, not selected."""
    vae = model.model if isinstance(model, TrainedRun) else model
    _require_images(vae)
    return _grid_figure(sample_images(vae, rows, columns, seed))


@styled
def reconstructions(
    model: VAE | TrainedRun, data: Dataset | None = None, *, count: int = 8, seed: int = 1
) -> Figure:
    """Random examples above their reconstructions."""
    vae, examples = model_and_data(model, data)
    _require_images(vae)
    images = reconstruction_images(*random_examples(vae, examples, count, seed))
    return _grid_figure(images, ["data", "model"])


@styled
def codes(
    model: VAE | TrainedRun,
    data: Dataset | None = None,
    *,
    latents: tuple[int, int] | None = None,
    colour: str | None = None,
) -> Figure:
    """The codes of a sample of the data in two latents.

    Args:
        model: a model, or a finished run.
        data: the data to encode; a run has its own.
        latents: the two latents; by default the two most informative.
        colour: the factor that colours the points; by default the first, if there are any.
    """
    vae, examples = model_and_data(model, data)
    measured = _measure(model, vae, examples)
    most = [int(number) for number in np.argsort(-measured.nats)]
    across, up = latents or (most[0], most[1 % len(most)])
    figure, (axis,) = panels(1, width=4.4, height=4)
    points = measured.codes[:, across], measured.codes[:, up]
    _scatter(axis, points, *_levels(examples, colour))
    axis.set_xlabel(f"z{across}")
    axis.set_ylabel(f"z{up}")
    return figure


def model_and_data(model: VAE | TrainedRun, data: Dataset | None) -> tuple[VAE, Dataset]:
    """A model, and the data named or that of the run."""
    if isinstance(model, TrainedRun):
        return model.model, model.data if data is None else as_dataset(data)
    if data is None:
        raise ParameterError("name the data too: untwine.plot.traversals(model, data)")
    return model, as_dataset(data)


def _require_images(model: VAE) -> None:
    if len(model.sizes.shape) != 3:
        raise IncompatibleError(
            f"the examples of this model are {model.sizes.shape.numel()} numbers, not images; "
            "use untwine.plot.codes instead"
        )


def _measure(model: VAE | TrainedRun, vae: VAE, data: Dataset) -> LatentStatistics:
    batch = model.spec.batch if isinstance(model, TrainedRun) else BATCH
    return measure_sample(vae, data, batch=batch)


def _informative(measured: LatentStatistics) -> list[int]:
    """The active latents, the most informative first; that one if none is active."""
    order = [int(number) for number in np.argsort(-measured.nats)]
    active = [number for number in order if measured.nats[number] >= ACTIVE_NATS]
    return (active or order[:1])[:MAX_TRAVERSED]


def _grid_figure(
    images: ImageArray, labels: Sequence[str] = (), ticks: Sequence[str] = ()
) -> Figure:
    """A figure of (R, C, channels, H, W) images with labels of rows and ticks below."""
    rows, columns, _, height, width = images.shape
    size = TILE * columns + 1.2 * bool(labels), TILE * rows * height / width + 0.3 * bool(ticks)
    figure, (axis,) = panels(1, width=size[0], height=size[1])
    axis.imshow(image_grid(images), interpolation="nearest")
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    down, across = height + GRID_GAP, width + GRID_GAP
    axis.set_yticks([r * down + height / 2 for r in range(len(labels))], list(labels))
    places = np.linspace(0, columns - 1, len(ticks)) if len(ticks) else []
    axis.set_xticks([c * across + width / 2 for c in places], list(ticks))
    return figure


def _levels(data: Dataset, name: str | None) -> tuple[str, NDArray[np.int64]]:
    """A factor by name, or the first, and its levels in the sample; no name without factors."""
    if data.factors is None:
        if name is not None:
            raise ParameterError(f"this data has no factors; leave out colour={name!r}")
        return "", np.zeros(0, np.int64)
    names = list(data.factors.names)
    if name is not None and name not in names:
        raise UnknownNameError(unknown_name("factor", name, names))
    number = 0 if name is None else names.index(name)
    return names[number], data.factors.levels_at(sample_examples(data))[:, number]


def _scatter(
    axis: Axes,
    points: tuple[NDArray[np.floating], NDArray[np.floating]],
    name: str,
    levels: NDArray[np.int64],
) -> None:
    """Points coloured by a factor, with a legend of few levels or a colour bar of many."""
    across, up = points
    kinds = np.unique(levels)
    if len(kinds) > MAX_LEGEND_LEVELS:
        drawn = axis.scatter(across, up, s=6, c=levels, cmap="viridis", linewidths=0)
        axis.figure.colorbar(drawn, ax=axis, label=name)
        return
    for kind in kinds:
        chosen = levels == kind
        axis.scatter(across[chosen], up[chosen], s=6, alpha=0.7, linewidths=0, label=str(kind))
    if name:
        axis.legend(title=name, frameon=False, markerscale=2, fontsize=8)
    else:
        axis.scatter(across, up, s=6, alpha=0.7, linewidths=0)
