"""A dataset in which two factors go together."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors
from untwine.data.derived import cell_numbers, column, open_with_factors, require_shuffled, subset
from untwine.errors import ParameterError
from untwine.registry import dataset
from untwine.schema import Natural, Range


def log_weights(sizes: tuple[int, int], strength: float) -> NDArray[np.float64]:
    """(A, B) log-weights −(s (a − b))²/2 of the levels of two factors, both scaled to [0, 1].

    >>> log_weights((3, 3), 2.0).tolist()[0]
    [-0.0, -0.5, -2.0]
    """
    a, b = (np.arange(size) / max(size - 1, 1) for size in sizes)
    b = b if strength >= 0 else 1 - b
    return -0.5 * np.square(strength * (a[:, None] - b))


def thin_cells(
    cell: NDArray[np.integer], share: NDArray[np.floating], seed: int
) -> NDArray[np.int64]:
    """Positions of a random share[c] of the examples of each cell c, exact to one, in order."""
    order = np.random.default_rng(seed).permutation(len(cell))
    order = order[np.argsort(cell[order], kind="stable")]
    before = np.concatenate([[0.0], share[cell[order]].cumsum()]) + 0.5
    # Keep an example wherever the running sum passes a whole number.
    return np.sort(order[np.floor(before[1:]) > np.floor(before[:-1])])


def _factor_pair(factors: Factors, first: str, second: str) -> list[int]:
    which = [column(factors, first), column(factors, second)]
    if which[0] == which[1]:
        raise ParameterError(f"correlated needs two factors, not {first} twice; name another")
    return which


@dataset(
    title="Correlated factors",
    paper="Träuble et al., 2021",
    url="https://arxiv.org/abs/2006.07886",
    licence="that of the dataset",
    citation="Träuble, Creager, Kilbertus, Locatello, Dittadi, Goyal, Schölkopf, Bauer: On "
    "Disentangled Representations Learned from Correlated Data. ICML, 2021",
)
def correlated(
    *,
    of: str = "sprites",
    first: str = "position x",
    second: str = "position y",
    strength: Annotated[float, Range(-1000, 1000)] = 5.0,
    seed: Natural = 0,
    digest: str = "",
) -> Dataset:
    """A part of a dataset in which two of the factors are correlated (Träuble et al., 2021).

    p(a, b) ∝ p₀(a, b) exp(−(a − b)²/2σ²),   σ = 1/strength

    a and b are the levels of the two factors scaled to [0, 1], and p₀ is how often they meet in the
    data, which on a grid is the same for all. Of the examples of each pair of levels a random part
    is kept, the largest that gives these proportions, so that no example comes twice; training and
    metrics see the same distribution. The other factors stay as they are.

    Args:
        of: a dataset as in `untwine.dataset`, with its parameters, or a folder or file.
        first: the name of a factor.
        second: the name of another.
        strength: 1/σ. The paper's σ of 0.2, 0.4 and 0.7 are 5, 2.5 and 1.43; 0 leaves the factors
            as they are, and below 0 one falls where the other rises.
        seed: of the choice of examples.
        digest: of the files behind the data, filled in by a run.
    """
    data, factors = open_with_factors(of, digest)
    require_shuffled(of, data)
    which = _factor_pair(factors, first, second)
    cell = cell_numbers(data, factors, which)
    weight = log_weights((factors.sizes[which[0]], factors.sizes[which[1]]), strength).reshape(-1)
    share = np.exp(np.minimum(weight - weight[np.unique(cell)].max(), 0))
    return subset(data, thin_cells(cell, share, seed))
