"""Two datasets in one, in fixed shares of every batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from untwine.data.cache import check_digest, digest_of
from untwine.data.dataset import BatchOrder, Dataset, Factors
from untwine.data.derived import Joined, Levels, levels, open_dataset
from untwine.errors import DataError
from untwine.registry import dataset
from untwine.schema import OpenShare
from untwine.tools.compute import derive_seed

DOMAIN = "domain"
DOMAINS = ("first", "second")


@dataclass(frozen=True)
class MixedOrder:
    """Batches of two datasets, the first in front; each is drawn in its own order."""

    first: BatchOrder
    second: BatchOrder
    length: int  # of the first dataset
    counts: Callable[[int], tuple[int, int]]  # examples of either in the batch of a step

    def at(self, step: int) -> Tensor:
        """(batch,) positions."""
        n, m = self.counts(step)
        return torch.cat([self.first.at(step)[:n], self.second.at(step)[:m] + self.length])


@dataclass(frozen=True)
class MixedOrdering:
    """How batches of two datasets are drawn."""

    first: Dataset
    second: Dataset
    share: float
    exact: bool

    def __call__(self, batch: int, seed: int, device: torch.device) -> BatchOrder:
        n, m = self.counts(batch, np.random.default_rng(seed)) if self.exact else (batch, batch)
        try:
            first = self.first.batches(n, derive_seed(seed, 0), device)
            second = self.second.batches(m, derive_seed(seed, 1), device)
        except DataError as error:
            raise DataError(
                f"a batch of {batch} takes {'' if self.exact else 'up to '}{n} examples of the "
                f"first dataset and {m} of the second: {error}"
            ) from None

        def draw_counts(step: int) -> tuple[int, int]:
            return self.counts(batch, np.random.default_rng(derive_seed(seed, 2, step)))

        counts = (lambda step: (n, m)) if self.exact else draw_counts
        return MixedOrder(first, second, len(self.first), counts)

    def counts(self, batch: int, rng: np.random.Generator) -> tuple[int, int]:
        """The number of examples of either dataset in a batch."""
        n = round(self.share * batch) if self.exact else int(rng.binomial(batch, self.share))
        if self.exact and not 0 < n < batch:
            raise DataError(
                f"a batch of {batch} has no room for both datasets at a share of {self.share:g}; "
                "choose a larger batch"
            )
        return n, batch - n


def _common_factors(first: Dataset, second: Dataset) -> list[tuple[str, int]]:
    """Names and sizes of the factors that both have."""
    if first.factors is None or second.factors is None:
        return []
    one, other = (
        list(zip(factors.names, factors.sizes, strict=True))
        for factors in (first.factors, second.factors)
    )
    return [factor for factor in one if factor in other and factor[0] != DOMAIN]


def _levels(data: Dataset, names: list[str]) -> Levels:
    """(N, K) the levels of the factors of these names."""
    if data.factors is None or not names:
        return np.zeros((len(data), 0), dtype=np.uint8)
    return levels(data, data.factors)[:, [data.factors.names.index(name) for name in names]]


def domain_factors(first: Dataset, second: Dataset) -> Factors:
    """The domain, and the factors that both datasets have, with as many levels."""
    common = _common_factors(first, second)
    names = [name for name, _ in common]
    both = [data.factors for data in (first, second) if data.factors]
    grid = Factors(
        (DOMAIN, *names),
        (2, *(size for _, size in common)),
        unordered=(DOMAIN, *(n for n in names if any(n in f.unordered for f in both))),
        level_names={
            DOMAIN: DOMAINS,
            **{n: levels for n in names for levels in [_level_names(both, n)] if levels},
        },
    )
    if _are_equal_grids(first, second):
        return grid
    labels = np.repeat(np.array([[0], [1]], dtype=np.uint8), [len(first), len(second)], axis=0)
    shared = np.concatenate([_levels(first, names), _levels(second, names)])
    table = np.concatenate([labels, shared], axis=1)
    return replace(grid, table=table)


def _level_names(factors: list[Factors], name: str) -> tuple[str, ...] | None:
    """What all call the levels of a factor; None where they differ."""
    calls = {each.level_names.get(name) for each in factors}
    return calls.pop() if len(calls) == 1 else None


def _are_equal_grids(first: Dataset, second: Dataset) -> bool:
    """Whether both are full grids of the same factors, which makes a grid of the whole."""
    one, other = first.factors, second.factors
    if one is None or other is None or one.table is not None or other.table is not None:
        return False
    return (one.names, one.sizes) == (other.names, other.sizes) and DOMAIN not in one.names


def _digest(first: Dataset, second: Dataset) -> str:
    """The digest of both, or empty if neither has one."""
    if not first.digest and not second.digest:
        return ""
    return digest_of([("first", first.digest.encode()), ("second", second.digest.encode())])


def require_alike(texts: tuple[str, str], first: Dataset, second: Dataset) -> None:
    """Refuse datasets whose examples differ in shape or range."""
    if first.shape != second.shape:
        shapes = " and ".join(
            f"{text} {tuple(data.shape)}" for text, data in zip(texts, (first, second), strict=True)
        )
        raise DataError(f"mixed needs examples of one shape, not {shapes}; set their size alike")
    if first.in_unit_interval != second.in_unit_interval:
        raise DataError(
            f"mixed cannot join {texts[0]} and {texts[1]}: one lies in [0, 1] and the other does "
            "not; rescale it"
        )


@dataset(
    title="Two datasets in one",
    paper="Peis et al., 2020",
    url="https://arxiv.org/abs/2012.08234",
    licence="those of the two datasets",
    citation="Peis, Olmos, Artés-Rodríguez: Unsupervised Learning of Global Factors in Deep "
    "Generative Models. arXiv:2012.08234, 2020",
)
def mixed(
    *,
    first: str = "faces",
    second: str = "faces(domain=scan)",
    share: OpenShare = 0.5,
    exact: bool = True,
    digest: str = "",
) -> Dataset:
    """Two datasets in one, to see what aligns their domains (Peis et al., 2020).

    Every batch holds round(share x batch) examples of the first and the rest of the second, each
    drawn in its own order, so that a small dataset comes round more often than a large one. The
    factor `domain` tells them apart; factors that both have, with as many levels, are kept. The
    likelihood is that of the first. Refuses datasets whose examples differ in shape or range.

    Args:
        first: a dataset as in `untwine.dataset`, with its parameters, or a folder or file.
        second: the other one, likewise.
        share: of the first dataset in every batch; ½ in the paper.
        exact: the same number of examples of either in every batch; without it each example is of
            the first with this probability, as in the authors' code, and both datasets must have
            as many examples as a batch.
        digest: of the files behind both, filled in by a run.
    """
    one, other = open_dataset(first), open_dataset(second)
    require_alike((first, second), one, other)
    content = check_digest(f"{first} and {second}", digest, _digest(one, other))
    return replace(
        one,
        source=Joined(one.source, other.source),
        factors=domain_factors(one, other),
        groups=None,
        batch_order=MixedOrdering(one, other, share, exact),
        digest=content,
    )
