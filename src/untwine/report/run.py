"""The report of a finished run: one self-contained HTML page."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from untwine.latents import code_layout, sample_examples, summarise_latents
from untwine.registry import metrics as metric_registry
from untwine.registry import models
from untwine.runs.describe import data_label, spec_rows, train_command
from untwine.runs.directory import TrainedRun, open_run
from untwine.scoring.latents import (
    LatentDescription,
    describe_latents,
    factor_shares,
    run_latents,
)
from untwine.scoring.scores import (
    Names,
    Scores,
    evaluate_representation,
    examples_of_scores,
    represent_run,
    score_metrics,
    value_title,
)
from untwine.spec import Settings
from untwine.tools.compute import seeded
from untwine.tools.deprecated import renamed_keywords
from untwine.tools.files import write_bytes
from untwine.tools.images import ImageArray, data_url, encode_png, image_grid
from untwine.tools.pages import render

INK = "#010203"  # placeholder for the page's text colour, see `curves`
TRAVERSAL_REACH, TRAVERSAL_STEPS = 2.5, 11
N_RECONSTRUCTIONS = 16
SAMPLE_ROWS, SAMPLE_COLUMNS = 4, 16
PICTURE_SEED = 1


@dataclass(frozen=True)
class LatentRow:
    """One latent in the report, with its traversal."""

    latent: LatentDescription
    picture: str


@dataclass(frozen=True)
class ScoreRow:
    """One score with those of the reference codes."""

    title: str
    value: float
    better: str
    references: dict[str, float]
    card: bool  # whether it has a card: the headline value of a metric

    def position(self, value: float) -> float:
        """The position of a value between 0 and the perfect code's score, in percent."""
        top = self.references["perfect"]
        return 100 * min(1.0, max(0.0, value / top)) if top > 0 else 0.0


@renamed_keywords(n="n_examples")
def write_report(
    path: str | Path,
    *,
    metrics: Names = None,
    n_examples: int | None = None,
    quiet: bool = True,
    data: str = "",
    trust: bool = False,
) -> Path:
    """Write `report.html` into the directory of a finished run; compute missing scores.

    Args:
        path: directory of the run.
        metrics: names of the scores to show; by default all that are stored and all that take
            seconds.
        n_examples: number of examples to score on; by default the number of the stored scores.
        quiet: hide progress bars.
        data: where the run's data is, if elsewhere, or other data, as for `open_run`. Scores on
            other data are not stored.
        trust: open what a received run names, as for `open_run`.

    Returns:
        the file
    """
    trained = open_run(path, data=data, trust=trust)
    statistics = run_latents(trained)  # first, as it refuses a model whose codes are not finite
    stored_size, seed = examples_of_scores(trained.path)
    representation = represent_run(
        trained, n_examples=n_examples or stored_size, seed=seed, quiet=quiet
    )
    scores = score_rows(
        evaluate_representation(trained.path, representation, metrics, with_stored=metrics is None)
        if trained.has_own_data
        else score_metrics(representation, metrics, Settings({}))
    )
    factors = trained.data.factors
    shares, names = np.zeros((len(statistics.nats), 0)), ()
    if factors is not None:
        shares = factor_shares(statistics.codes, factors.levels_at(sample_examples(trained.data)))
        names = factors.names
    parts = code_layout(trained.model).parts
    latents = describe_latents(summarise_latents(statistics), parts, shares, names)
    is_image = len(trained.data.shape) == 3
    html = render(
        "report.html",
        title=" + ".join(models[part.name].title for part in trained.spec.model),
        data=data_label(trained.spec),
        other_data="" if trained.has_own_data else str(data),
        unit="pixel" if is_image else "number",
        spec=trained.spec,
        parameters=spec_rows(trained.spec),
        command=train_command(trained.spec),
        record=trained.record,
        n_examples=len(representation.index),
        scores=scores,
        latents=latent_rows(trained, latents) if is_image else [],
        n_sample=len(statistics.codes),
        information=[(one.number, shares[one.number].tolist()) for one in latents if names],
        factors=names,
        reconstructions=reconstructions(trained) if is_image else None,
        samples=samples(trained) if is_image else None,
        curves=loss_curves(trained),
        held_out=trained.validation is not None,
        best_step=trained.history.best_step() if trained.spec.training.patience else None,
        spec_json=json.dumps(trained.spec.to_json(), indent=2),
    )
    file = trained.path / "report.html"
    write_bytes(file, html)
    return file


