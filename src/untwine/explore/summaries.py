"""Descriptions of a run: its latents, clusters and scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from untwine.explore.answers import (
    Cluster,
    FactorSummary,
    LabelSummary,
    LatentSummary,
    RunSummary,
    ScoreLine,
)
from untwine.explore.spaces import factor_differences, slider_range
from untwine.latents import central_range
from untwine.registry import metrics, models
from untwine.runs.cards import spec_rows
from untwine.runs.describe import data_label, train_command
from untwine.runs.directory import read_scores, value_name
from untwine.scoring.scores import value_title

if TYPE_CHECKING:
    from untwine.explore.sample import RunSample

N_PRIOR_DRAWS = 4000  # for the range of sliders
MAX_MEMBERS = 12  # examples listed for a cluster
MAX_COMMON_FACTORS = 3  # listed for a cluster
MIN_COMMON_SHARE = 0.25  # of a cluster's members


def run_summary(sample: RunSample) -> RunSummary:
    """The description of a run that every view of the page needs."""
    spec, factors = sample.trained.spec, sample.factors_of_data
    entries = [models[part.name] for part in spec.model]
    named = () if factors is None else zip(factors.names, factors.sizes, strict=True)
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
        factors=[FactorSummary(name=name, levels=size) for name, size in named],
        labels=[
            LabelSummary(name=name, levels=list(levels))
            for name, levels in sample.shared_model.labels.items()
        ],
        clusters=sample.shared_model.layout.clusters,
        shared=sample.shared_model.layout.shared,
        examples=len(sample.index),
        missing=sample.missing,
    )


def _latent_summaries(sample: RunSample) -> list[LatentSummary]:
    """Every latent with the range of its slider, the most informative first."""
    drawn = sample.shared_model.sample_codes(N_PRIOR_DRAWS, 0)
    profiles = sample.profiles()
    coded = [one.low for one in profiles], [one.high for one in profiles]
    low, high = slider_range([coded, central_range(drawn)])
    return [
        LatentSummary(
            number=latent.number,
            part=latent.part,
            nats=latent.nats,
            exact=latent.exact,
            active=latent.active,
            factor=latent.factor,
            share=latent.share,
            low=low[latent.number],
            high=high[latent.number],
        )
        for latent in sample.describe_latents()
    ]


def describe_clusters(sample: RunSample) -> list[Cluster]:
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
            most += [f"{one.factor} = {one.level} ({100 * one.share:.0f} %)" for one in common]
        clusters.append(
            Cluster(
                number=number,
                share=len(inside) / len(assigned),
                members=sample.index[inside[:MAX_MEMBERS]].tolist(),
                most=most,
            )
        )
    return clusters


def score_lines(path: Path) -> list[ScoreLine]:
    """The scores stored in a run's directory."""
    lines: list[ScoreLine] = []
    for label, stored in read_scores(path).items():
        entry, _ = metrics.parse(label)
        mark = " (unreliable)" if entry.unreliable(stored["values"]) else ""
        for position, (key, value) in enumerate(stored["values"].items()):
            references = {
                kind: values[key] for kind, values in stored["references"].items() if key in values
            }
            better = "higher" if entry.is_higher_better(key) else "lower"
            lines.append(
                ScoreLine(
                    name=value_name(label, key),
                    title=value_title(label, key) + mark,
                    value=value,
                    # A metric's further values are scores only if the reference codes have them.
                    better=better if references or not position else "",
                    references=references,
                )
            )
    return lines
