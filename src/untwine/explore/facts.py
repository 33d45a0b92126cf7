"""What is said of a run in words and numbers: its latents, clusters and scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from untwine.explore.answers import Cluster, FactorFacts, Facts, LatentFacts, ScoreLine
from untwine.explore.spaces import factor_differences, reach
from untwine.models.tgm_vae import TruncatedMixture
from untwine.registry import metrics, models
from untwine.report import ACTIVE, command, data_name, parameters
from untwine.runs import read_scores, value_name
from untwine.vae import VAE

if TYPE_CHECKING:
    from untwine.explore.look import Look

DRAWS = 4000  # from the prior, to see how far it reaches
MEMBERS = 12  # of a cluster that are named
COMMON, FREQUENT = 3, 0.25  # factors that are told of a cluster; share of its members
TELLING = 0.02  # share of a factor's entropy from which a latent is said to know of it


def facts_of(look: Look) -> Facts:
    """What a page must know before it shows anything."""
    spec, factors = look.finished.spec, look.data.factors
    entries = [models[part.name] for part in spec.model]
    named = () if factors is None else zip(factors.names, factors.sizes, strict=True)
    return Facts(
        name=look.name,
        title=" + ".join(entry.title for entry in entries),
        about=" ".join(entry.summary for entry in entries),
        data=data_name(spec),
        parameters=list(parameters(spec)),
        command=command(spec),
        shape=list(look.data.shape),
        tile=look.tile,
        latents=_latents(look),
        factors=[FactorFacts(name=name, levels=size) for name, size in named],
        clusters=look.handle.layout.clusters,
        shared=look.handle.layout.shared,
        examples=len(look.index),
    )


def _latents(look: Look) -> list[LatentFacts]:
    """Every latent, the one that says most first."""
    encoded, known = look.encoded(), look.knowledge()
    low, high = reach([encoded.codes, look.handle.draw(DRAWS, 0)])
    found: list[LatentFacts] = []
    for d in np.argsort(-encoded.nats, kind="stable"):
        factor, share = "", 0.0
        active = bool(encoded.nats[d] >= ACTIVE)
        if active and look.data.factors is not None:
            best = int(known[d].argmax())
            if known[d, best] >= TELLING:
                factor, share = look.data.factors.names[best], float(known[d, best])
        found.append(
            LatentFacts(
                number=int(d),
                part=look.handle.layout.parts[d],
                nats=float(encoded.nats[d]),
                active=active,
                factor=factor,
                share=share,
                low=low[d],
                high=high[d],
            )
        )
    return found


def clusters_of(look: Look) -> list[Cluster]:
    """What is in each cluster of a model that has them."""
    assigned, every = look.encoded().clusters, look.sampled_levels()
    assert assigned is not None, "asked only of models with clusters"
    found: list[Cluster] = []
    for number in range(look.handle.layout.clusters):
        inside = np.flatnonzero(assigned == number)
        most = ["outliers, set aside"] if _is_outside(look.handle.model, number) else []
        if len(inside) and look.data.factors is not None:
            differing = factor_differences(look.data.factors, every[inside], every)
            common = [one for one in differing if one.share >= FREQUENT][:COMMON]
            most += [f"{one.factor} = {one.level} ({100 * one.share:.0f} %)" for one in common]
        found.append(
            Cluster(
                number=number,
                share=len(inside) / len(assigned),
                members=look.index[inside[:MEMBERS]].tolist(),
                most=most,
            )
        )
    return found


def _is_outside(model: VAE, number: int) -> bool:
    """Whether a cluster holds what belongs to none."""
    return isinstance(model.latents, TruncatedMixture) and number == len(model.latents.means)


def score_lines(path: Path) -> list[ScoreLine]:
    """The scores that a run keeps."""
    found: list[ScoreLine] = []
    for label, kept in read_scores(path).items():
        entry, _ = metrics.parse(label)
        variant = label.removeprefix(entry.name)
        title = f"{entry.title} {variant}".strip()
        for place, (key, value) in enumerate(kept["values"].items()):
            name = value_name(label, key)
            references = {
                kind: values[key] for kind, values in kept["references"].items() if key in values
            }
            better = "higher" if entry.facts["higher_is_better"] else "lower"
            found.append(
                ScoreLine(
                    name=name,
                    title=title if name == label else f"{title}: {key.replace('_', ' ')}",
                    value=value,
                    # Of a metric's further values only those are scores that other codes have too.
                    better=better if references or not place else "",
                    references=references,
                )
            )
    return found
