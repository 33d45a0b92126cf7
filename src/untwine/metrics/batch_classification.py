"""Whether the code that a batch shares predicts the batch's attribute."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.registry import metric
from untwine.schema import Natural, OpenShare, Positive

KERNELS = ("linear", "rbf")
MAX_STEPS = 1_000_000


class SplitBatches(NamedTuple):
    """Training and test batches."""

    codes: NDArray[np.float64]
    levels: NDArray[np.int64]
    test_codes: NDArray[np.float64]
    test_levels: NDArray[np.int64]


@metric(
    title="Classification of batches",
    paper="Peis et al., 2020",
    url="https://arxiv.org/abs/2012.08234",
    higher_is_better=True,
    question="held",
    range=(0.0, 1.0),
    unchanged_by=(),
    variants={"authors": {"standardise": True, "held_back": 0.2}},
)
def batch_classification(
    batch_codes: ArrayLike,
    batch_levels: ArrayLike,
    *,
    standardise: bool = False,
    held_back: OpenShare = 0.5,
    cost: Positive = 1.0,
    seed: Natural = 0,
) -> dict[str, float]:
    """Accuracy of support vector machines on codes that batches share (Peis et al., 2020, Table 1).

    accuracy = share of held-out batches whose level is predicted from their code, mean over factors

    Each row is a batch of images that share a level of a factor: `batch_codes` (K, M, D) and
    `batch_levels` (K, M) for K factors, or (M, D) and (M,) for one. A machine with a linear kernel
    and one with a Gaussian kernel, of width 1 / (D · variance), learn from half of the batches of
    each level. Of a model the codes are posterior means of what a batch shares, as in the authors'
    code. The paper leaves the numbers open; its code standardises the codes and tests on a
    fifth, as `batch-classification[authors]` does.

    The other values are the accuracies on the training batches, and the base rate: that of always
    giving the most frequent level. Levels with a single batch are left out; refuses factors with
    fewer than two other levels.

    Blind spots: with M batches the accuracy moves in steps of 1 / (M / 2), and with unequal levels
    only what exceeds the base rate counts: 0.6 in the paper's case of three classes, where its
    table says 0.54 to 0.66. Batches that share images make it too good. Without `standardise` it
    depends on the scale of the codes.

    Args:
        standardise: bring each latent to mean 0 and variance 1 over the training batches.
        held_back: the share of the batches of each level that is tested on.
        cost: weight of the errors against the width of the margin.
        seed: chooses the batches held out.

    >>> levels = np.arange(40) % 2
    >>> scores = batch_classification(10.0 * levels[:, None], levels)
    >>> scores["linear"], scores["rbf"], scores["base_rate"]
    (1.0, 1.0, 0.5)
    """
    codes, levels = _check(batch_codes, batch_levels)
    rng = np.random.default_rng(seed)
    parts = [_split_batches(z, y, held_back, rng) for z, y in zip(codes, levels, strict=True)]
    parts = [part for part in parts if len(np.unique(part.levels)) > 1]
    if not parts:
        raise DataError("no factor has two levels with at least 2 batches each; give more batches")
    scores = [_scores(_standardise(part) if standardise else part, cost) for part in parts]
    return {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}


def _check(
    batch_codes: ArrayLike, batch_levels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Codes (K, M, D) and levels (K, M)."""
    z, y = np.asarray(batch_codes), np.asarray(batch_levels)
    if z.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        raise DataError(f"codes and levels must be real numbers, not {z.dtype} and {y.dtype}")
    z, y = (z[None], y[None]) if z.ndim == 2 else (z, y)
    if z.ndim != 3 or y.shape != z.shape[:2] or 0 in z.shape:
        raise DataError(
            f"batches must have codes (K, M, D) and levels (K, M), not {z.shape} and {y.shape}"
        )
    if not np.isfinite(z).all():
        raise DataError("the codes hold NaN or infinity; find out where they come from first")
    if not (np.isfinite(y).all() and (y == np.round(y)).all()):
        raise DataError("the levels of batches must be whole numbers")
    return z.astype(np.float64), y.astype(np.int64)


def _split_batches(
    z: NDArray[np.float64], y: NDArray[np.int64], share: float, rng: np.random.Generator
) -> SplitBatches:
    """Split the batches of each level at random, at least one on either side."""
    learned: list[int] = []
    tested: list[int] = []
    for level in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == level)).tolist()
        count = min(max(1, round(share * len(rows))), len(rows) - 1)
        if count:
            tested += rows[:count]
            learned += rows[count:]
    return SplitBatches(z[learned], y[learned], z[tested], y[tested])


def _standardise(part: SplitBatches) -> SplitBatches:
    spread = part.codes.std(0)
    scale, centre = np.where(spread > 0, spread, 1.0), part.codes.mean(0)
    z, test_z = ((codes - centre) / scale for codes in (part.codes, part.test_codes))
    return part._replace(codes=z, test_codes=test_z)


def _scores(part: SplitBatches, cost: float) -> dict[str, float]:
    """Test and training accuracies of both machines on one factor, and the base rate."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC

    scores: dict[str, float] = {}
    learned: dict[str, float] = {}
    for kernel in KERNELS:
        with warnings.catch_warnings():
            # On codes of a large scale a linear machine may never converge; it is good enough.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # Few batches of many levels need no warning: the base rate shows them.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            machine = SVC(C=cost, kernel=kernel, gamma="scale", max_iter=MAX_STEPS)
            machine.fit(part.codes, part.levels)
        scores[kernel] = float(machine.score(part.test_codes, part.test_levels))
        learned[f"{kernel}_train"] = float(machine.score(part.codes, part.levels))
    largest = float(np.unique(part.test_levels, return_counts=True)[1].max())
    return {**scores, "base_rate": largest / len(part.test_levels), **learned}
