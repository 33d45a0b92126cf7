"""Tables and figures of UG-VAE."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.reproduce.evidence import Evidence, Runs, available, open_models
from untwine.reproduce.exhibits.tables import MISSING, mean_and_spread, table
from untwine.reproduce.papers.ug_vae.batches import RANDOM, BatchKind, batch_source, group_codes
from untwine.reproduce.papers.ug_vae.measures import decode_split, split_codes, split_sizes
from untwine.reproduce.registry import exhibit
from untwine.study.statistics import Table
from untwine.tools.figures import panels
from untwine.tools.images import enlarge, image_grid
from untwine.tools.pages import Section, file_name
from untwine.vae import VAE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from untwine.runs.directory import TrainedRun

GRID_STEPS = 7  # rows and columns of a grid
GRID_GAP = 8  # pixels between grids
SHEET_WIDTH = 750  # pixels, before they are enlarged
NOT_SHARED = "research"  # in the licence of data that figures do not show
PERPLEXITY = 30
MARKS = ("s", "^", "o", "D", "v", "P", "X")
RANDOM_COLOUR = "#9aa0aa"


@exhibit
def global_by_local(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    reach: float = 1.0,
    local: float = 3.0,
    looks: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Iterator[Section]:
    """Grids for all clusters, largest first: the shared code varies down, the own code across.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: descriptions by name.
        reach: of the shared latents, in both directions.
        local: of the own latents, in both directions.
        looks: what may move with the shared code, by its name, and the score that tells how much.
        seed: of the run and of the images.
    """
    for name, run in open_models(evidence, study, runs, seed):
        shares = _cluster_shares(run, seed)
        order = [int(k) for k in np.argsort(-shares, kind="stable")]
        grids = [image_grid(cluster_grid(run.model, k, reach, local).numpy()) for k in order]
        percent = ", ".join(f"{100 * shares[k]:.0f}" for k in order)
        note = f" The clusters, row by row, hold {percent} % of the images." if grids[1:] else ""
        moves = _name_moves(evidence.select(study, runs[name]), looks or {})
        yield Section(
            file_name("global-by-local", study, name),
            name,
            f"On {evidence.heading(study)}. Down: all shared latents from −{reach:g} to {reach:g}. "
            f"Across: all own latents from {local:g} below to {local:g} above "
            f"{'the mean of a cluster' if note else 'their mean'}.{note}{moves}",
            picture=enlarge(wrap_grids(grids), run.data.shape[-1]),
        )


def _name_moves(table: Table, looks: Mapping[str, str]) -> str:
    """Say how much of each look the shared code governs, most first."""
    shares = {name: float(table[score].mean()) for name, score in looks.items() if score in table}
    parts = [
        f"{100 * share:.0f} % of the {name}"
        for name, share in sorted(shares.items(), key=lambda s: -s[1])
    ]
    return f" Over all seeds, what varies down governs {', '.join(parts)}." if parts else ""


def _cluster_shares(run: TrainedRun, seed: int, n: int = 1024) -> NDArray[np.float64]:
    """Return (K,) the share of images in each cluster; K is 1 for a model without clusters."""
    model, data = run.model, run.data
    clusters = model.latents.own_prior(torch.zeros(1, split_sizes(model)[1])).mean.shape[1]
    if clusters == 1:
        return np.ones(1)
    index = data.sample_indices(n, np.random.default_rng(seed))
    return np.bincount(model.assign(data.take(index)).numpy(), minlength=clusters) / n


def cluster_grid(model: VAE, cluster: int, reach: float, local: float) -> Tensor:
    """Return (STEPS, STEPS, C, H, W) images as all shared and all own latents vary together."""
    d, g = split_sizes(model)
    shared = torch.linspace(-reach, reach, GRID_STEPS)[:, None].expand(-1, g)
    offset = torch.linspace(-local, local, GRID_STEPS)[:, None].expand(-1, d)
    own = model.latents.own_prior(shared).mean[:, cluster, None] + offset  # (STEPS, STEPS, D)
    return decode_split(model, own, shared[:, None].expand(-1, GRID_STEPS, -1))


def side_by_side(grids: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Join pictures of one height side by side, with white gaps.

    >>> side_by_side([np.zeros((4, 5, 3), np.uint8)] * 2).shape
    (4, 18, 3)
    """
    gap = np.full((grids[0].shape[0], GRID_GAP, grids[0].shape[2]), 255, np.uint8)
    parts = [part for each in grids for part in (gap, each)]
    return np.concatenate(parts[1:], axis=1)


