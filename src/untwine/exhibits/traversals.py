"""What latents do, in pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from untwine import pictures
from untwine.evidence import Evidence, Runs, opened_models, value_of
from untwine.exhibits import exhibit
from untwine.exhibits.tables import mean_and_spread
from untwine.pages import Section, file_name

STEPS, REACH = 11, 2.5  # of a traversal
SHOWN = 8  # latents of a traversal


@exhibit
def traversals(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    scores: Sequence[str] = (),
    seed: int = 0,
) -> Iterator[Section]:
    """Images as one latent at a time moves; a picture for each model, its busiest latents first."""
    from untwine.representation import Representation

    for name, finished in opened_models(evidence, study, runs, seed):
        model, data = finished.model, finished.data
        seen = Representation(model, data, n=min(1_000, len(data)), device="cpu")
        order = [int(d) for d in np.argsort(-seen.kl)[:SHOWN]]
        start = data.take(data.draw(1, np.random.default_rng(seed)))[0]
        images = model.traverse(start, torch.linspace(-REACH, REACH, STEPS), order)
        told = ", ".join(f"{seen.kl[d]:.1f}" for d in order)
        row = evidence.select(study, runs[name])
        values = ", ".join(f"{s} {mean_and_spread(value_of(row, s))}" for s in scores)
        yield Section(
            file_name("traversals", study, str(row["setting"].iloc[0])),
            name,
            f"On {evidence.heading(study)}. One latent a row, from −{REACH} to {REACH}, those that "
            f"say most first ({told} nats)." + (f" {values}." if values else ""),
            picture=pictures.grid(images.numpy()),
        )
