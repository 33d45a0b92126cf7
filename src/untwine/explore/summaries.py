"""Descriptions of a run: its latents, clusters and scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from untwine.data.dataset import Factors
from untwine.explore.answers import (
    Cluster,
    FactorSummary,
    LabelSummary,
    LatentSummary,
    RunSummary,
    ScoreLine,
)
from untwine.explore.model import Index
from untwine.explore.spaces import factor_differences, slider_range
from untwine.latents import central_range
from untwine.registry import models
from untwine.runs.cards import spec_rows
from untwine.runs.describe import data_label, train_command
from untwine.runs.directory import read_scores
from untwine.scoring.cards import QUESTIONS, score_rows
from untwine.scoring.scores import Score, Scores

if TYPE_CHECKING:
    from untwine.explore.rows import RunRows

N_PRIOR_DRAWS = 4000  # for the range of sliders
MAX_MEMBERS = 12  # examples listed for a cluster
MAX_COMMON_FACTORS = 3  # listed for a cluster
MIN_COMMON_SHARE = 0.25  # of a cluster's members


def run_summary(sample: RunRows) -> RunSummary:
    """The description of a run that every view of the page needs."""
    spec, factors = sample.trained.spec, sample.factors_of_data
    entries = [models[part.name] for part in spec.model]
    return RunSummary(
        name=sample.name,
        title=" + ".join(entry.title for entry in entries),
        about=" ".join(entry.summary for entry in entries),
        data=data_label(spec),
        parameters=list(spec_rows(spec)),
        command=train_command(spec),
        shape=list(sample.shape),
        tile=sample.tile,
        latents=_latent_summaries(sample),
        factors=[] if factors is None else _factor_summaries(factors),
        labels=[
            LabelSummary(name=name, levels=list(levels))
            for name, levels in sample.shared_model.labels.items()
        ],
        clusters=sample.shared_model.layout.clusters,
        shared=sample.shared_model.layout.shared,
        measures=sample.measured_names(),
        examples=len(sample.index),
        total=len(sample.data) if sample.has_examples else 0,
        columns=sample.columns(),
        hidden=sample.shape.numel() - len(sample.columns()) if sample.has_rows else 0,
        missing=sample.missing,
    )


def _factor_summaries(factors: Factors) -> list[FactorSummary]:
    return [
        FactorSummary(
            name=name,
            levels=size,
            level_names=list(factors.level_names.get(name, ())),
            ordered=name not in factors.unordered,
        )
        for name, size in zip(factors.names, factors.sizes, strict=True)
    ]


def _latent_summaries(sample: RunRows) -> list[LatentSummary]:
    """Every latent with the range of its slider, the most informative first."""
    drawn = sample.shared_model.sample_codes(N_PRIOR_DRAWS, 0)
    profiles = sample.profiles()
    coded = [one.low for one in profiles], [one.high for one in profiles]
    low, high = slider_range([coded, central_range(drawn)])
    return [
        LatentSummary(
            **vars(latent),
            active=latent.active,
            low=low[latent.number],
            high=high[latent.number],
        )
        for latent in sample.describe_latents()
    ]


def describe_clusters(sample: RunRows) -> list[Cluster]:
    """The clusters of a model with their members in the sample."""
    assigned, every = sample.statistics().clusters, sample.sampled_levels()
    assert assigned is not None, "only models with clusters are described"
    clusters: list[Cluster] = []
    for number in range(sample.shared_model.layout.clusters):
        inside = np.flatnonzero(assigned == number)
        outliers = number == sample.shared_model.model.latents.outlier_cluster
        most = ["outliers, set aside"] if outliers else []
        if len(inside) and sample.data.factors is not None:
            differing = factor_differences(sample.data.factors, every[inside], every)
            common = [one for one in differing if one.share >= MIN_COMMON_SHARE][
                :MAX_COMMON_FACTORS
            ]
            most += [f"{one.factor} = {one.level_name} ({100 * one.share:.0f} %)" for one in common]
        clusters.append(
            Cluster(
                number=number,
                share=len(inside) / len(assigned),
                members=sample.index[inside[:MAX_MEMBERS]].tolist(),
                most=most,
                means=_member_means(sample, inside),
            )
        )
    return clusters


def _member_means(sample: RunRows, inside: Index) -> list[float]:
    """The means of a cluster's members by column of a table; none for images."""
    if not sample.has_rows or not len(inside):
        return []
    rows = [x.numpy() for x in sample.shared_model.each_taken(sample.index[inside])]
    return sample.in_units(np.concatenate(rows)).mean(0).tolist()


def score_lines(path: Path) -> list[ScoreLine]:
    """The scores stored in a run's directory, by question."""
    stored = read_scores(path).items()
    scores = Scores({label: Score(one["values"], one["references"]) for label, one in stored})
    return [
        ScoreLine(
            **{**vars(row), "question": QUESTIONS[row.question]},
            card=row.has_card,
            place=row.place,
            rotated=row.rotated,
        )
        for row in score_rows(scores)
    ]