def wrap_grids(grids: Sequence[NDArray[np.uint8]], width: int = SHEET_WIDTH) -> NDArray[np.uint8]:
    """Join pictures of one size in rows of at most `width` pixels, with white gaps.

    >>> wrap_grids([np.zeros((4, 5, 3), np.uint8)] * 3, width=20).shape
    (16, 18, 3)
    """
    height, across, depth = grids[0].shape
    columns = max(1, min(len(grids), (width + GRID_GAP) // (across + GRID_GAP)))
    blank = np.full((height, across, depth), 255, np.uint8)
    padded = [*grids, *[blank] * (-len(grids) % columns)]
    rows = [side_by_side(padded[i : i + columns]) for i in range(0, len(padded), columns)]
    gap = np.full((GRID_GAP, *rows[0].shape[1:]), 255, np.uint8)
    parts = [part for row in rows for part in (gap, row)]
    return np.concatenate(parts[1:], axis=0)


@exhibit
def controlled_table(
    evidence: Evidence,
    *,
    study: str,
    label: str,
    columns: Mapping[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    title: str = "",
) -> Iterator[Section]:
    """A table with a second row for each model: its network before the first step.

    Args:
        evidence: results of the studies.
        study: name of the study.
        label: of the measure; that of untrained networks is `LABEL-untrained`.
        columns: name of each column, and our score, `LABEL.NAME`.
        rows: name of each row; `runs` describes our runs.
        title: of the table.
    """
    before = {
        name: score.replace(f"{label}.", f"{label}-untrained.") for name, score in columns.items()
    }
    first = {f"{name}, untrained": row for name, row in rows.items()}
    (ours,) = table(evidence, study=study, columns=columns, rows=rows, title=title)
    (control,) = table(evidence, study=study, columns=before, rows=first, title=title)
    yield replace(ours, rows=(*ours.rows, *control.rows))


@exhibit
def batch_table(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    rows: Mapping[str, Mapping[str, Any]],
) -> Iterator[Section]:
    """Accuracies of classifiers of batches, from the measure `batch-kinds`.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: descriptions by name; the first also gets its accuracy on training batches.
        rows: for each name the `label` of the measure, its `ending`, and the `paper`'s training and
            test accuracy for each classifier. Untrained models have the label `LABEL-untrained`.
    """
    tables = {n: evidence.select(study, d) for n, d in available(evidence, study, runs).items()}
    body = [
        (name, title, *_accuracy_cells(tables, row, kernel))
        for name, row in rows.items()
        for kernel, title in (("linear", "linear"), ("rbf", "RBF"))
    ]
    first, *others = tables
    seeds = evidence.table(study)["seed"].nunique()
    yield Section(
        f"batches-{study}",
        "Classification of batches by their shared code",
        f"On {evidence.heading(study)}. {first}: mean ± standard deviation over {seeds} seeds. "
        "No image is in both training and test batches. Majority: the accuracy of the most "
        f"frequent kind. Untrained: the network of {first} before its first step.",
        header=(
            "batches",
            "SVM",
            *("training, paper", first, "test, paper", first, "majority"),
            *(f"{name}, test" for name in others),
            "untrained, test",
        ),
        rows=tuple(body),
    )


def _accuracy_cells(
    tables: Mapping[str, Table], row: Mapping[str, Any], kernel: str
) -> Iterator[str]:
    """Yield the cells of one classifier."""
    label, ending = row["label"], row.get("ending", "")
    ours, *others = tables.values()
    score = f"{label}.{kernel}{ending}"
    paper = row.get("paper", {}).get(kernel, (MISSING, MISSING))
    yield str(paper[0])
    yield mean_and_spread(ours[f"{label}.{kernel}_train{ending}"])
    yield str(paper[1])
    yield mean_and_spread(ours[score])
    yield f"{ours[f'{label}.base_rate{ending}'].mean():.2f}"
    yield from (mean_and_spread(other[score]) for other in others)
    untrained = f"{label}-untrained.{kernel}{ending}"
    yield mean_and_spread(ours[untrained]) if untrained in ours else MISSING


@exhibit
def shared_interpolations(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    between: Mapping[str, Sequence[BatchKind]],
    moved: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Iterator[Section]:
    """Grids from a batch of one kind to a batch of another: β varies down, z across.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: descriptions by name.
        between: for each title the two kinds of batches, see `batch_source`; a grid for each.
        moved: the scores that tell what either code adds to the probability of the second domain,
            by the name of the code.
        seed: of the run and of the images.
    """
    for name, run in open_models(evidence, study, runs, seed):
        grids = [interpolate(run, kinds, seed) for kinds in between.values()]
        public = may_be_shown(str(run.spec.data))
        ends = "two images" if public else "reconstructions of the two images"
        yield Section(
            file_name("shared-interpolations", study, name),
            f"{name}: interpolations",
            f"On {evidence.heading(study)}. {_join_titles(list(between))}. Down: the shared "
            "code, from a batch of the first kind to a batch of the second. Across: the own code, "
            f"from an image of the first batch to one of the second. Above each grid: the {ends}."
            + _name_added(evidence.select(study, runs[name]), moved or {}),
            picture=enlarge(
                side_by_side([_with_ends(g.images, g.ends if public else None) for g in grids]),
                run.data.shape[-1],
            ),
            shows_data=public,
        )


def may_be_shown(data: str) -> bool:
    """Whether figures may show images of a dataset: the licence of each of its parts allows it.

    >>> may_be_shown("mixed(first=celeba(size=32), second=faces)"), may_be_shown("faces(size=32)")
    (False, True)
    """
    from untwine.registry import datasets

    named = {word for word in re.findall(r"[\w-]+", data) if word in datasets}
    return not any(NOT_SHARED in str(datasets[name].metadata.get("licence")) for name in named)


def _name_added(table: Table, moved: Mapping[str, str]) -> str:
    """Say what each code adds to the probability of the second domain."""
    parts = [
        f"{name} adds {float(table[score].mean()):.2f}"
        for name, score in moved.items()
        if score in table
    ]
    if not parts:
        return ""
    return f" Over all seeds, moving {' and '.join(parts)} to the probability of the second domain."


def _join_titles(titles: Sequence[str]) -> str:
    text = "; ".join(titles)
    return f"From left to right: {text}" if len(titles) > 1 else text[:1].upper() + text[1:]


class Interpolation(NamedTuple):
    """Images between two batches, and the images of the data at either end."""

    images: Tensor  # (STEPS, STEPS, C, H, W): shared codes down, own codes across
    ends: Tensor  # (2, C, H, W)


def interpolate(run: TrainedRun, kinds: Sequence[BatchKind], seed: int) -> Interpolation:
    """Decode codes between those of the first images of two batches."""
    model, data, size = run.model, run.data, run.spec.batch
    rng = np.random.default_rng(seed)
    batches = [data.take(batch_source(data, kind).batch(size, rng)) for kind in kinds]
    (own, shared), (other, second) = (split_codes(model, x) for x in batches)
    weight = torch.linspace(0, 1, GRID_STEPS)[:, None]
    down, across = torch.lerp(shared, second, weight), torch.lerp(own[0], other[0], weight)
    images = decode_split(
        model, across.expand(GRID_STEPS, -1, -1), down[:, None].expand(-1, GRID_STEPS, -1)
    )
    return Interpolation(images, torch.stack([x[0] for x in batches]))


def _with_ends(images: Tensor, ends: Tensor | None) -> NDArray[np.uint8]:
    """Return a grid below a row with two images, by default its first and its last."""
    above = torch.ones(1, *images.shape[1:])
    above[0, 0], above[0, -1] = (images[0, 0], images[-1, -1]) if ends is None else ends
    top, grid = (image_grid(part.numpy()) for part in (above, images))
    top[:, images.shape[-1] : -images.shape[-1]] = 255
    return np.concatenate([top, np.full((GRID_GAP, *grid.shape[1:]), 255, np.uint8), grid])


@exhibit
def group_projection(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    kinds: Mapping[str, Mapping[str, BatchKind]],
    batches: int = 60,
    path: Sequence[str] = (),
    seed: int = 0,
) -> Iterator[Section]:
    """Batches of several kinds in the shared space, projected by t-SNE.

    Args:
        evidence: results of the studies.
        study: name of the study.
        runs: descriptions by name.
        kinds: for each panel the kinds of batches by name, see `batch_source`.
        batches: number of batches of each kind.
        path: two kinds; the straight path between the first batch of each is drawn.
        seed: of the run and of the batches.
    """
    for name, run in open_models(evidence, study, runs, seed):
        figure, axes = panels(len(kinds), width=4.2, height=3.6)
        for axis, (title, panel) in zip(axes, kinds.items(), strict=True):
            codes = _codes_by_kind(run, panel, batches, seed)
            _scatter_batches(axis, codes, path if set(path) <= set(codes) else ())
            axis.set_title(title)
        yield Section(
            file_name("projection", study, name),
            f"{name}: batches in the shared space",
            f"On {evidence.heading(study)}. A mark for each batch of {run.spec.batch} images: "
            "the posterior mean of its shared code, standardised, in two dimensions by t-SNE."
            + (" The line is the straight path between two batches." if path else ""),
            figure,
        )


def _codes_by_kind(
    run: TrainedRun, kinds: Mapping[str, BatchKind], batches: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """Return (batches, D) codes by the name of the kind."""
    model, data, size = run.model, run.data, run.spec.batch
    rng = np.random.default_rng(seed)
    return {
        name: group_codes(model, data, batch_source(data, kind).batches(batches, size, rng))
        for name, kind in kinds.items()
    }


def _scatter_batches(
    axis: Axes, codes: Mapping[str, NDArray[np.float64]], path: Sequence[str]
) -> None:
    """Draw kinds in colours, random ones in grey behind, and the path between two as a line."""
    ends = [codes[name][0] for name in path]
    line = [np.linspace(ends[0], ends[1], GRID_STEPS)] if ends else []
    parts = [*codes.values(), *line]
    points = np.split(project_tsne(np.concatenate(parts)), np.cumsum([*map(len, parts)]))
    style: dict[str, Any] = {"linewidths": 0, "s": 18, "alpha": 0.8}
    for number, (name, xy) in enumerate(zip(codes, points, strict=False)):
        if name == RANDOM:
            style |= {"color": RANDOM_COLOUR, "marker": ".", "zorder": 1}
        else:
            style |= {"color": f"C{number}", "marker": MARKS[number % len(MARKS)], "zorder": 2}
        axis.scatter(*xy.T, label=name, **style)
    if line:
        axis.plot(*points[len(codes)].T, "k.-", linewidth=0.8, markersize=4, zorder=3)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize=7, frameon=False)


def project_tsne(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (N, 2) codes projected by t-SNE, deterministically."""
    from sklearn.manifold import TSNE

    spread = codes.std(0)
    scaled = (codes - codes.mean(0)) / np.where(spread > 0, spread, 1)
    perplexity = min(PERPLEXITY, (len(codes) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(scaled)
