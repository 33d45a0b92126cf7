"""Measures of UG-VAE: the codes that batches share, and their effect on images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.data.derived import column, labels, levels
from untwine.datasets.digit_series import digit_stream, window
from untwine.errors import DataError, IncompatibleError, ParameterError, UnknownNameError
from untwine.records import Batch
from untwine.reproduce.registry import measure
from untwine.runs.directory import TrainedRun
from untwine.tools.compute import eval_mode, seeded
from untwine.vae import VAE

RANDOM = "random"
SERIES_PREFIX = "series "
TEST_SHARE = 0.2  # share of the images that test batches are drawn from
KERNELS = ("linear", "rbf")
ENCODE_CHUNK = 256  # images per batch
N_COMPONENTS = 20  # principal components that the classifier of domains reads
Positions = NDArray[np.int64]
GroupCodes = NDArray[np.float64]
BatchKind = str | Sequence[str]


class BatchSource(NamedTuple):
    """The source of a batch: pools of images, and the ring in which a batch visits them."""

    pools: list[Positions]
    ring: Positions

    def batch(self, size: int, rng: np.random.Generator) -> Positions:
        """Draw (size,) indices; from a single pool without repeats, if it is large enough."""
        if len(self.pools) == 1:
            return rng.choice(self.pools[0], size, replace=len(self.pools[0]) < size)
        visited = window(self.ring, int(rng.integers(len(self.ring))), size)
        return np.array([rng.choice(self.pools[pool]) for pool in visited])

    def batches(self, count: int, size: int, rng: np.random.Generator) -> list[Positions]:
        """Draw several batches."""
        return [self.batch(size, rng) for _ in range(count)]


def batch_source(data: Dataset, kind: BatchKind, among: Positions | None = None) -> BatchSource:
    """Return the source of a kind of batch, from some of the images or all.

    Args:
        data: the images.
        kind: `random`; `FACTOR=LEVEL`, images that share a level; or `series NAME`, a stretch of
            the digits of even or odd numbers, primes or Fibonacci numbers. Of several, the first
            whose factor the data has.
        among: indices that may be drawn.
    """
    among = np.arange(len(data)) if among is None else among
    if kind == RANDOM:
        return BatchSource([among], np.zeros(1, np.int64))
    if isinstance(kind, str) and kind.startswith(SERIES_PREFIX):
        return _series_source(data, kind.removeprefix(SERIES_PREFIX), among)
    has_level = _has_level(data, [kind] if isinstance(kind, str) else kind)
    pool = among[has_level[among]]
    if not len(pool):
        raise DataError(f"no images for batches of {kind}; choose another level or more data")
    return BatchSource([pool], np.zeros(1, np.int64))


def _series_source(data: Dataset, name: str, among: Positions) -> BatchSource:
    digit = labels(data, "this data")[2][among]
    pools = [among[digit == d] for d in range(10)]
    stream = digit_stream(name)
    missing = [d for d in np.unique(stream) if not len(pools[d])]
    if missing:
        raise DataError(
            f"no images of the digit {missing[0]}, which the series needs; use more data"
        )
    return BatchSource(pools, stream)


def _has_level(data: Dataset, kinds: Sequence[str]) -> NDArray[np.bool_]:
    """Return (N,) whether images have the level; of several kinds, the first the data has."""
    if data.factors is None:
        raise DataError("kinds of batches need data with factors, which this has not")
    unknown: UnknownNameError | None = None
    for text in kinds:
        name, equals, level = text.partition("=")
        if not equals or not level.strip().isdigit():
            raise ParameterError(
                f"a kind of batch is `random`, `FACTOR=LEVEL` or `series NAME`, not {text!r}"
            )
        try:
            return levels(data, data.factors)[:, column(data.factors, name)] == int(level)
        except UnknownNameError as error:
            unknown = error
    raise unknown or ParameterError("a kind of batch is missing; write one, such as `random`")


@measure
def batch_kinds(
    run: TrainedRun,
    *,
    kinds: Mapping[str, BatchKind],
    learn: int = 80,
    test: int = 20,
    times: int = 0,
    untrained: bool = False,
    seed: int = 0,
) -> dict[str, float]:
    """Accuracy of support vector machines that classify batches by their shared code.

    As in the code of Peis et al., 2020: posterior means, standardised, a linear and a Gaussian
    kernel of width 1 / D, four fifths of the batches for training. Unlike there, no image is in
    both a training and a test batch, and batches have the size of the run's.

    Args:
        run: the trained run.
        kinds: kinds of batches by name, see `batch_source`.
        learn: training batches of each kind.
        test: test batches of each kind.
        times: random batches as a further kind, this many times as many; 0 for none.
        untrained: use the model before its first step, to see the effect of training.
        seed: of the batches.

    Returns:
        `linear` and `rbf`, `linear_train` and `rbf_train`, and `base_rate`, the accuracy of the
        majority kind; the same with `_with_random` if random batches are a kind.
    """
    model = _fresh_model(run) if untrained else run.model
    data, size = run.data, run.spec.batch
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data))
    cut = round((1 - TEST_SHARE) * len(data))
    counts = [(kinds[name], 1) for name in kinds] + [(RANDOM, times)] * (times > 0)
    parts = [
        [
            group_codes(model, data, batch_source(data, kind, part).batches(n * count, size, rng))
            for part, count in zip((order[:cut], order[cut:]), (learn, test), strict=True)
        ]
        for kind, n in counts
    ]
    scores = svm_accuracies(parts[: len(kinds)])
    if times:
        scores |= {f"{key}_with_random": value for key, value in svm_accuracies(parts).items()}
    return scores


def _fresh_model(run: TrainedRun) -> VAE:
    """Build the model of a run as it was before its first step."""
    from untwine.spec import build_model

    spec = run.spec
    return build_model(spec, run.data, latent=spec.latent, seed=spec.seed, batch=spec.batch)


@torch.no_grad()
def group_codes(model: VAE, data: Dataset, batches: Sequence[Positions]) -> GroupCodes:
    """Return (M, D) posterior means of the shared codes of batches, as `encode_group` does.

    Each image is encoded once, even if it is in several batches.
    """
    index, inverse = np.unique(np.concatenate(batches), return_inverse=True)
    rows = np.split(inverse.reshape(-1), np.cumsum([len(batch) for batch in batches])[:-1])
    with eval_mode(model), seeded(0):
        parts = torch.from_numpy(index).split(ENCODE_CHUNK)
        h = torch.cat([model.features(data.take(part)) for part in parts])
        codes = [_shared_code(model, h[torch.from_numpy(row)]) for row in rows]
    return torch.stack(codes).double().numpy()


def _shared_code(model: VAE, h: Tensor) -> Tensor:
    """Return (D,) the shared code of one group of examples with these features."""
    together = Batch(h, torch.zeros(len(h), dtype=torch.long))
    latents = model.infer(together, mean=True, features=h).latents.values()
    shared = [latent.draw.mean[0] for latent in latents if latent.rows is not None]
    if not shared:
        raise IncompatibleError("this model has no latent that a group shares")
    return torch.cat(shared)


def svm_accuracies(parts: Sequence[Sequence[GroupCodes]]) -> dict[str, float]:
    """Return the accuracy of classifiers of kinds, from training and test codes of each.

    >>> one, other = np.zeros((4, 2)), np.ones((4, 2))
    >>> scores = svm_accuracies([[one, one], [other, other[:2]]])
    >>> scores["linear"], scores["rbf_train"], round(scores["base_rate"], 3)
    (1.0, 1.0, 0.667)
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    codes = [np.concatenate([kind[part] for kind in parts]) for part in (0, 1)]
    labels = [
        np.repeat(np.arange(len(parts)), [len(kind[part]) for kind in parts]) for part in (0, 1)
    ]
    scores: dict[str, float] = {}
    for kernel in KERNELS:
        machine = make_pipeline(StandardScaler(), SVC(kernel=kernel, gamma="auto"))
        machine.fit(codes[0], labels[0])
        scores[f"{kernel}_train"], scores[kernel] = (
            float(machine.score(z, y)) for z, y in zip(codes, labels, strict=True)
        )
    return {**scores, "base_rate": float(np.bincount(labels[1]).max() / len(labels[1]))}


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
