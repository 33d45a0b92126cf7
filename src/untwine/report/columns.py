"""Tables in a report: what a latent does to each column, and how well columns are reconstructed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.dataset import Dataset
from untwine.latents import sample_examples
from untwine.plot.images import random_examples, traversal_images
from untwine.runs.directory import TrainedRun

MAX_CHANGED = 6  # columns shown for a latent
LINE_WIDTH, LINE_HEIGHT = 120, 24  # of the drawing of a column

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class ColumnChange:
    """How one column changes as a latent moves."""

    name: str
    points: str  # of the line, for SVG
    low: str  # at the smallest value of the latent, in the column's unit
    high: str
    deviations: float  # between its largest and its smallest value


@dataclass(frozen=True)
class ColumnError:
    """How well one column is reconstructed."""

    name: str
    error: str  # root mean square, in the column's unit
    share: float  # of the column's deviation


def column_names(data: Dataset) -> tuple[str, ...]:
    """The names of the columns, or their numbers."""
    if data.columns is not None:
        return data.columns.names
    return tuple(f"column {k + 1}" for k in range(data.shape.numel()))


def _units(data: Dataset) -> Floats:
    """(D,) how much of each column's own unit 1 in the model's data is."""
    return np.ones(data.shape.numel()) if data.columns is None else np.array(data.columns.deviation)


def _spread(x: Floats) -> Floats:
    """(D,) deviations of the columns; 1 for constant ones."""
    deviation = x.std(0)
    return np.where(deviation > 0, deviation, 1.0)


def column_changes(trained: TrainedRun, seed: int) -> list[list[ColumnChange]]:
    """For each latent the columns that change most as it moves, in a random example."""
    data = trained.data
    model, examples = random_examples(trained.model, data, 1, seed)
    moved = traversal_images(model, examples[0])  # (L, steps, D)
    spread = _spread(_sampled(data))
    return [_largest_changes(steps, spread, data) for steps in moved]


def _largest_changes(steps: Floats, spread: Floats, data: Dataset) -> list[ColumnChange]:
    """The columns in which (steps, D) rows differ most."""
    names = column_names(data)
    ends = steps[[0, -1]] if data.columns is None else data.columns.restore(steps[[0, -1]])
    ranges = np.ptp(steps, axis=0) / spread
    order = np.argsort(-ranges, kind="stable")[:MAX_CHANGED]
    reach = max(float(ranges.max()), 1e-9)
    return [
        ColumnChange(
            names[k],
            _polyline(steps[:, k] / spread[k], reach),
            _number(ends[0, k]),
            _number(ends[1, k]),
            float(ranges[k]),
        )
        for k in order
    ]


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _polyline(y: Floats, reach: float) -> str:
    """The points of a line; all lines of a latent have one scale."""
    x = np.linspace(1, LINE_WIDTH - 1, len(y))
    middle = (y.max() + y.min()) / 2
    heights = LINE_HEIGHT / 2 - (y - middle) / reach * (LINE_HEIGHT - 4)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, heights, strict=True))


def column_errors(trained: TrainedRun) -> list[ColumnError]:
    """The errors of all columns on a sample, the largest share of a deviation first."""
    data = trained.data
    x = _sampled(data)
    model = trained.model.given_data(data, sample_examples(data))
    device = next(model.parameters()).device
    again = model.reconstruct(torch.from_numpy(x).to(device)).cpu().numpy()
    error = np.sqrt(np.square(again - x).mean(0))
    shares = error / _spread(x)
    names, units = column_names(data), _units(data)
    order = np.argsort(-shares, kind="stable")
    return [ColumnError(names[k], _number(error[k] * units[k]), float(shares[k])) for k in order]


def _sampled(data: Dataset) -> Floats:
    return data.take_repeatably(sample_examples(data)).numpy()
