"""What a latent that a group shares does: grids of pictures, and where batches lie in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine import pictures, study_figures
from untwine.evidence import Evidence, Runs, opened_models, present
from untwine.exhibits import exhibit
from untwine.exhibits.tables import MISSING, mean_and_spread
from untwine.measures.batches import RANDOM, Described, group_codes, kind_of
from untwine.measures.shared import own_prior, pictured, sizes, split_codes
from untwine.pages import Section, file_name
from untwine.statistics import Table
from untwine.vae import VAE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from untwine.runs import Finished

STEPS = 7  # rows and columns of a grid
BESIDE = 8  # pixels between grids
PERPLEXITY = 30
MARKS = ("s", "^", "o", "D", "v", "P", "X")
GREY = "#9aa0aa"  # of random batches


@exhibit
def global_by_local(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    clusters: int = 3,
    reach: float = 1.0,
    local: float = 3.0,
    seed: int = 0,
) -> Iterator[Section]:
    """For the fullest clusters a grid: down what a group shares, across what is an image's own."""
    for name, finished in opened_models(evidence, study, runs, seed):
        shares = _cluster_shares(finished, seed)
        chosen = [int(k) for k in np.argsort(-shares, kind="stable")[:clusters]]
        grids = [cluster_grid(finished.model, k, reach, local) for k in chosen]
        told = ", ".join(f"{100 * shares[k]:.0f} %" for k in chosen)
        held = f" The clusters hold {told} of the images." if len(shares) > 1 else ""
        yield Section(
            file_name("global-by-local", study, name),
            name,
            f"On {evidence.heading(study)}. Down: all shared latents from −{reach:g} to {reach:g}. "
            f"Across: all own latents from {local:g} below to {local:g} above "
            f"{'the mean of a cluster' if held else 'their mean'}.{held}",
            picture=beside([pictures.grid(images.numpy()) for images in grids]),
        )


def _cluster_shares(finished: Finished, seed: int, n: int = 1024) -> NDArray[np.float64]:
    """(K,) how many images belong to each cluster; one for a model without clusters."""
    model, data = finished.model, finished.data
    clusters = own_prior(model, torch.zeros(1, sizes(model)[1])).mean.shape[1]
    if clusters == 1:
        return np.ones(1)
    found = model.assign(data.take(data.draw(n, np.random.default_rng(seed)))).numpy()
    return np.bincount(found, minlength=clusters) / n


def cluster_grid(model: VAE, cluster: int, reach: float, local: float) -> Tensor:
    """(STEPS, STEPS, C, H, W) images as all shared and all own latents move together."""
    d, g = sizes(model)
    shared = torch.linspace(-reach, reach, STEPS)[:, None].expand(-1, g)
    offset = torch.linspace(-local, local, STEPS)[:, None].expand(-1, d)
    own = own_prior(model, shared).mean[:, cluster, None] + offset  # (STEPS, STEPS, D)
    return pictured(model, own, shared[:, None].expand(-1, STEPS, -1))