def score_rows(scores: Scores) -> list[ScoreRow]:
    """One row per value, grouped by metric."""
    rows: list[ScoreRow] = []
    for label, score in scores.items():
        entry, _ = metric_registry.parse(label)
        better = "higher is better" if entry.metadata["higher_is_better"] else "lower is better"
        for key, value in score.values.items():
            references = {kind: v[key] for kind, v in score.references.items() if key in v}
            large = len(references) == 3 or entry.name == "reconstruction"
            card = large and key == next(iter(score.values))
            rows.append(ScoreRow(value_title(label, key), value, better, references, card))
    return rows


def latent_rows(trained: TrainedRun, latents: Sequence[LatentDescription]) -> list[LatentRow]:
    """The latents with traversals of one image, from −2.5 to 2.5."""
    data, device = trained.data, next(trained.model.parameters()).device
    with seeded(PICTURE_SEED):
        start = data.take(data.sample_indices(1, np.random.default_rng(PICTURE_SEED)))[0].to(device)
    values = torch.linspace(-TRAVERSAL_REACH, TRAVERSAL_REACH, TRAVERSAL_STEPS)
    images = trained.model.traverse(start, values)
    return [LatentRow(one, _grid_url(images[one.number][None].cpu().numpy())) for one in latents]


def reconstructions(trained: TrainedRun) -> str:
    """A picture of images above their reconstructions."""
    data = trained.data
    with seeded(PICTURE_SEED):
        x = data.take(data.sample_indices(N_RECONSTRUCTIONS, np.random.default_rng(PICTURE_SEED)))
    device = next(trained.model.parameters()).device
    pair = torch.stack([x, trained.model.reconstruct(x.to(device)).cpu()])
    return _grid_url(pair.numpy())


def samples(trained: TrainedRun) -> str:
    """A picture of samples from the prior."""
    images = trained.model.sample(SAMPLE_ROWS * SAMPLE_COLUMNS, seed=PICTURE_SEED).cpu().numpy()
    return _grid_url(images.reshape(SAMPLE_ROWS, SAMPLE_COLUMNS, *images.shape[1:]))


def _grid_url(images: ImageArray) -> str:
    """(R, C, channels, H, W) images as the data URL of one picture."""
    return data_url(encode_png(image_grid(images)))


def loss_curves(trained: TrainedRun) -> str:
    """The terms of the loss during training, as SVG; without constants of their estimators."""
    rows = trained.shown_history()
    names = [name for name in rows[0] if name != "step"]
    lines: dict[str, Sequence[float]] = {
        name.replace("_", " "): [row[name] for row in rows] for name in names
    }
    return curves([row["step"] for row in rows], lines)


def curves(x: Sequence[float], lines: dict[str, Sequence[float]]) -> str:
    """One small chart per line, side by side, as SVG in the page's text colour."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "untwine",
        "font.family": "sans-serif",
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 9,
    }
    with rc_context(style):
        across = min(4, len(lines))
        down = -(-len(lines) // across)
        figure = Figure(figsize=(2.9 * across, 2.1 * down), layout="constrained")
        axes = np.atleast_1d(figure.subplots(down, across)).ravel()
        for axis, (name, y) in zip(axes, lines.items(), strict=False):
            axis.plot(x, y, color="#3b7dd8", linewidth=1.4)
            axis.set_title(name, fontsize=10, loc="left")
            axis.margins(x=0.01)
            axis.set_ylim(*_axis_limits(y))
            axis.ticklabel_format(axis="y", useOffset=False)
            axis.xaxis.set_major_formatter(lambda step, _: _format_step(step))
        for axis in axes[len(lines) :]:
            axis.remove()
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    svg = stream.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


def _format_step(step: float) -> str:
    """Abbreviate a number of steps: 500, 2k."""
    return f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"


def _axis_limits(y: Sequence[float]) -> tuple[float, float]:
    """The range of a curve; its first tenth, which may be steep, does not count at the top."""
    settled = np.asarray(y)[len(y) // 10 :]
    low, high = float(np.min(y)), float(np.max(settled))
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin
