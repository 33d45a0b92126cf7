"""Samples and traversals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from untwine.plot.images import TRAVERSAL_REACH, traversal_images
from untwine.reproduce.evidence import Evidence, Runs, available, open_models, value_of
from untwine.reproduce.exhibits.tables import mean_and_spread
from untwine.reproduce.registry import exhibit
from untwine.tools.images import ByteArray, ImageArray, enlarge, image_grid
from untwine.tools.pages import Section, file_name

MAX_TRAVERSED = 8  # latents of a traversal


@exhibit
def samples(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    scores: Mapping[str, str] | None = None,
    rows: int = 4,
    columns: int = 12,
    seed: int = 0,
) -> Iterator[Section]:
    """Random samples of each model, after random examples of the data.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: name of each model in the paper, and a description of its runs.
        scores: scores to give for each model, by display name: mean and spread over seeds.
        rows: of each picture.
        columns: of each picture.
        seed: of the models and of the samples.
    """
    models = available(evidence, study, runs)
    about = f"On {evidence.heading(study)}."
    data = evidence.open_model(study, next(iter(models.values())), seed).data
    real = data.take(data.sample_indices(rows * columns, np.random.default_rng(seed)))
    data_sheet = _sheet(file_name("data", study), "Data", f"{about} Random examples.", real, rows)
    yield replace(data_sheet, shows_data=True)
    for name, description in models.items():
        run = evidence.open_model(study, description, seed)
        table = evidence.select(study, description)
        values = [f"{s} {mean_and_spread(value_of(table, v))}" for s, v in (scores or {}).items()]
        sentence = f"Random samples, not selected, of the model with seed {run.spec.seed}."
        sentence += f" Over seeds: {', '.join(values)}." if values else ""
        images = run.model.sample(rows * columns, seed=seed)
        yield _sheet(file_name("samples", study, name), name, sentence, images, rows)


def _sheet(name: str, title: str, sentence: str, images: torch.Tensor, rows: int) -> Section:
    sheet = images.unflatten(0, (rows, -1)).numpy()
    return Section(name, title, sentence, picture=draw_images(sheet))


def draw_images(images: ImageArray) -> ByteArray:
    """Draw (R, C, channels, H, W) images, large enough to be looked at."""
    return enlarge(image_grid(images), images.shape[-1])


@exhibit
def traversals(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    scores: Sequence[str] = (),
    seed: int = 0,
) -> Iterator[Section]:
    """Images as one latent at a time varies, most informative first; a picture for each model."""
    from untwine.scoring.latents import run_latents

    for name, run in open_models(evidence, study, runs, seed):
        model, data = run.model, run.data
        nats = run_latents(run).nats
        order = [int(d) for d in np.argsort(-nats)[:MAX_TRAVERSED]]
        start = data.take(data.sample_indices(1, np.random.default_rng(seed)))[0]
        images = traversal_images(model, start, order)
        information = ", ".join(f"{nats[d]:.1f}" for d in order)
        row = evidence.select(study, runs[name])
        values = ", ".join(f"{s} {mean_and_spread(value_of(row, s))}" for s in scores)
        yield Section(
            file_name("traversals", study, str(row["setting"].iloc[0])),
            name,
            f"On {evidence.heading(study)}. One latent per row, from −{TRAVERSAL_REACH} to "
            f"{TRAVERSAL_REACH}, most informative first ({information} nats)."
            + (f" {values}." if values else ""),
            picture=draw_images(images),
        )
