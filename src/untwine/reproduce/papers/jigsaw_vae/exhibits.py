"""Tables and figures of Jigsaw-VAE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from untwine.reproduce.evidence import Evidence, Runs, available
from untwine.reproduce.exhibits.curves import lines
from untwine.reproduce.exhibits.pictures import draw_images
from untwine.reproduce.exhibits.tables import MISSING, mean_and_spread
from untwine.reproduce.registry import exhibit
from untwine.schema import Value
from untwine.study.statistics import Table
from untwine.tools.pages import Section, file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@exhibit
def feature_shares(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    paper: Mapping[str, float | None],
    label: str = "features",
) -> Iterator[Section]:
    """The share of each feature in data and samples, in per cent.

    Args:
        evidence: results of the studies, with the measure `features`.
        study: name of the study.
        runs: name of each model in the paper, and a description of its runs.
        paper: the features, and their shares in the paper's data.
        label: of the measure.
    """
    tables = {n: evidence.select(study, d) for n, d in available(evidence, study, runs).items()}
    any_run = next(iter(tables.values())).iloc[:1]
    rows = [
        (
            name,
            MISSING if share is None else str(share),
            mean_and_spread(any_run[f"{label}.{name} in data"]),
            mean_and_spread(any_run[f"{label}.{name} in real"]),
            *(mean_and_spread(table[f"{label}.{name} in samples"]) for table in tables.values()),
        )
        for name, share in paper.items()
    ]
    accuracy = float(any_run[f"{label}.accuracy"].iloc[0])
    floor = float(any_run[f"{label}.average of real"].iloc[0])
    yield Section(
        f"feature-shares-{study}",
        "Share of images with each feature, in per cent",
        f"On {evidence.heading(study)}. In data: by the labels. In real: by the classifier, in "
        f"held-out real images, on which its accuracy is {accuracy:.1f} %. These images have an "
        f"average FPM of {floor:.2f}; smaller values of a model are meaningless. Last: by the "
        "classifier, in samples of each model.",
        header=("", "in data, paper", "in data, ours", "in real", *tables),
        rows=tuple(rows),
    )


@exhibit
def classifier_quality(
    evidence: Evidence,
    *,
    study: str,
    runs: Runs,
    features: Sequence[str],
    label: str = "features",
) -> Iterator[Section]:
    """How well the classifier sees each feature in held-out images; the same for all models.

    Args:
        evidence: results of the studies, with the measure `features`.
        study: name of the study.
        runs: a description of runs; the first is read.
        features: their names.
        label: of the measure.
    """
    table = evidence.select(study, runs).iloc[:1]
    kinds = ("recall", "precision", "auc")

    def cell(kind: str, name: str) -> str:
        score = f"{label}.{kind} of {name}"
        return mean_and_spread(table[score]) if score in table else MISSING

    yield Section(
        f"classifier-{study}",
        "How well the classifier sees each feature",
        f"On {evidence.heading(study)}, in held-out images at a probability of ½.",
        header=("", "recall", "precision", "AUC"),
        rows=tuple((name, *(cell(kind, name) for kind in kinds)) for name in features),
    )


@exhibit
def interpolations(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    feature: str,
    features: Mapping[str, Sequence[str]],
    steps: int = 7,
    pairs: int = 3,
    label: str = "paths",
    seed: int = 0,
) -> Iterator[Section]:
    """Interpolations from images with a feature to images without, a row for each model.

    Then the probability of the feature along the path, from the measure `paths` with the same
    parameters, under this label.
    """
    from untwine.reproduce.papers.jigsaw_vae.measures import (
        feature_classifier,
        interpolate,
        path_ends,
    )

    descriptions = available(evidence, study, runs)
    models = {n: evidence.open_model(study, d, seed) for n, d in descriptions.items()}
    ends = path_ends(feature_classifier(next(iter(models.values())).data, features), feature, pairs)
    first, last = (torch.tensor(images) for images in ends)
    paths = [interpolate(run.model, first, last, steps) for run in models.values()]
    order = ", ".join(models)
    for pair in range(len(first)):
        rows = [_interpolation_row(first[pair], images[pair], last[pair]) for images in paths]
        yield Section(
            file_name("interpolations", study, str(pair + 1)),
            f"From {feature.lower()} to none, pair {pair + 1}",
            f"On {evidence.heading(study)}. Left and right: real images, held out from the "
            "classifier's training. Between them: the straight path between their codes. Rows from "
            f"the top: {order}.",
            picture=draw_images(torch.stack(rows).numpy()),
            shows_data=True,
        )
    tables = {name: evidence.select(study, d) for name, d in descriptions.items()}
    yield Section(
        file_name("probability", study, feature),
        f"Probability of {feature.lower()} along the path",
        "By the classifier, averaged over all pairs; mean and standard deviation over seeds. "
        "Dotted: the real images at the start of the paths.",
        _probability_figure(tables, feature, label, steps),
    )


def _interpolation_row(first: Tensor, path: Tensor, last: Tensor) -> Tensor:
    """Return (S + 2, C, H, W) a path with the real images at its ends."""
    return torch.cat([first[None], path, last[None]])


def _probability_figure(
    tables: Mapping[str, Table], feature: str, label: str, steps: int
) -> Figure:
    figure = lines(tables, {str(step): f"{label}.at {step}" for step in range(1, steps + 1)})
    axis = figure.axes[0]
    real = next(iter(tables.values()))[f"{label}.real"].mean()
    axis.axhline(real, color="grey", linewidth=0.8, linestyle=":")
    axis.set(xlabel="step of the path", ylabel=f"probability of {feature.lower()}", ylim=(0, 1.02))
    return figure


@exhibit
def profile(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    scores: Mapping[str, str],
    title: str,
    x: str = "",
    y: str = "",
) -> Iterator[Section]:
    """A line for each model through several scores, with the spread over seeds.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: name of each model in the paper, and a description of its runs.
        scores: tick label of each score, and the score.
        title: of the figure.
        x: label of the horizontal axis.
        y: label of the vertical axis.
    """
    tables = {n: evidence.select(study, d) for n, d in available(evidence, study, runs).items()}
    figure = lines(tables, scores)
    figure.axes[0].set(xlabel=x, ylabel=y)
    yield Section(
        file_name("profile", study, title),
        title,
        f"On {evidence.heading(study)}. Mean and standard deviation over seeds.",
        figure,
    )


@exhibit
def reconstructions(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    data: Mapping[str, Mapping[str, Value]],
    columns: int = 20,
    seed: int = 0,
) -> Iterator[Section]:
    """Reconstructions of the same images by each model; a picture for each dataset.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: name of each model in the paper, and a description of its runs.
        data: title of each picture, and changes to the run's data, such as `{split: test}`.
        columns: number of images.
        seed: of the models and of the choice of images.
    """
    from untwine.data.opening import reopen_with

    descriptions = available(evidence, study, runs)
    trained = [evidence.open_model(study, d, seed) for d in descriptions.values()]
    order = ", ".join(["the images", *descriptions])
    for title, changes in data.items():
        other = reopen_with(trained[0].spec.data, **changes)
        images = other.take(other.sample_indices(columns, np.random.default_rng(seed)))
        sheet = [images, *(run.model.reconstruct(images) for run in trained)]
        yield Section(
            file_name("reconstructions", study, title),
            title,
            f"On {evidence.heading(study)}. Rows from the top: {order}.",
            picture=draw_images(torch.stack(sheet).numpy()),
        )
