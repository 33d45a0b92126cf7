"""Images that models generate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from untwine import pictures
from untwine.evidence import Evidence, value_of
from untwine.exhibits import exhibit
from untwine.exhibits.tables import mean_and_spread
from untwine.pages import Section, file_name


@exhibit
def generated(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, str | Sequence[str]],
    scores: Mapping[str, str] | None = None,
    rows: int = 6,
    columns: int = 12,
    seed: int = 0,
) -> Iterator[Section]:
    """Images drawn from each model's own prior, after some of the data.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: the models, by the name shown.
        scores: what is told of each model, by the name shown: mean over seeds.
        rows: of each picture.
        columns: of each picture.
        seed: of the runs that are shown, and of what they draw.
    """
    for place, (name, described) in enumerate(runs.items()):
        finished = evidence.opened(study, described, seed)
        if not place:
            index = finished.data.draw(rows * columns, np.random.default_rng(seed))
            images = finished.data.take(index).numpy()
            on = f"On {evidence.heading(study)}: examples drawn at random."
            yield Section(file_name("data", study), "Data", on, picture=_sheet(images, columns))
        images = finished.model.sample(rows * columns, seed=seed).numpy()
        found = evidence.select(study, described)
        told = [
            f"{shown} {mean_and_spread(value_of(found, s))}" for shown, s in (scores or {}).items()
        ]
        drawn = f"Samples of the run with seed {seed}, none left out."
        yield Section(
            file_name("generated", study, str(found["setting"].iloc[0])),
            name,
            " ".join([drawn, *([f"Over seeds: {', '.join(told)}."] if told else [])]),
            picture=_sheet(images, columns),
        )


def _sheet(images: np.ndarray, columns: int) -> np.ndarray:
    """(N, C, H, W) images as one picture."""
    return pictures.grid(images.reshape(-1, columns, *images.shape[1:]))
