"""Batches, or groups of a batch, whose examples share an attribute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.data.derived import cell_numbers, columns, open_with_factors, subset
from untwine.errors import DataError, ParameterError
from untwine.registry import dataset
from untwine.schema import Natural, Range
from untwine.tools.compute import derive_seed


class GroupOrder:
    """Positions of batches that are made of groups of one level.

    In each epoch the examples of every level are shuffled and cut into groups, and then the groups
    are shuffled; what is left over of a level waits for the next epoch. A level therefore comes as
    often as in the data, and not at all if it has fewer examples than a group. A batch is a
    function of (seed, step) alone.
    """

    def __init__(
        self, level: NDArray[np.integer], members: int, batch: int, seed: int, device: torch.device
    ) -> None:
        self.members, self.batch = members or batch, batch
        self.level, self.seed, self.device = level, seed, device
        if batch < 1 or batch % self.members:
            raise DataError(
                f"a batch of {batch} cannot be made of groups of {members}; "
                f"choose a multiple of {members or 1}"
            )
        groups = int((np.bincount(level) // self.members).sum())
        self.batches = groups * self.members // batch
        if not self.batches:
            raise DataError(
                f"the data has {groups} groups of {self.members} examples that share a level, "
                f"fewer than the {batch // self.members} of a batch of {batch}; choose a smaller "
                "batch"
            )
        self._epoch = -1

    def at(self, step: int) -> Tensor:
        """(batch,) positions."""
        epoch, number = divmod(step, self.batches)
        if epoch != self._epoch:
            self._order = torch.from_numpy(self._arrange(epoch)).to(self.device)
            self._epoch = epoch
        return self._order[number * self.batch : (number + 1) * self.batch]

    def _arrange(self, epoch: int) -> NDArray[np.int64]:
        """The examples of one epoch, group after group."""
        rng = np.random.default_rng(derive_seed(self.seed, epoch))
        order = rng.permutation(len(self.level))
        order = order[np.argsort(self.level[order], kind="stable")]  # shuffled within each level
        count = np.bincount(self.level)
        rank = np.arange(len(order)) - np.repeat(count.cumsum() - count, count)  # in its level
        grouped = rank < np.repeat(count - count % self.members, count)
        return rng.permutation(order[grouped].reshape(-1, self.members)).reshape(-1)


@dataclass(frozen=True)
class GroupOrdering:
    """Makes orders of batches for examples whose levels are known."""

    level: NDArray[np.integer]  # (N,)
    members: int

    def __call__(self, batch: int, seed: int, device: torch.device) -> GroupOrder:
        return GroupOrder(self.level, self.members, batch, seed, device)

    def restricted(self, index: NDArray[np.integer]) -> GroupOrdering:
        """The order of batches of the examples at these positions."""
        return GroupOrdering(self.level[index], self.members)


def _select_level(
    of: str, by: str, data: Dataset, cell: NDArray[np.integer], level: int
) -> Dataset:
    """The examples of one level."""
    keep = np.flatnonzero(cell == level)
    if not len(keep):
        raise DataError(f"no example of {of} has {by} = {level}")
    return subset(data, keep)


@dataset(
    title="Batches that share an attribute",
    paper="Bouchacourt et al., 2018",
    url="https://arxiv.org/abs/1705.08841",
    licence="that of the dataset",
    citation="Bouchacourt, Tomioka, Nowozin: Multi-Level Variational Autoencoder: Learning "
    "Disentangled Representations from Grouped Observations. AAAI, 2018",
)
def grouped(
    *,
    of: str = "sprites",
    by: str = "shape",
    members: Natural = 0,
    level: Annotated[int, Range(-1)] = -1,
    digest: str = "",
) -> Dataset:
    """Batches made of groups that share an attribute of a dataset (Bouchacourt et al., 2018).

    Either the whole batch has one level of a factor, as in the structured batches with which
    UG-VAE is examined (Peis et al., 2020), or the batch is made of groups of a few examples, such
    as the pairs of NestedVAE. The level of an example is its group, so that models which share a
    latent within a group do so for all examples of one level in a batch. A level comes as often as
    in the data; levels with fewer examples than a group has members are left out.

    Args:
        of: a dataset as in `untwine.dataset`, with its parameters, or a folder or file.
        by: the factor that is shared, or several, as in `shape+scale`.
        members: examples in a group; 0 makes the whole batch one.
        level: keep to the examples of this level; −1 takes all. Of several factors the last counts
            fastest.
        digest: of the files behind the data, filled in by a run.
    """
    data, factors = open_with_factors(of, digest)
    which = columns(factors, by)
    cell = cell_numbers(data, factors, which)
    if level >= 0:
        last = int(np.prod([factors.sizes[k] for k in which])) - 1
        if level > last:
            raise ParameterError(f"grouped.level must be -1 to {last} for {by}, not {level}")
        data = _select_level(of, by, data, cell, level)
        cell = cell[cell == level]
    return replace(data, groups=torch.from_numpy(cell), batch_order=GroupOrdering(cell, members))
