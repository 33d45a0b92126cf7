"""One self-contained HTML page that shows a finished run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from untwine import pictures
from untwine.pages import render
from untwine.registry import metrics, models
from untwine.representation import Representation
from untwine.runs import Finished, open_run
from untwine.schema import written
from untwine.scoring import evaluate_run
from untwine.spec import Run
from untwine.store import write_bytes
from untwine.vae import forked

ACTIVE = 0.05  # nats of KL below which a latent counts as unused
REACH, TRAVERSAL_STEPS = 2.5, 11
SHOWN, SEED = 16, 1


@dataclass(frozen=True)
class LatentRow:
    """One latent in the report."""

    number: int
    kl: float
    factor: str  # the factor it knows most of, if any
    share: float  # of that factor's entropy
    picture: str

    @property
    def active(self) -> bool:
        return self.kl >= ACTIVE


@dataclass(frozen=True)
class ScoreRow:
    """One score with the references between which it lies."""

    title: str
    value: float
    better: str
    references: dict[str, float]
    card: bool  # shown large: what a metric is known for

    def place(self, value: float) -> float:
        """Where a value stands between 0 and the perfect code's score, in percent."""
        top = self.references["perfect"]
        return 100 * min(1.0, max(0.0, value / top)) if top > 0 else 0.0


def write_report(path: str | Path, *, n: int = 10_000, quiet: bool = True) -> Path:
    """Write `report.html` into the directory of a finished run, scoring it where needed.

    Returns:
        the file
    """
    path = Path(path)
    finished = open_run(path)
    scores = score_rows(path, n, quiet)
    representation = Representation(
        finished.model, finished.data, n=n, quiet=quiet, chunk=finished.spec.batch
    )
    information = information_matrix(representation)
    is_image = len(finished.data.shape) == 3
    rows = latent_rows(finished, representation, information) if is_image else []
    html = render(
        "report.html",
        title=" + ".join(models[part.name].title for part in finished.spec.model),
        data=data_name(finished.spec),
        unit="pixel" if is_image else "number",
        spec=finished.spec,
        parameters=parameters(finished.spec),
        command=command(finished.spec),
        facts=finished.facts,
        examples=n,
        scores=scores,
        latents=sorted(rows, key=lambda row: -row.kl),
        information=[] if information is None else by_kl(information, representation.kl),
        factors=finished.data.factors.names if finished.data.factors else (),
        reconstructions=reconstructions(finished) if is_image else None,
        samples=samples(finished) if is_image else None,
        curves=loss_curves(finished),
        spec_json=json.dumps(finished.spec.to_json(), indent=2),
    )
    file = path / "report.html"
    write_bytes(file, html)
    return file


def score_rows(path: Path, n: int, quiet: bool) -> list[ScoreRow]:
    rows: list[ScoreRow] = []
    for label, found in evaluate_run(path, n=n, quiet=quiet).items():
        entry, _ = metrics.parse(label)
        first = next(iter(found.values))
        for key, value in found.values.items():
            references = {kind: v[key] for kind, v in found.references.items() if key in v}
            card = key == first and (len(references) == 3 or entry.name == "reconstruction")
            better = "higher is better" if entry.facts["higher_is_better"] else "lower is better"
            variant = label.removeprefix(entry.name)
            name = f"{entry.title} {variant}".strip()
            alone = key.replace("_", "-") == entry.name
            title = name if alone else f"{name}: {key.replace('_', ' ')}"
            rows.append(ScoreRow(title, value, better, references, card))
    return rows


def information_matrix(representation: Representation) -> NDArray[np.float64] | None:
    """(D, K) the share of each factor's entropy that each latent knows, or nothing."""
    from untwine.metrics._information import discretise, entropy, mutual_information

    if representation.data.factors is None:
        return None
    factors = representation.factors
    known = mutual_information(discretise(representation.codes, 20), factors)
    whole = entropy(factors)
    return known / np.where(whole > 0, whole, 1)


def by_kl(matrix: NDArray[np.float64], kl: NDArray[np.floating]) -> list[tuple[int, list[float]]]:
    """The rows of a matrix with their latent's number, the latent that says most first."""
    order = np.argsort(-kl) if len(kl) == len(matrix) else np.arange(len(matrix))
    return [(int(d), matrix[d].tolist()) for d in order]


def latent_rows(
    finished: Finished, representation: Representation, matrix: NDArray[np.float64] | None
) -> list[LatentRow]:
    """What changes in an image as each latent moves from −2.5 to 2.5."""
    data, model = finished.data, finished.model
    with forked(SEED):
        start = data.take(data.draw(1, np.random.default_rng(SEED)))[0].to(representation.device)
    images = model.traverse(start, torch.linspace(-REACH, REACH, TRAVERSAL_STEPS))
    rows: list[LatentRow] = []
    for d, kl in enumerate(representation.kl):
        factor, share = "", 0.0
        if matrix is not None and data.factors is not None and d < len(matrix):
            best = int(matrix[d].argmax())
            factor, share = data.factors.names[best], float(matrix[d, best])
        picture = pictures.inline(pictures.grid(images[d : d + 1].cpu().numpy()))
        rows.append(LatentRow(d, float(kl), factor, share, picture))
    return rows


def reconstructions(finished: Finished) -> str:
    """Images above what the model makes of them."""
    data = finished.data
    with forked(SEED):
        x = data.take(data.draw(SHOWN, np.random.default_rng(SEED)))
    device = next(finished.model.parameters()).device
    pair = torch.stack([x, finished.model.reconstruct(x.to(device)).cpu()])
    return pictures.inline(pictures.grid(pair.numpy()))


def samples(finished: Finished) -> str:
    images = finished.model.sample(4 * SHOWN, seed=SEED).cpu().numpy()
    return pictures.inline(pictures.grid(images.reshape(4, SHOWN, *images.shape[1:])))


def loss_curves(finished: Finished) -> str:
    steps = [row["step"] for row in finished.history]
    names = [name for name in finished.history[0] if name != "step"]
    return pictures.curves(steps, {name: [r[name] for r in finished.history] for name in names})


def data_name(spec: Run) -> str:
    """What the data is called: its name, or that of the file or folder it comes from."""
    return Path(str(spec.data.params.get("path") or spec.data.name)).name


def parameters(spec: Run) -> Sequence[tuple[str, str]]:
    """The specification as pairs to read."""
    pieces = [*spec.model, spec.data, spec.network, spec.likelihood]
    kinds = ["model"] * len(spec.model) + ["data", "network", "likelihood"]
    named = [(kind, str(piece)) for kind, piece in zip(kinds, pieces, strict=True)]
    numbers = {
        "latents": spec.latent,
        "steps": f"{spec.steps:,}",
        "batch": spec.batch,
        "learning rate": spec.lr,
        "seed": spec.seed,
    }
    return [*named, *((name, str(value)) for name, value in numbers.items())]


def command(spec: Run) -> str:
    """The command that makes this run again."""
    own = spec.data.name in {"folder", "array"}  # named by their path
    place = str(spec.data.params["path"]) if own else spec.data.name
    words = ["untwine", "train", spec.model_name, place]
    for piece in [*spec.model, spec.data, spec.network, spec.likelihood]:
        for key, value in piece.params.items():
            if key != "digest" and not (own and key == "path") and value != "":
                words += ["--set", f"{piece.name}.{key}={written(value)}"]
    words += ["--network", spec.network.name, "--likelihood", spec.likelihood.name]
    for name in ("latent", "steps", "batch", "lr", "seed"):
        words += [f"--{name}", written(getattr(spec, name))]
    return shlex.join(words)
