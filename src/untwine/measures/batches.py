"""Whether batches of different kinds can be told apart by what each of them shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data import Dataset
from untwine.datasets._derived import column, levels
from untwine.datasets._digits import labels
from untwine.datasets.digit_series import digit_stream, window
from untwine.errors import DataError, IncompatibleError, ParameterError, UnknownNameError
from untwine.measures import measure
from untwine.records import Batch
from untwine.runs import Finished
from untwine.vae import VAE, evaluation, forked

RANDOM = "random"
SERIES = "series "
HELD_BACK = 0.2  # share of the images from which the tested batches are drawn
KERNELS = ("linear", "rbf")
CHUNK = 256  # images encoded at a time

Positions = NDArray[np.int64]
Codes = NDArray[np.float64]
Described = str | Sequence[str]


class Kind(NamedTuple):
    """Where the images of a batch come from: pools, and the ring in which a batch visits them."""

    pools: list[Positions]
    ring: Positions

    def batch(self, size: int, rng: np.random.Generator) -> Positions:
        """(size,) positions; no image twice if there is only one pool, and that is large enough."""
        if len(self.pools) == 1:
            return rng.choice(self.pools[0], size, replace=len(self.pools[0]) < size)
        places = window(self.ring, int(rng.integers(len(self.ring))), size)
        return np.array([rng.choice(self.pools[place]) for place in places])

    def batches(self, count: int, size: int, rng: np.random.Generator) -> list[Positions]:
        return [self.batch(size, rng) for _ in range(count)]


def kind_of(data: Dataset, described: Described, among: Positions | None = None) -> Kind:
    """A kind of batch, drawn from some of the images or all.

    Args:
        data: where the images are.
        described: `random`; `FACTOR=LEVEL`, images that share a level; `series NAME`, a stretch of
            the digits of even or odd numbers, primes or Fibonacci numbers. Of several the first
            whose factor the data has.
        among: positions that may be drawn.
    """
    among = np.arange(len(data)) if among is None else among
    if described == RANDOM:
        return Kind([among], np.zeros(1, np.int64))
    if isinstance(described, str) and described.startswith(SERIES):
        return _series(data, described.removeprefix(SERIES), among)
    level = _level(data, [described] if isinstance(described, str) else described)
    found = among[level[among]]
    if not len(found):
        raise DataError(f"no image is left for batches of {described}")
    return Kind([found], np.zeros(1, np.int64))


def _series(data: Dataset, name: str, among: Positions) -> Kind:
    digit = labels(data, "this data")[2][among]
    pools = [among[digit == d] for d in range(10)]
    stream = digit_stream(name)
    missing = [d for d in np.unique(stream) if not len(pools[d])]
    if missing:
        raise DataError(f"no image is left of the digit {missing[0]}, which the series needs")
    return Kind(pools, stream)


def _level(data: Dataset, described: Sequence[str]) -> NDArray[np.bool_]:
    """(N,) which images have the level."""
    if data.factors is None:
        raise DataError("this data has no factors that batches could share")
    wrong: UnknownNameError | None = None
    for text in described:
        name, equals, level = text.partition("=")
        if not equals or not level.strip().isdigit():
            raise ParameterError(
                f"a kind of batch is `random`, `FACTOR=LEVEL` or `series NAME`, not {text!r}"
            )
        try:
            return levels(data, data.factors)[:, column(data.factors, name)] == int(level)
        except UnknownNameError as error:
            wrong = error
    raise wrong or ParameterError("a kind of batch must be described")


@torch.no_grad()
def group_codes(model: VAE, data: Dataset, batches: Sequence[Positions]) -> Codes:
    """(M, D) posterior means of what each of several batches shares, as `encode_group` gives them.

    An image goes through the encoder once, in however many batches it is.
    """
    which, place = np.unique(np.concatenate(batches), return_inverse=True)
    rows = np.split(place.reshape(-1), np.cumsum([len(batch) for batch in batches])[:-1])
    with evaluation(model), forked(0):
        parts = torch.from_numpy(which).split(CHUNK)
        h = torch.cat([model.encoder(model.corruption(data.take(part))[0]) for part in parts])
        found = [_shared(model, h[torch.from_numpy(row)]) for row in rows]
    return torch.stack(found).double().numpy()


def _shared(model: VAE, h: Tensor) -> Tensor:
    """(D,) what one group of examples with these features shares."""
    together = Batch(h, torch.zeros(len(h), dtype=torch.long))
    latents = model.latents(h, together, model.encoder, mean=True).values()
    shared = [latent.draw.mean[0] for latent in latents if latent.rows is not None]
    if not shared:
        raise IncompatibleError("this model has no latent that a group shares")
    return torch.cat(shared)


@measure
def batch_kinds(
    finished: Finished,
    *,
    kinds: Mapping[str, Described],
    learn: int = 80,
    test: int = 20,
    times: int = 0,
    untrained: bool = False,
    seed: int = 0,
) -> dict[str, float]:
    """Accuracy of support vector machines that tell kinds of batches by what a batch shares.

    As in the code of Peis et al., 2020: posterior means, standardised, a linear and a Gaussian
    kernel of width 1 / D, four fifths of the batches to learn from. Unlike there no image is both
    in a batch that is learned from and in one that is tested, and batches have the run's own size.

    Args:
        finished: the run.
        kinds: descriptions by name, see `kind_of`.
        learn: batches of each kind to learn from.
        test: batches of each kind to test on.
        times: how many times as many random batches there are, as one more kind; 0 is none.
        untrained: the same model before its first step instead, to see what training adds.
        seed: of the batches.

    Returns:
        `linear` and `rbf`, `linear_train` and `rbf_train`, and `base_rate`, the accuracy of always
        giving the most frequent kind; the same with `_with_random` where random batches are a kind.
    """
    model = _fresh(finished) if untrained else finished.model
    data, size = finished.data, finished.spec.batch
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data))
    cut = round((1 - HELD_BACK) * len(data))
    wanted = [(kinds[name], 1) for name in kinds] + [(RANDOM, times)] * (times > 0)
    parts = [
        [
            group_codes(model, data, kind_of(data, text, part).batches(n * count, size, rng))
            for part, count in zip((order[:cut], order[cut:]), (learn, test), strict=True)
        ]
        for text, n in wanted
    ]
    found = accuracies(parts[: len(kinds)])
    if times:
        found |= {f"{key}_with_random": value for key, value in accuracies(parts).items()}
    return found


def _fresh(finished: Finished) -> VAE:
    """The model of a run as it was before its first step."""
    from untwine.spec import assemble

    spec = finished.spec
    return assemble(spec, finished.data, latent=spec.latent, seed=spec.seed, batch=spec.batch)


def accuracies(parts: Sequence[Sequence[Codes]]) -> dict[str, float]:
    """Of machines that tell kinds apart, from the codes of each to learn from and to test on.

    >>> one, other = np.zeros((4, 2)), np.ones((4, 2))
    >>> found = accuracies([[one, one], [other, other[:2]]])
    >>> found["linear"], found["rbf_train"], round(found["base_rate"], 3)
    (1.0, 1.0, 0.667)
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    codes = [np.concatenate([kind[part] for kind in parts]) for part in (0, 1)]
    names = [
        np.repeat(np.arange(len(parts)), [len(kind[part]) for kind in parts]) for part in (0, 1)
    ]
    found: dict[str, float] = {}
    for kernel in KERNELS:
        machine = make_pipeline(StandardScaler(), SVC(kernel=kernel, gamma="auto"))
        machine.fit(codes[0], names[0])
        found[f"{kernel}_train"], found[kernel] = (
            float(machine.score(z, y)) for z, y in zip(codes, names, strict=True)
        )
    return {**found, "base_rate": float(np.bincount(names[1]).max() / len(names[1]))}
