"""What models draw, and what they make of given images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from untwine import pictures
from untwine.evidence import Evidence, Runs, present, value_of
from untwine.exhibits import exhibit
from untwine.exhibits.tables import mean_and_spread
from untwine.pages import Section, file_name
from untwine.schema import Value


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
        evidence: what our runs found.
        study: whose runs.
        runs: the paper's name of a model, and which runs it is.
        scores: what is told of each model, by the name shown: mean and spread over seeds.
        rows: of each picture.
        columns: of each picture.
        seed: of the models that are shown, and of what they draw.
    """
    there = present(evidence, study, runs)
    about = f"On {evidence.heading(study)}."
    data = evidence.opened(study, next(iter(there.values())), seed).data
    real = data.take(data.draw(rows * columns, np.random.default_rng(seed)))
    yield _sheet(file_name("data", study), "Data", f"{about} Random examples.", real, rows)
    for name, described in there.items():
        finished = evidence.opened(study, described, seed)
        found = evidence.select(study, described)
        told = [f"{s} {mean_and_spread(value_of(found, v))}" for s, v in (scores or {}).items()]
        drawn = f"Random samples, none left out, of the model of seed {finished.spec.seed}."
        sentence = f"{drawn} Over seeds: {', '.join(told)}." if told else drawn
        images = finished.model.sample(rows * columns, seed=seed)
        yield _sheet(file_name("samples", study, name), name, sentence, images, rows)


def _sheet(name: str, title: str, sentence: str, images: torch.Tensor, rows: int) -> Section:
    sheet = images.unflatten(0, (rows, -1)).numpy()
    return Section(name, title, sentence, picture=pictures.grid(sheet))


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
    """The same images as each model reconstructs them; a picture for each dataset.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: the paper's name of a model, and which runs it is.
        data: a title, and what of the run's data is changed, as in `{split: test}`.
        columns: how many images.
        seed: of the models and of the choice of images.
    """
    from untwine.measures._varied import varied

    there = present(evidence, study, runs)
    opened = [evidence.opened(study, described, seed) for described in there.values()]
    order = ", ".join(["the images", *there])
    for title, changes in data.items():
        other = varied(opened[0].spec.data, **changes)
        images = other.take(other.draw(columns, np.random.default_rng(seed)))
        sheet = [images, *(finished.model.reconstruct(images) for finished in opened)]
        yield Section(
            file_name("reconstructions", study, title),
            title,
            f"On {evidence.heading(study)}. Rows from above: {order}.",
            picture=pictures.grid(torch.stack(sheet).numpy()),
        )
