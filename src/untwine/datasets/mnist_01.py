"""MNIST-01: zeros and ones in any proportion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data.dataset import Dataset, Factors
from untwine.data.derived import Subset, labels, open_dataset
from untwine.errors import DataError, ParameterError
from untwine.registry import dataset
from untwine.schema import Share

MAX_EXAMPLES = 10_000_000  # examples


def balance_digits(digit: NDArray[np.integer], zeros: float) -> NDArray[np.int64]:
    """Positions of zeros and ones such that this share are zeros.

    Of the digit that is too frequent every example comes once; the other is repeated from its
    beginning. With a share of 0 or 1 only one of them is left.

    >>> digit = np.array([0, 1, 1, 1, 7])
    >>> balance_digits(digit, 0.5).tolist()
    [0, 0, 0, 1, 2, 3]
    """
    zero, one = np.flatnonzero(digit == 0), np.flatnonzero(digit == 1)
    if zeros in (0, 1):
        return one if zeros == 0 else zero
    if not len(zero) or not len(one):
        return np.empty(0, np.int64)
    if zeros * len(one) >= (1 - zeros) * len(zero):
        n_zero, n_one = len(one) * zeros / (1 - zeros), len(one)
    else:
        n_zero, n_one = len(zero), len(zero) * (1 - zeros) / zeros
    if n_zero + n_one > MAX_EXAMPLES:
        raise ParameterError(
            f"a share of {zeros:g} zeros takes {n_zero + n_one:,.0f} examples; choose 0, 1 or a "
            "share further from them"
        )
    return np.concatenate([np.resize(zero, round(n_zero)), np.resize(one, round(n_one))])


@dataset(
    title="MNIST-01",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    licence="that of the digits",
    citation="Miao, Mathieu, Siddharth, Teh, Rainforth, On Incorporating Inductive Biases into "
    "VAEs, ICLR 2022",
    examples="13,484 of 1x28x28",
    factors=("digit",),
    standin="digits",
)
def mnist_01(*, of: str = "mnist", zeros: Share = 0.5, digest: str = "") -> Dataset:
    """Zeros and ones of a digit dataset in a given proportion (Miao et al., 2022).

    For models of two clusters. MNIST itself has 46.8 % zeros among the two; the proportion is
    made by repeating the rarer digit, so that no image is lost. One factor, the digit.

    Args:
        of: the digits: mnist, mnist(split=test), digits, or a dataset of your own with a factor
            `digit`.
        zeros: the share of zeros; the paper learns 0.5, 0.4, 0.25, 0.2 and 0.
        digest: of the files behind the digits, filled in by a run.
    """
    base = open_dataset(of, digest)
    _, _, digit = labels(base, of)
    index = balance_digits(digit, zeros)
    if not len(index):
        raise DataError(f"{of} has no zeros or no ones")
    table = digit[index].astype(np.uint8)[:, None]
    return replace(
        base,
        source=Subset(base.source, torch.from_numpy(index)),
        factors=Factors(("digit",), (2,), table, unordered=("digit",)),
        groups=None,
        batch_order=None,
    )
