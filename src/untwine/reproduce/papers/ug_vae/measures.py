"""Measures of UG-VAE: the effect of what batches share on images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from untwine.reproduce.papers.ug_vae.batches import batch_source
from untwine.reproduce.registry import measure
from untwine.runs.directory import TrainedRun
from untwine.tools.compute import seeded
from untwine.vae import VAE

N_COMPONENTS = 20  # principal components that the classifier of domains reads


class SplitCodes(NamedTuple):
    """The codes of the examples of one batch: each example's own, and the shared one."""

    own: Tensor  # (B, D)
    shared: Tensor  # (G,)


def split_codes(model: VAE, x: Tensor) -> SplitCodes:
    """Return the posterior means of a batch that forms one group."""
    together = torch.zeros(len(x), dtype=torch.long)
    shared = model.encode_group(x, together)[0]
    return SplitCodes(model.posterior_mean(x, together)[:, : -len(shared)], shared)


def split_sizes(model: VAE) -> tuple[int, int]:
    """Return the numbers of own and of shared latents."""
    own, shared = split_codes(model, torch.zeros(2, *model.sizes.shape))
    return own.shape[1], len(shared)


@torch.no_grad()
def decode_split(model: VAE, own: Tensor, shared: Tensor) -> Tensor:
    """Return (..., C, H, W) the mean images of own codes (..., D) and shared codes (..., G)."""
    z = torch.cat([own, shared], -1)
    return model.decode_latents(z.flatten(0, -2)).unflatten(0, z.shape[:-1])


@measure
def shared_effect(
    run: TrainedRun, *, draws: int = 12, batches: int = 4, seed: int = 0
) -> dict[str, float]:
    """The share of the variance of images due to the shared code, averaged over clusters.

    In each cluster, draws of β from the prior are crossed with draws of an example's own code,
    z = m(β) + s(β) ε. The variance of the images is the sum of that between values of β, that
    between values of ε, and that of their interaction.

    Args:
        run: the trained run.
        draws: number of values of either code.
        batches: number of random batches for `nats`.
        seed: of the draws.

    Returns:
        `shared` and `own`, shares of the variance; `change`, the standard deviation of a pixel
        between values of β; `nats`, the KL of a batch's shared code from its prior.
    """
    model = run.model
    d, g = split_sizes(model)
    with seeded(seed):
        shared, noise = torch.randn(draws, g), torch.randn(draws, d)
    p = model.latents.own_prior(shared)
    parts = [
        variances(_decode_crossed(model, p.mean[:, k], p.std[:, k], shared, noise))
        for k in range(p.mean.shape[1])
    ]
    between, within, total = torch.tensor(parts).mean(0).tolist()
    return {
        "shared": between / total,
        "own": within / total,
        "change": between**0.5,
        "nats": _shared_nats(run, batches, seed),
    }


def _decode_crossed(model: VAE, mean: Tensor, std: Tensor, shared: Tensor, noise: Tensor) -> Tensor:
    """Return (R, C, ...) images of each shared code with each own code in a cluster (R, D)."""
    own = mean[:, None] + std[:, None] * noise  # (R, C, D)
    return decode_split(model, own, shared[:, None].expand(-1, len(noise), -1))


def variances(images: Tensor) -> tuple[float, float, float]:
    """Return the variance of images (R, C, ...) between rows, between columns and in total.

    >>> rows = torch.tensor([[0.0, 0.0], [2.0, 2.0]])
    >>> variances(rows[..., None])
    (1.0, 0.0, 1.0)
    """
    middle = images.mean((0, 1))
    rows, columns = images.mean(1) - middle, images.mean(0) - middle
    spread = (images - middle).square().mean()
    return rows.square().mean().item(), columns.square().mean().item(), spread.item()


def _shared_nats(run: TrainedRun, batches: int, seed: int) -> float:
    """Return the mean KL of the shared codes of random batches."""
    model, data, size = run.model, run.data, run.spec.batch
    rng, kind = np.random.default_rng(seed), batch_source(run.data, "random")
    together = torch.zeros(size, dtype=torch.long)
    nats: list[float] = []
    for _ in range(batches):
        x = data.take(kind.batch(size, rng))
        latents = model.infer_means(x, together).latents.values()
        nats += [latent.kl.sum().item() for latent in latents if latent.rows is not None]
    return float(np.mean(nats))


@measure
def transfer(
    run: TrainedRun,
    *,
    factor: str = "domain",
    batches: int = 4,
    learn: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Whether the shared or the own code moves an image from one domain to the other.

    Batches of one domain give z₁ and β₁, batches of the other z₂ and β₂. A logistic regression on
    the principal components of real images gives the probability that the images of (z₁, β₂),
    (z₂, β₁) and so on are of the second domain. Its rise from (z₁, β₁) to (z₂, β₂) is the sum of
    the effects of β and of z, each averaged over both values of the other.

    Args:
        run: the trained run.
        factor: the factor whose levels 0 and 1 are the domains.
        batches: number of pairs of batches, of the run's batch size.
        learn: training images of each domain for the classifier; as many are tested.
        seed: of the batches and images.

    Returns:
        `by_shared` and `by_own`, rises in probability; `first` and `second`, the probability for
        reconstructions of either domain; `classifier`, its accuracy on real images.
    """
    model, data, size = run.model, run.data, run.spec.batch
    rng = np.random.default_rng(seed)
    kinds = [batch_source(data, f"{factor}={level}") for level in (0, 1)]
    training, test = (
        [data.take(kind.batch(learn, rng)).flatten(1) for kind in kinds] for _ in range(2)
    )
    classifier = _domain_classifier(training)
    second = [(classifier(x) > 0.5).float().mean() for x in test]
    tables: list[Tensor] = []
    for _ in range(batches):
        codes = [split_codes(model, data.take(kind.batch(size, rng))) for kind in kinds]
        rows = [
            [classifier(_decode_pixels(model, own.own, other.shared)).mean() for other in codes]
            for own in codes
        ]
        tables.append(torch.tensor(rows))
    p = torch.stack(tables).mean(0)  # (own, shared)
    return {
        "by_shared": float((p[:, 1] - p[:, 0]).mean()),
        "by_own": float((p[1] - p[0]).mean()),
        "first": float(p[0, 0]),
        "second": float(p[1, 1]),
        "classifier": float((1 - second[0] + second[1]) / 2),
    }


def _decode_pixels(model: VAE, own: Tensor, shared: Tensor) -> Tensor:
    """Return (B, P) the pixels of own codes with one shared code."""
    return decode_split(model, own, shared.expand(len(own), -1)).flatten(1)


def _domain_classifier(domains: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """Train a classifier: the probability that images (B, P) are of the second domain."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    components = PCA(N_COMPONENTS, whiten=True, svd_solver="randomized", random_state=0)
    machine = make_pipeline(components, LogisticRegression(max_iter=1000))
    labels = np.repeat([0, 1], [len(x) for x in domains])
    machine.fit(torch.cat(list(domains)).numpy(), labels)
    return lambda x: torch.from_numpy(machine.predict_proba(x.numpy())[:, 1]).float()
