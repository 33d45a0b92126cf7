"""SAP: how much better the best latent alone predicts a factor than the second best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError, ParameterError
from untwine.estimators.arrays import Codes, Levels, check, split, top_two
from untwine.estimators.information import row_slices
from untwine.registry import metric
from untwine.schema import Natural, Positive, Range

Scores = NDArray[np.float64]  # (D, K)
INACTIVE = 1e-12  # variance of a latent that predicts nothing


@metric(
    title="Separated attribute predictability",
    paper="Kumar et al., 2018",
    url="https://arxiv.org/abs/1711.00848",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "shift", "dead"),
    variants={"svm": {"method": "svm"}, "regression": {"method": "regression"}},
)
def sap(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    unordered: Sequence[int] = (),
    *,
    method: Literal["paper", "svm", "regression"] = "paper",
    categorical: Annotated[tuple[int, ...], Range(0)] = (),
    order: Literal["data", "all"] = "data",
    cost: Positive = 0.01,
    seed: Natural = 0,
) -> float:
    """The gap between the two latents that predict a factor best (Kumar et al., 2018).

    SAP = 1/K Σ_k (S_(1)k − S_(2)k)

    S_ik says how well latent i alone predicts factor k; codes are (N, D), factors (N, K) levels.

    As in the paper, S is the R² of a straight line for an ordered factor. For a categorical factor
    it is the balanced accuracy of thresholds on the latent, one interval for each level in the
    order of the levels' means, placed where they do best; the paper leaves the rule for more than
    two levels open. Datasets know which of their factors are categorical, such as the shape of a
    sprite: `unordered` are their positions, counted from 0. Both kinds of S are computed on the
    test rows, or on all rows where there are none, and nothing is learned from others. Inactive
    latents have S = 0.

    `sap[svm]` is the 2019 study's: S is the accuracy on the test rows (by default a third,
    chosen by the seed) of a linear support vector machine with squared hinge, balanced weights and
    a penalised bias, trained to its optimum. `sap[regression]` is R² for all factors on the
    training rows. With one latent the second best is 0; factors with a single level are left out.

    Blind spots: R² sees straight lines only, so a distorted latent loses and a cyclic factor looks
    unpredictable. Two latents that share a factor score 0 however clean they are. A machine that
    sees one number can only tell the outer levels from the rest: `sap[svm]` of perfect codes is far
    below 1, inactive latents score chance and not 0, and the value depends on the scale and on the
    mean of each latent.

    Args:
        method: the paper's, a linear support vector machine, or R² for all factors.
        categorical: positions from 0 of further factors without an order, for the paper's method;
            factors with two levels always count as such.
        order: which factors have one: those of which the data says so, or all but `categorical`.
        cost: weight of the errors against the size of the machine's weights.
        seed: chooses the rows held out where no test rows are given.

    >>> codes = [[1, 0], [2, 0], [4, 0], [3, 0], [5, 0], [6, 0]]
    >>> round(sap(codes, [0, 0, 0, 1, 1, 1]), 6)  # one of six on the wrong side; inactive: 0
    0.833333
    """
    if method == "svm":
        from untwine.estimators.linear import svm_accuracies

        return _gap(svm_accuracies(split(codes, factors, test_codes, test_factors, seed), cost))
    if method == "regression":
        return _gap(_determination(*check(codes, factors)))
    if (test_codes is None) != (test_factors is None):
        raise DataError("test codes and test factors come together; one of them is missing")
    categorical = tuple({*categorical, *(unordered if order == "data" else ())})
    if test_codes is None or test_factors is None:
        return _gap(_paper_scores(codes, factors, categorical))
    return _gap(_paper_scores(test_codes, test_factors, categorical))


def _gap(scores: Scores) -> float:
    best, second = top_two(scores)
    return float((best - second).mean())


def _paper_scores(codes: ArrayLike, factors: ArrayLike, categorical: tuple[int, ...]) -> Scores:
    """(D, K) R², or balanced accuracy where a factor is categorical."""
    z, f = check(codes, factors)
    scores = _determination(z, f)
    columns = np.flatnonzero(_is_categorical(factors, categorical) | (f.max(0) == 1))
    for i in range(z.shape[1]) if len(columns) else ():
        order = np.argsort(z[:, i])
        latent = z[order, i]
        active = latent.var(ddof=1, dtype=np.float64) > INACTIVE
        scores[i, columns] = [active and balanced_accuracy(latent, f[order, k]) for k in columns]
    return scores


def _is_categorical(factors: ArrayLike, categorical: tuple[int, ...]) -> NDArray[np.bool_]:
    """(K,) whether each factor that changes is at one of these positions among all factors."""
    f = np.asarray(factors)
    f = f.reshape(len(f), -1)
    if max(categorical, default=0) >= f.shape[1]:
        raise ParameterError(
            f"sap.categorical names factor {max(categorical)}, but the last of the "
            f"{f.shape[1]} factors is {f.shape[1] - 1}, as they count from 0"
        )
    changing = (f != f[:1]).any(0)
    return np.isin(np.arange(f.shape[1]), categorical)[changing]


def _determination(z: Codes, f: Levels) -> Scores:
    """(D, K) squared correlations; 0 for inactive latents."""
    centre = np.concatenate([z.mean(0, dtype=np.float64), f.mean(0)])
    parts = (np.hstack([z[rows], f[rows]]) - centre for rows in row_slices(len(z)))
    moments = np.sum([part.T @ part for part in parts], axis=0) / (len(z) - 1)
    variance, d = np.diag(moments), z.shape[1]
    active = variance[:d, None] > INACTIVE
    scale = np.where(active, variance[:d, None], 1.0) * variance[d:]
    return np.where(active, moments[:d, d:] ** 2 / scale, 0.0)


def balanced_accuracy(z: Codes, y: Levels) -> float:
    """Mean recall of the best thresholds on a sorted latent (N,), one interval for each level.

    Two levels may lie either way round; more lie in the order of their means.

    >>> balanced_accuracy(np.arange(4.0), np.array([1, 1, 0, 0]))
    1.0
    """
    cuts = np.append(np.flatnonzero(np.diff(z)), len(z) - 1)  # equal values stay together
    sizes = np.bincount(y)
    if len(sizes) == 2:
        apart = np.abs(_recall(y, 0, cuts) - _recall(y, 1, cuts)).max()
        return float((1 + apart) / 2)
    best = np.zeros(len(cuts) + 1)
    for level in np.argsort(np.bincount(y, z) / sizes, kind="stable"):
        recall = np.append(0.0, _recall(y, level, cuts))
        best = recall + np.maximum.accumulate(best - recall)
    return float(best[-1] / len(sizes))


def _recall(y: Levels, level: int, cuts: NDArray[np.intp]) -> NDArray[np.float64]:
    """The share of a level's rows up to each cut."""
    below = np.cumsum(y == level)
    return below[cuts] / below[-1]
