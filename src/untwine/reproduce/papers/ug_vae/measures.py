"""Measures of UG-VAE: the effect of what batches share on images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from untwine.distributions import Gaussian
from untwine.records import Latent
from untwine.reproduce.appearance import DIGIT_LOOKS, FACE_LOOKS, Look
from untwine.reproduce.papers.ug_vae.batches import batch_source, fresh_model
from untwine.reproduce.registry import measure
from untwine.runs.directory import TrainedRun
from untwine.tools.compute import derive_seed, seeded
from untwine.vae import VAE

N_COMPONENTS = 20  # principal components that the classifier of domains reads
CLUSTER_SHARE = 0.05  # of the variance, above which β has an effect in a cluster
LOOKS: Mapping[str, Mapping[str, Look]] = {"digits": DIGIT_LOOKS, "faces": FACE_LOOKS}


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
    run: TrainedRun,
    *,
    looks: Literal["digits", "faces"] = "digits",
    draws: int = 12,
    batches: int = 60,
    untrained: bool = False,
    seed: int = 0,
) -> dict[str, float]:
    """The share of the variance of images due to the shared code, averaged over clusters.

    In each cluster, draws of β from the prior are crossed with draws of an example's own code,
    z = m(β) + s(β) ε. The variance of the images is the sum of that between values of β, that
    between values of ε, and that of their interaction. The same is done with what a picture looks
    like instead of its pixels, and with the β of random batches instead of draws from the prior.

    Args:
        run: the trained run.
        looks: what is measured: ink, contrast and slant of digits; brightness, contrast
            and colour of faces.
        draws: number of values of either code.
        batches: number of random batches.
        untrained: use the model before its first step.
        seed: of the draws, together with the run's own.

    Returns:
        `shared` and `own`, shares of the variance of pixels; `change`, the standard deviation of a
        pixel between values of β; `clusters`, the share of clusters in which β has more than a
        twentieth; for each look, the share due to β; `real`, the share of pixels due to the β of
        batches; and what `BatchStatistics` holds.
    """
    model = fresh_model(run) if untrained else run.model
    d, g = split_sizes(model)
    with seeded(derive_seed(seed, run.spec.seed)):
        prior, noise = torch.randn(draws, g), torch.randn(draws, d)
    batch = batch_statistics(run, model, batches, seed)
    images = _crossed_by_cluster(model, prior, noise)
    parts = torch.tensor([variances(x) for x in images])  # (K, 3)
    between, within, total = parts.mean(0).tolist()
    real = torch.tensor(
        [variances(x) for x in _crossed_by_cluster(model, batch.means[:draws], noise)]
    ).mean(0)
    return {
        "shared": between / total,
        "own": within / total,
        "change": between**0.5,
        "clusters": float((parts[:, 0] > CLUSTER_SHARE * parts[:, 2]).float().mean()),
        **{name: _look_share(images, look) for name, look in LOOKS[looks].items()},
        "real": float(real[0] / real[2]),
        **batch.scores,
    }


def _crossed_by_cluster(model: VAE, shared: Tensor, noise: Tensor) -> list[Tensor]:
    """Return for each cluster (R, C, ...) images of shared codes crossed with own codes."""
    p = model.latents.own_prior(shared)
    return [
        _decode_crossed(model, p.mean[:, k], p.std[:, k], shared, noise)
        for k in range(p.mean.shape[1])
    ]


def _look_share(images: Sequence[Tensor], look: Look) -> float:
    """Return the share of the variance of a look between shared codes, averaged over clusters."""
    parts = []
    for x in images:
        numbers = look(x.flatten(0, 1).numpy().clip(0, 1)).reshape(*x.shape[:2], 1)
        parts.append(variances(torch.from_numpy(numbers)))
    between, _, total = np.mean(parts, 0)
    return float(between / total) if total > 0 else 0.0


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


class BatchStatistics(NamedTuple):
    """What the shared codes of random batches say.

    `nats` is their KL from the prior, of which most is the narrowness of a product of many
    Gaussians; `information`, ½ Σ_d log(1 + variance of the means / mean posterior variance), what
    tells one batch from another; `swap`, the relative rise of the squared error when images are
    decoded with the shared code of another batch.
    """

    means: Tensor  # (M, G) posterior means of batches
    scores: dict[str, float]


def batch_statistics(run: TrainedRun, model: VAE, batches: int, seed: int) -> BatchStatistics:
    """Encode random batches, drawn as in training."""
    data, size = run.data, run.spec.batch
    rng, kind = np.random.default_rng((seed, run.spec.seed)), batch_source(data, "random")
    together = torch.zeros(size, dtype=torch.long)
    nats: list[float] = []
    means: list[Tensor] = []
    spreads: list[Tensor] = []
    errors: list[tuple[float, float]] = []
    for _ in range(batches):
        x = data.take(kind.batch(size, rng))
        inference = model.infer_means(x, together)
        shared = [latent for latent in inference.latents.values() if latent.rows is not None]
        means.append(torch.cat([latent.draw.mean[0] for latent in shared]))
        spreads.append(torch.cat([_deviation(latent) for latent in shared]))
        nats.append(sum(latent.kl.sum().item() for latent in shared))
        own = inference.z[:, : -len(means[-1])]
        codes = (means[-1], means[max(len(means) - 2, 0)])
        right, wrong = (
            (_decode_pixels(model, own, code) - x.flatten(1)).square().sum(1).mean().item()
            for code in codes
        )
        errors.append((right, wrong))
    between, within = torch.stack(means).var(0), torch.stack(spreads).square().mean(0)
    right, wrong = np.array(errors[1:]).mean(0)  # the first has no other batch
    return BatchStatistics(
        torch.stack(means),
        {
            "nats": float(np.mean(nats)),
            "information": float(0.5 * (1 + between / within).log().sum()),
            "swap": float(wrong / right - 1),
        },
    )


def _deviation(latent: Latent) -> Tensor:
    """Return (D,) the standard deviations of the posterior of the first group."""
    assert isinstance(latent.draw.q, Gaussian), "shared codes have Gaussian posteriors"
    return latent.draw.q.std[0]


@measure
def transfer(
    run: TrainedRun,
    *,
    factor: str = "domain",
    batches: int = 4,
    learn: int = 1000,
    untrained: bool = False,
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
        learn: training images of each domain for the classifier, from one half of the data; as
            many are tested, from the other half.
        untrained: use the model before its first step.
        seed: of the batches and images, together with the run's own.

    Returns:
        `by_shared` and `by_own`, rises in probability; `within`, the largest change of the mean
        probability when β comes from another batch of the same domain; `first` and `second`, the
        probability for reconstructions of either domain; `classifier`, its accuracy on real images.
    """
    model = fresh_model(run).eval() if untrained else run.model
    data, size = run.data, run.spec.batch
    rng = np.random.default_rng((seed, run.spec.seed))
    names = [f"{factor}={level}" for level in (0, 1)]
    kinds = [batch_source(data, name) for name in names]
    training, test = (
        [data.take(batch_source(data, name, half).batch(learn, rng)).flatten(1) for name in names]
        for half in np.array_split(rng.permutation(len(data)), 2)
    )
    classifier = _domain_classifier(training)
    second = [(classifier(x) > 0.5).float().mean() for x in test]
    tables: list[Tensor] = []
    same: list[Tensor] = []
    for _ in range(batches):
        codes, others = (
            [split_codes(model, data.take(kind.batch(size, rng))) for kind in kinds]
            for _ in range(2)
        )
        rows = [
            [classifier(_decode_pixels(model, own.own, other.shared)).mean() for other in codes]
            for own in codes
        ]
        tables.append(torch.tensor(rows))
        moved = [
            classifier(_decode_pixels(model, own.own, other.shared)).mean()
            for own, other in zip(codes, others, strict=True)
        ]
        same.append(torch.tensor(moved) - tables[-1].diagonal())
    p = torch.stack(tables).mean(0)  # (own, shared)
    return {
        "by_shared": float((p[:, 1] - p[:, 0]).mean()),
        "by_own": float((p[1] - p[0]).mean()),
        "within": float(torch.stack(same).mean(0).abs().max()),
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