def beside(grids: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Pictures of one height side by side, white between them.

    >>> beside([np.zeros((4, 5, 3), np.uint8)] * 2).shape
    (4, 18, 3)
    """
    gap = np.full((grids[0].shape[0], BESIDE, grids[0].shape[2]), 255, np.uint8)
    parts = [part for each in grids for part in (gap, each)]
    return np.concatenate(parts[1:], axis=1)


@exhibit
def batch_table(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    rows: Mapping[str, Mapping[str, Any]],
) -> Iterator[Section]:
    """How well machines tell kinds of batches, from what `batch-kinds` measured.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: descriptions by name; of the first also the accuracy on batches learned from.
        rows: by name the `label` of the measure, its `ending`, and the `paper`'s accuracies by
            classifier, learned from and tested; what is before training has `LABEL-untrained`.
    """
    found = {n: evidence.select(study, d) for n, d in present(evidence, study, runs).items()}
    body = [
        (name, title, *_accuracies(found, row, kernel))
        for name, row in rows.items()
        for kernel, title in (("linear", "linear"), ("rbf", "RBF"))
    ]
    first, *others = found
    seeds = evidence.table(study)["seed"].nunique()
    yield Section(
        f"batches-{study}",
        "Kinds of batches told apart by what a batch shares",
        f"On {evidence.heading(study)}. {first}: mean ± standard deviation over {seeds} seeds. "
        "No image is in batches that are learned from and in batches that are tested. Most "
        "frequent: the accuracy of always giving the most frequent kind. Untrained: the same "
        f"network of {first} before its first step.",
        header=(
            "batches",
            "SVM",
            *("learned, paper", first, "tested, paper", first, "most frequent"),
            *(f"{name}, tested" for name in others),
            "untrained, tested",
        ),
        rows=tuple(body),
    )


def _accuracies(found: Mapping[str, Table], row: Mapping[str, Any], kernel: str) -> Iterator[str]:
    """The cells of one classifier."""
    label, ending = row["label"], row.get("ending", "")
    ours, *others = found.values()
    tested = f"{label}.{kernel}{ending}"
    paper = row.get("paper", {}).get(kernel, (MISSING, MISSING))
    yield str(paper[0])
    yield mean_and_spread(ours[f"{label}.{kernel}_train{ending}"])
    yield str(paper[1])
    yield mean_and_spread(ours[tested])
    yield f"{ours[f'{label}.base_rate{ending}'].mean():.2f}"
    yield from (mean_and_spread(other[tested]) for other in others)
    untrained = f"{label}-untrained.{kernel}{ending}"
    yield mean_and_spread(ours[untrained]) if untrained in ours else MISSING


@exhibit
def shared_interpolations(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    between: Mapping[str, Sequence[Described]],
    seed: int = 0,
) -> Iterator[Section]:
    """From an image and batch of one kind to those of another: down β, across the image's own z.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: descriptions by name.
        between: by title the two kinds of batches, see `kind_of`; a grid for each.
        seed: of the run and of the images.
    """
    for name, finished in opened_models(evidence, study, runs, seed):
        made = [interpolated(finished, kinds, seed) for kinds in between.values()]
        yield Section(
            file_name("shared-interpolations", study, name),
            f"{name}: interpolations",
            f"On {evidence.heading(study)}. {_listed(list(between))}. Down: what a batch shares, "
            "from that of a batch of the first kind to one of the second. Across: the own code, "
            "from an image of the first batch to one of the second. Left of each grid the two "
            "images.",
            picture=beside([pictures.grid(images.numpy()) for images in made]),
        )


def _listed(titles: Sequence[str]) -> str:
    text = "; ".join(titles)
    return f"From left to right: {text}" if len(titles) > 1 else text[:1].upper() + text[1:]


def interpolated(finished: Finished, kinds: Sequence[Described], seed: int) -> Tensor:
    """(STEPS, STEPS + 1, C, H, W): the two images at the left ends, and the grid."""
    model, data, size = finished.model, finished.data, finished.spec.batch
    rng = np.random.default_rng(seed)
    batches = [data.take(kind_of(data, kind).batch(size, rng)) for kind in kinds]
    (own, shared), (other, second) = (split_codes(model, x) for x in batches)
    way = torch.linspace(0, 1, STEPS)[:, None]
    down, across = torch.lerp(shared, second, way), torch.lerp(own[0], other[0], way)
    images = pictured(model, across.expand(STEPS, -1, -1), down[:, None].expand(-1, STEPS, -1))
    left = torch.ones(STEPS, 1, *images.shape[2:])
    left[0, 0], left[-1, 0] = batches[0][0], batches[1][0]
    return torch.cat([left, images], 1)


@exhibit
def group_projection(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    kinds: Mapping[str, Mapping[str, Described]],
    batches: int = 60,
    path: Sequence[str] = (),
    seed: int = 0,
) -> Iterator[Section]:
    """Where batches of several kinds lie in the shared space, by t-SNE.

    Args:
        evidence: what our runs found.
        study: whose runs.
        runs: descriptions by name.
        kinds: by the title of a panel the kinds of batches by name, see `kind_of`.
        batches: of each kind.
        path: two names; the straight way between the first batches of these kinds is drawn.
        seed: of the run and of the batches.
    """
    for name, finished in opened_models(evidence, study, runs, seed):
        figure, axes = study_figures.panels(len(kinds), width=4.2, height=3.6)
        for axis, (title, panel) in zip(axes, kinds.items(), strict=True):
            codes = _codes(finished, panel, batches, seed)
            _scatter(axis, codes, path if set(path) <= set(codes) else ())
            axis.set_title(title)
        yield Section(
            file_name("projection", study, name),
            f"{name}: batches in the shared space",
            f"On {evidence.heading(study)}. A mark for each batch of {finished.spec.batch} images: "
            "the posterior mean of what it shares, standardised, in two dimensions by t-SNE."
            + (" The line is the straight way between two batches." if path else ""),
            figure,
        )


def _codes(
    finished: Finished, kinds: Mapping[str, Described], batches: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """(batches, D) codes by the name of the kind."""
    model, data, size = finished.model, finished.data, finished.spec.batch
    rng = np.random.default_rng(seed)
    return {
        name: group_codes(model, data, kind_of(data, kind).batches(batches, size, rng))
        for name, kind in kinds.items()
    }


def _scatter(axis: Axes, codes: Mapping[str, NDArray[np.float64]], path: Sequence[str]) -> None:
    """Kinds in colours, random ones grey and behind; the way between two as a line."""
    ends = [codes[name][0] for name in path]
    way = np.linspace(ends[0], ends[1], STEPS) if ends else None
    everything = [*codes.values(), *([] if way is None else [way])]
    places = np.split(projected(np.concatenate(everything)), np.cumsum([*map(len, everything)]))
    look: dict[str, Any] = {"linewidths": 0, "s": 18, "alpha": 0.8}
    for number, (name, xy) in enumerate(zip(codes, places, strict=False)):
        random = name == RANDOM
        colour, mark = (GREY, ".") if random else (f"C{number}", MARKS[number % len(MARKS)])
        axis.scatter(*xy.T, color=colour, marker=mark, label=name, zorder=1 + (not random), **look)
    if way is not None:
        axis.plot(*places[len(codes)].T, "k.-", linewidth=0.8, markersize=4, zorder=3)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize=7, frameon=False)


def projected(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, 2) neighbours near each other; the same at every call."""
    from sklearn.manifold import TSNE

    spread = codes.std(0)
    scaled = (codes - codes.mean(0)) / np.where(spread > 0, spread, 1)
    near = min(PERPLEXITY, (len(codes) - 1) / 3)
    return TSNE(perplexity=near, init="pca", random_state=0).fit_transform(scaled)
