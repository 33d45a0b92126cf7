"""How models of points in the plane miss: samples where no data is, codes where no prior is."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.errors import DataError
from untwine.measures import measure
from untwine.runs import Finished
from untwine.toys import INSIDE, Shape, share_between, share_in_hole
from untwine.vae import VAE, evaluation, forked

Points = NDArray[np.floating[Any]]  # (N, D)
COMPARED = 2_000  # points of which all distances are taken


@torch.no_grad()
def generated(model: VAE, n: int, seed: int) -> Points:
    """(n, D) draws from E_p(z)[p(x|z)], the decoder's noise included."""
    with evaluation(model), forked(seed):
        w = model.mapping(model.latents.sample(n, model.encoder))[0]
        return model.likelihood.observe(model.decoder(w)).sample().numpy()


@torch.no_grad()
def prior_codes(model: VAE, n: int, seed: int) -> Points:
    """(n, D) draws from the prior, through the mapping."""
    with evaluation(model), forked(seed):
        return model.mapping(model.latents.sample(n, model.encoder))[0].numpy()


@torch.no_grad()
def posterior_codes(model: VAE, x: Tensor, seed: int) -> Points:
    """(B, D) one draw from the posterior of each example (B, ...), through the mapping."""
    with evaluation(model), forked(seed):
        return model.mapping(model.infer(model.given(x))[2])[0].numpy()


def examples(finished: Finished, n: int, seed: int) -> Tensor:
    """(n, ...) examples of a run's data, drawn at random."""
    return finished.data.take(finished.data.draw(n, np.random.default_rng(seed)))


def share_in_gap(points: Points, data: str) -> float:
    """The share of points (N, 2) in the hole of an outline, or between two clusters.

    >>> share_in_gap(np.array([[0.5, 0.0], [2.0, 0.0]]), "circle")
    0.5
    """
    if data == "clusters":
        return share_between(points)
    if data not in INSIDE:
        known = ", ".join([*INSIDE, "clusters"])
        raise DataError(f"there is no gap known in {data}, only in {known}")
    return share_in_hole(points, cast("Shape", data))


def inhomogeneity(a: Points, b: Points) -> float:
    """How unlike two samples (N, D) and (M, D) are, from 0 to 1 and free of scale.

    The energy distance 2E|a − b| − E|a − a'| − E|b − b'| as a share of 2E|a − b|: 0 only for the
    same distribution, 1 for two different points.

    >>> inhomogeneity(np.zeros((3, 2)), np.ones((4, 2)))
    1.0
    """
    from scipy.spatial.distance import cdist, pdist

    apart = 2 * cdist(a, b).mean()
    # The distances of points to themselves, which are 0, count for neither sample.
    within = sum(pdist(x).mean() for x in (a, b))
    return float(max(0.0, 1 - within / apart)) if apart else 0.0


@measure
def in_gaps(finished: Finished, *, samples: int = 10_000, seed: int = 0) -> dict[str, float]:
    """The share of samples in the hole of the data or between its clusters, and of the data.

    A model can leave the gap empty and still be wrong, so `mismatch` tells how unlike samples and
    data are, as `inhomogeneity`.
    """
    name = finished.spec.data.name
    real = examples(finished, samples, seed).numpy()
    made = generated(finished.model, samples, seed)
    return {
        "share": share_in_gap(made, name),
        "data": share_in_gap(real, name),
        "mismatch": inhomogeneity(made[:COMPARED], real[:COMPARED]),
    }


@measure
def prior_mismatch(
    finished: Finished, *, samples: int = COMPARED, seed: int = 0
) -> dict[str, float]:
    """How unlike the codes of all data together are to the prior, both through the mapping.

    `own` is the same between two draws of the prior: what a perfect match scores.
    """
    model = finished.model
    prior, again = (prior_codes(model, samples, s) for s in (seed, seed + 1))
    codes = posterior_codes(model, examples(finished, samples, seed), seed)
    return {"aggregate": inhomogeneity(codes, prior), "own": inhomogeneity(again, prior)}
