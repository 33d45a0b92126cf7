"""Publish a run's model on the Hugging Face Hub, with a page made from the run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from untwine import __version__
from untwine.catalogue.entries import citations, without_examples
from untwine.records import ModelCard
from untwine.registry import Entry, datasets, likelihoods, metrics, models, networks, value_name
from untwine.runs.directory import TrainedRun, open_run, read_scores
from untwine.runs.hub import HubAddress, upload_folder
from untwine.schema import format_value
from untwine.tools.files import write_bytes
from untwine.tools.tables import markdown_rows

REFERENCES = {"random": "noise", "rotated": "rotated factors", "perfect": "true factors"}


def push(
    run: str | Path,
    repository: str,
    *,
    revision: str | None = None,
    licence: str = "",
    private: bool = False,
    endpoint: str | None = None,
) -> HubAddress:
    """Upload the model of a finished run to the Hugging Face Hub, and return its address.

    The repository gets model.json, model.safetensors and README.md, the page of the model. The
    run's data, its paths and its history are not uploaded.

    Args:
        run: its directory.
        repository: `ORG/NAME`; created if it does not exist.
        revision: branch to write to; by default the main one.
        licence: of the weights, as the Hub names it: `apache-2.0`, `cc-by-4.0`, ...
        private: make a new repository private.
        endpoint: address of the Hub; by default HF_ENDPOINT, or the public one.
    """
    trained = open_run(run)
    with tempfile.TemporaryDirectory() as place:
        folder = trained.model.save(place)
        page = model_page(trained, repository, licence=licence)
        write_bytes(folder / "README.md", page.encode())
        return upload_folder(
            folder,
            repository,
            message=f"{trained.spec.directory}, by untwine {__version__}",
            revision=revision,
            private=private,
            endpoint=endpoint,
        )


def model_page(trained: TrainedRun, repository: str, *, licence: str = "") -> str:
    """The Markdown page of a run's model: equation, data, scores, how to load it, BibTeX."""
    card = trained.model.card
    assert card is not None, "the model of a run has a card"
    parts = [models[part.name] for part in card.model]
    title = " + ".join(part.title for part in parts)
    data = card.data or trained.spec.data.name
    sections = [
        _front_matter(licence),
        f"# {title} on {data}",
        f"A variational autoencoder with {card.latent} latents, trained with untwine "
        f"{trained.record['versions']['untwine']}.",
        _how_to_load(repository, card),
        "## Model",
        *map(_describe_part, parts),
        "## Training",
        _training_table(trained, data),
        "## Scores",
        _score_table(trained),
    ]
    if entries := citations(card.model_name):
        sections += ["## Citation", "```bibtex\n" + "\n\n".join(entries) + "\n```"]
    return "\n\n".join(sections) + "\n"


def _front_matter(licence: str) -> str:
    lines = ["library_name: untwine", *([f"license: {licence}"] if licence else [])]
    tags = ["variational-autoencoder", "representation-learning", "disentanglement"]
    return "\n".join(["---", *lines, "tags:", *(f"- {tag}" for tag in tags), "---"])


def _how_to_load(repository: str, card: ModelCard) -> str:
    sizes = ", ".join(map(str, ("N", *card.shape)))
    labels = {name: levels[0] for name, levels in card.labels.items()}
    choose_labels = [f"model = model.given({labels})  # labels of the examples"] if labels else []
    return "\n".join(
        [
            "```python",
            "import untwine  # pip install 'untwine[hub]'",
            "",
            f'model = untwine.load("hf://{repository}")',
            *choose_labels,
            f"codes = model.encode(x)  # x: ({sizes}) floats",
            "samples = model.sample(16)",
            "```",
        ]
    )


def _describe_part(entry: Entry) -> str:
    source = f"[{entry.paper}]({entry.url})" if entry.url else entry.paper
    return f"**{entry.title}** ({source})\n\n```text\n{without_examples(entry)}\n```"


def _training_table(trained: TrainedRun, data: str) -> str:
    """The pieces and numbers of a run; files and folders are named without their places."""
    spec = trained.spec
    rows = [("model", models.expression(part)) for part in spec.model]
    rows += [
        ("data", f"{data}: {datasets[spec.data.name].title}"),
        ("network", networks.expression(spec.network)),
        ("likelihood", likelihoods.expression(spec.likelihood)),
    ]
    numbers = {**spec.numbers, **spec.training.changed()}
    rows += [(name.replace("_", " "), format_value(value)) for name, value in numbers.items()]
    rows.append(("final loss", f"{trained.history[-1]['loss']:.6g}"))
    return markdown_rows(["", ""], [[name, f"`{value}`"] for name, value in rows])


def _score_table(trained: TrainedRun) -> str:
    """Stored scores beside those of reference codes on the same examples."""
    stored = read_scores(trained.path)
    if not stored:
        return f"None yet: `untwine evaluate {trained.path.name}`, then push again."
    rows: list[list[str]] = []
    for metric, score in stored.items():
        higher = metrics[metrics.read(metric).name].metadata["higher_is_better"]
        for key, value in score["values"].items():
            others = (score["references"].get(kind, {}).get(key) for kind in REFERENCES)
            cells = ["–" if other is None else f"{other:.4g}" for other in others]
            better = "higher" if higher else "lower"
            rows.append([value_name(metric, key), f"**{value:.4g}**", *cells, better])
    note = "Reference codes are scored on the same examples: noise, and the true factors, rotated "
    header = ["score", "this model", *REFERENCES.values(), "better"]
    return f"{note}and as they are.\n\n{markdown_rows(header, rows)}"
