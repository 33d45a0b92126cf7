"""What a latent that a group shares decides about pictures, and what each example's own does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from untwine.measures import measure
from untwine.measures.batches import kind_of
from untwine.models.ug_vae import GlobalAndLocal
from untwine.parts.gaussian import Gaussian
from untwine.runs import Finished
from untwine.vae import VAE, evaluation, forked

COMPONENTS = 20  # of images, by which their domain is told


class Codes(NamedTuple):
    """What the examples of one batch have of their own, and what they share."""

    own: Tensor  # (B, D)
    shared: Tensor  # (G,)


def split_codes(model: VAE, x: Tensor) -> Codes:
    """The posterior means of a batch that is one group."""
    together = torch.zeros(len(x), dtype=torch.long)
    shared = model.encode_group(x, together)[0]
    return Codes(model.codes(x, together)[:, : -len(shared)], shared)


def sizes(model: VAE) -> tuple[int, int]:
    """How many latents are an example's own, and how many are shared."""
    own, shared = split_codes(model, torch.zeros(2, *model.sizes.shape))
    return own.shape[1], len(shared)


@torch.no_grad()
def pictured(model: VAE, own: Tensor, shared: Tensor) -> Tensor:
    """(..., C, H, W) the expected images of own codes (..., D) and shared codes (..., G)."""
    z = torch.cat([own, shared], -1)
    with evaluation(model):
        images = model.decode(model.mapping(z.flatten(0, -2))[0])
    return images.unflatten(0, z.shape[:-1])


@torch.no_grad()
def own_prior(model: VAE, shared: Tensor) -> Gaussian:
    """(R, K, D) where own codes lie, given shared ones (R, G), in each of K clusters."""
    if isinstance(model.latents, GlobalAndLocal):
        return model.latents.prior(shared).parts
    zero = shared.new_zeros(len(shared), 1, sizes(model)[0])
    return Gaussian(zero, zero)


@measure
def shared_effect(
    finished: Finished, *, draws: int = 12, batches: int = 4, seed: int = 0
) -> dict[str, float]:
    """How much of the variance of pictures is due to what a group shares, cluster by cluster.

    In each cluster, codes β drawn from the prior are crossed with draws of an example's own place
    in the cluster, z = m(β) + s(β) ε; the variance of the pictures falls into that between values
    of β, that between values of ε, and what only both together explain.

    Args:
        finished: the run.
        draws: values of either code.
        batches: random batches from which `nats` is found.
        seed: of what is drawn.

    Returns:
        `shared` and `own`, shares of the variance; `change`, the standard deviation of a pixel
        between values of β; `nats`, the KL of a batch's shared code from its prior.
    """
    model = finished.model
    d, g = sizes(model)
    with forked(seed):
        shared, noise = torch.randn(draws, g), torch.randn(draws, d)
    p = own_prior(model, shared)
    parts = [
        variances(_crossed(model, p.mean[:, k], p.std[:, k], shared, noise))
        for k in range(p.mean.shape[1])
    ]
    between, within, total = torch.tensor(parts).mean(0).tolist()
    return {
        "shared": between / total,
        "own": within / total,
        "change": between**0.5,
        "nats": _nats(finished, batches, seed),
    }


def _crossed(model: VAE, mean: Tensor, std: Tensor, shared: Tensor, noise: Tensor) -> Tensor:
    """(R, C, ...) pictures of every shared code with every place in a cluster (R, D)."""
    own = mean[:, None] + std[:, None] * noise  # (R, C, D)
    return pictured(model, own, shared[:, None].expand(-1, len(noise), -1))


def variances(images: Tensor) -> tuple[float, float, float]:
    """Of images (R, C, ...): between rows, between columns and in all, averaged over pixels.

    >>> rows = torch.tensor([[0.0, 0.0], [2.0, 2.0]])
    >>> variances(rows[..., None])
    (1.0, 0.0, 1.0)
    """
    middle = images.mean((0, 1))
    rows, columns = images.mean(1) - middle, images.mean(0) - middle
    spread = (images - middle).square().mean()
    return rows.square().mean().item(), columns.square().mean().item(), spread.item()


def _nats(finished: Finished, batches: int, seed: int) -> float:
    """The mean KL of what random batches share."""
    model, data, size = finished.model, finished.data, finished.spec.batch
    rng, kind = np.random.default_rng(seed), kind_of(finished.data, "random")
    together = torch.zeros(size, dtype=torch.long)
    found: list[float] = []
    for _ in range(batches):
        x = data.take(kind.batch(size, rng))
        with torch.no_grad(), evaluation(model), forked(seed):
            latents = model.infer(model.given(x, together), mean=True)[1].values()
        found += [latent.kl.sum().item() for latent in latents if latent.rows is not None]
    return float(np.mean(found))


@measure
def transfer(
    finished: Finished,
    *,
    factor: str = "domain",
    batches: int = 4,
    learn: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Whether the shared code or an example's own carries a picture from one domain to the other.

    Batches of one domain give z₁ and β₁, of the other z₂ and β₂. A logistic regression on the main
    components of real images tells how likely the pictures of (z₁, β₂), (z₂, β₁) and so on are of
    the second domain; the way from (z₁, β₁) to (z₂, β₂) falls into what β adds and what z adds,
    each averaged over both values of the other.

    Args:
        finished: the run.
        factor: whose levels 0 and 1 are the domains.
        batches: pairs of batches, of the run's own size.
        learn: images of each domain from which the classifier learns; as many test it.
        seed: of what is drawn.

    Returns:
        `by_shared` and `by_own`, rises in probability; `first` and `second`, the probability for
        reconstructions of either domain; `classifier`, its accuracy on real images.
    """
    model, data, size = finished.model, finished.data, finished.spec.batch
    rng = np.random.default_rng(seed)
    kinds = [kind_of(data, f"{factor}={level}") for level in (0, 1)]
    learned, tested = (
        [data.take(kind.batch(learn, rng)).flatten(1) for kind in kinds] for _ in range(2)
    )
    classifier = _classifier(learned)
    right = [(classifier(x) > 0.5).float().mean() for x in tested]
    tables: list[Tensor] = []
    for _ in range(batches):
        codes = [split_codes(model, data.take(kind.batch(size, rng))) for kind in kinds]
        rows = [
            [classifier(_with(model, own.own, other.shared)).mean() for other in codes]
            for own in codes
        ]
        tables.append(torch.tensor(rows))
    p = torch.stack(tables).mean(0)  # (own, shared)
    return {
        "by_shared": float((p[:, 1] - p[:, 0]).mean()),
        "by_own": float((p[1] - p[0]).mean()),
        "first": float(p[0, 0]),
        "second": float(p[1, 1]),
        "classifier": float((1 - right[0] + right[1]) / 2),
    }


def _with(model: VAE, own: Tensor, shared: Tensor) -> Tensor:
    """(B, P) the pixels of own codes with a shared one."""
    return pictured(model, own, shared.expand(len(own), -1)).flatten(1)


def _classifier(domains: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """How likely images (B, P) are of the second of two domains."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    main = PCA(COMPONENTS, whiten=True, svd_solver="randomized", random_state=0)
    machine = make_pipeline(main, LogisticRegression(max_iter=1000))
    which = np.repeat([0, 1], [len(x) for x in domains])
    machine.fit(torch.cat(list(domains)).numpy(), which)
    return lambda x: torch.from_numpy(machine.predict_proba(x.numpy())[:, 1]).float()
