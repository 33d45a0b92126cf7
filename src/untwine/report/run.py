"""The report of a finished run: one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from untwine.latents import code_layout, sample_examples, summarise_latents
from untwine.plot.curves import history
from untwine.plot.images import (
    random_examples,
    reconstruction_images,
    sample_images,
    traversal_images,
)
from untwine.registry import metrics as metric_registry
from untwine.registry import models
from untwine.report.columns import ColumnChange, column_changes, column_errors
from untwine.report.findings import what_was_learned
from untwine.runs.cards import spec_rows
from untwine.runs.describe import data_label, strip_folders, train_command, without_folders
from untwine.runs.directory import TrainedRun, open_run
from untwine.scoring.latents import (
    LatentDescription,
    describe_latents,
    factor_shares,
    run_latents,
)
from untwine.scoring.representation import Representation
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
from untwine.tools.deprecated import renamed_keywords
from untwine.tools.figures import draw_svg, styled, themed
from untwine.tools.files import write_bytes
from untwine.tools.images import ImageArray, data_url, encode_png, image_grid
from untwine.tools.pages import render
from untwine.tools.terminal import format_duration

N_RECONSTRUCTIONS, ACROSS = 16, 8
SAMPLE_ROWS, SAMPLE_COLUMNS = 4, 16
PICTURE_SEED = 1


@dataclass(frozen=True)
class LatentRow:
    """One latent in the report, with its traversal."""

    latent: LatentDescription
    picture: str = ""
    columns: Sequence[ColumnChange] = ()  # of a table


@dataclass(frozen=True)
class ScoreRow:
    """One score with those of the reference codes."""

    title: str
    value: float
    better: str
    references: dict[str, float]
    card: bool  # whether it has a card: the headline value of a metric
    note: str  # why it cannot be relied on, if so

    def position(self, value: float) -> float:
        """The position of a value between the scores of noise and of the true factors, in %."""
        low, top = self.references["random"], self.references["perfect"]
        return 100 * min(1.0, max(0.0, (value - low) / (top - low))) if top != low else 0.0


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
    representation, scores = score_run(trained, metrics, n_examples, quiet=quiet)
    factors = trained.data.factors
    shares, names = np.zeros((len(statistics.nats), 0)), ()
    if factors is not None:
        shares = factor_shares(statistics.codes, factors.levels_at(sample_examples(trained.data)))
        names = factors.names
    parts = code_layout(trained.model).parts
    latents = describe_latents(summarise_latents(statistics), parts, shares, names)
    spec = without_folders(trained.spec)  # the page is made to be shared
    html = render(
        "report.html",
        title=" + ".join(models[part.name].title for part in trained.spec.model),
        data=data_label(trained.spec),
        other_data="" if trained.has_own_data else strip_folders(str(data)),
        spec=trained.spec,
        parameters=spec_rows(spec),
        command=train_command(spec),
        record=trained.record,
        duration=format_duration(trained.record["seconds"]),
        learned=what_was_learned(latents, shares, names, trained.shown_history(), scores),
        n_examples=len(representation.index),
        scores=score_rows(scores),
        latents=latent_rows(trained, latents),
        n_sample=len(statistics.codes),
        information=[
            (one.number, shares[one.number].tolist()) for one in shown_latents(latents) if names
        ],
        factors=names,
        n_inactive=len(latents) - len(shown_latents(latents)),
        **shown_examples(trained),
        curves=loss_curves(trained),
        held_out=trained.validation is not None,
        best_step=trained.history.best_step() if trained.spec.training.patience else None,
        spec_json=json.dumps(spec.to_json(), indent=2),
    )
    file = trained.path / "report.html"
    write_bytes(file, html)
    return file


def score_run(
    trained: TrainedRun, metrics: Names, n_examples: int | None, *, quiet: bool
) -> tuple[Representation, Scores]:
    """The representation of a run, and its scores; those on other data are not stored."""
    stored_size, seed = examples_of_scores(trained.path)
    representation = represent_run(
        trained, n_examples=n_examples or stored_size, seed=seed, quiet=quiet
    )
    scores = (
        evaluate_representation(trained.path, representation, metrics, with_stored=metrics is None)
        if trained.has_own_data
        else score_metrics(representation, metrics, Settings({}))
    )
    return representation, scores


def shown_examples(trained: TrainedRun) -> dict[str, Any]:
    """What the page shows of examples: pictures of images, and errors per column of vectors."""
    is_image = len(trained.data.shape) == 3
    return {
        "unit": "pixel" if is_image else "number",
        "column_errors": [] if is_image else column_errors(trained),
        "reconstructions": reconstructions(trained) if is_image else None,
        "reconstructed": example_names(trained) if is_image else "",
        "samples": samples(trained) if is_image else None,
    }


def score_rows(scores: Scores) -> list[ScoreRow]:
    """One row per value, grouped by metric."""
    rows: list[ScoreRow] = []
    for label, score in scores.items():
        entry, _ = metric_registry.parse(label)
        for key, value in score.values.items():
            better = f"{'higher' if entry.is_higher_better(key) else 'lower'} is better"
            references = {kind: v[key] for kind, v in score.references.items() if key in v}
            large = len(references) == 3 or entry.name == "reconstruction"
            card = large and key == next(iter(score.values))
            title, note = value_title(label, key), scores.note(label)
            rows.append(ScoreRow(title, value, better, references, card, note))
    return rows


def shown_latents(latents: Sequence[LatentDescription]) -> Sequence[LatentDescription]:
    """The active latents; all of them if none is active."""
    return [one for one in latents if one.active] or latents


def latent_rows(trained: TrainedRun, latents: Sequence[LatentDescription]) -> list[LatentRow]:
    """The latents with traversals of one example."""
    if len(trained.data.shape) != 3:
        changes = column_changes(trained, PICTURE_SEED)
        return [LatentRow(one, columns=changes[one.number]) for one in latents]
    model, examples = random_examples(trained.model, trained.data, 1, PICTURE_SEED)
    images = traversal_images(model, examples[0])
    return [LatentRow(one, _grid_url(images[one.number][None])) for one in latents]


def reconstructions(trained: TrainedRun) -> str:
    """A picture of rows of images, each above its reconstructions."""
    pair = random_examples(trained.model, trained.data, N_RECONSTRUCTIONS, PICTURE_SEED)
    images = reconstruction_images(*pair)  # (2, N, channels, H, W)
    rows = [images[:, k : k + ACROSS] for k in range(0, N_RECONSTRUCTIONS, ACROSS)]
    return _grid_url(np.concatenate(rows))


def example_names(trained: TrainedRun) -> str:
    """What the examples of `reconstructions` are called; empty if they have no names."""
    data = trained.data
    index = data.sample_indices(N_RECONSTRUCTIONS, np.random.default_rng(PICTURE_SEED))
    return ", ".join(map(data.example_name, index)) if data.example_names else ""


def samples(trained: TrainedRun) -> str:
    """A picture of samples from the prior."""
    return _grid_url(sample_images(trained.model, SAMPLE_ROWS, SAMPLE_COLUMNS, PICTURE_SEED))


def _grid_url(images: ImageArray) -> str:
    """(R, C, channels, H, W) images as the data URL of one picture."""
    return data_url(encode_png(image_grid(images)))


@styled
def loss_curves(trained: TrainedRun) -> str:
    """The terms of the loss during training, as SVG; without constants of their estimators."""
    svg = draw_svg(history(trained))
    return themed(svg[svg.index("<svg") :])
