"""The report of a finished run: one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.latents import code_layout, sample_examples, summarise_latents
from untwine.plot.curves import history
from untwine.plot.images import (
    random_examples,
    reconstruction_images,
    sample_images,
    traversal_images,
)
from untwine.records import LatentProfile
from untwine.registry import models
from untwine.report.columns import ColumnChange, column_changes, column_errors
from untwine.report.findings import what_was_learned
from untwine.runs.cards import spec_rows
from untwine.runs.describe import data_label, strip_folders, train_command, without_folders
from untwine.runs.directory import TrainedRun, open_run
from untwine.scoring.cards import by_question, score_rows
from untwine.scoring.evaluation import (
    evaluate_representation,
    examples_of_scores,
    represent_run,
    score_metrics,
)
from untwine.scoring.latents import (
    N_RANGE_CODES,
    LatentDescription,
    describe_latents,
    factor_shares,
    film_changes,
    run_latents,
)
from untwine.scoring.representation import Representation
from untwine.scoring.scores import Names, Scores
from untwine.settings import Settings
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
    profiles = summarise_latents(statistics)
    changes = _film_changes(trained, profiles)
    latents = describe_latents(profiles, parts, shares, names, changes)
    rows = score_rows(scores)
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
        learned=what_was_learned(
            latents, shares, names, trained.shown_history(), scores, trained.model.labels
        ),
        n_examples=len(representation.index),
        scores=rows,
        questions=by_question(rows),
        latents=latent_rows(trained, latents),
        n_sample=len(statistics.codes),
        information=[(one, shares[one.number].tolist()) for one in latents if names],
        factors=names,
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


def _film_changes(trained: TrainedRun, profiles: Sequence[LatentProfile]) -> NDArray[np.float64]:
    """(D,) how much each latent changes what is decoded."""
    model = trained.model.given_in_turn()
    codes = model.sample_latents(N_RANGE_CODES, seed=0).cpu().numpy()
    return film_changes(
        lambda z: model.decode_latents(torch.from_numpy(z)).cpu().numpy(), codes, profiles
    )


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
    return themed(draw_svg(history(trained)))
