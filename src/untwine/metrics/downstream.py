"""Downstream accuracy: how many labelled examples a simple predictor needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError, ParameterError
from untwine.estimators.arrays import Codes, Levels, Split, split
from untwine.registry import metric
from untwine.schema import Count, Natural, Range

Predictor = Callable[[Codes, Levels, Codes, int], NDArray[np.int64]]  # of one factor
STUDY_SIZES = {"sizes": (10, 100, 1000, 10_000)}


@metric(
    title="Downstream accuracy",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    higher_is_better=True,
    question="held",
    range=(0.0, 1.0),
    unchanged_by=("scale",),
    variants={
        "boosting": {"method": "boosting", "remove": 0, **STUDY_SIZES},
        "linear": {"method": "linear", **STUDY_SIZES},
        "2019": {"method": "one-vs-rest", **STUDY_SIZES},
        "reduced": {"method": "boosting", "remove": 1, **STUDY_SIZES},
    },
)
def downstream(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    *,
    method: Literal["forest", "boosting", "linear", "one-vs-rest"] = "forest",
    sizes: Annotated[tuple[int, ...], Range(2)] = (10, 20, 50, 100, 500, 1000, 2000, 5000),
    repeats: Count = 1,
    remove: Natural = 0,
    seed: Natural = 0,
) -> dict[str, float]:
    """Accuracy of a predictor that learns from few labelled rows (Miao et al., 2022).

    accuracy at n = mean over factors and repeats of P(ĝ_k(z) = v_k), ĝ_k learned from n rows

    By default ĝ is a forest of 50 trees of depth 4, and the n rows take turns through the levels,
    so that small samples are balanced. `boosting` and `linear` are the predictors of Locatello et
    al., 2019, on n rows as they come: gradient boosting as in `dci`, and logistic regression whose
    penalty is one of ten between 1e-4 and 1e4, chosen by five folds in the order of the rows.
    `2019` fits the latter to one level against the rest, as scikit-learn did then.

    Codes are (N, D), factors (N, K) levels; without test rows, a third of the rows is
    held back. Sizes beyond N become N. The first value, `accuracy`, is that of the largest size.
    The paper repeats ten times, which takes a minute at 10,000 rows and only matters for the
    smallest sizes.

    `reduced` asks the opposite (boosting only, at the largest size): for each factor in turn the
    latent that matters most for it is removed. `gap` is how much better the other factors are then
    predicted than this one, high if a factor is in one latent and alone there; `others` and
    `own` are the two accuracies.

    Blind spots: accuracy is bounded by the predictor, not by the codes alone: 16 leaves of a tree
    of depth 4 can hardly tell 40 levels apart, and a line against the rest cannot single out a
    middle level of an ordered factor (`2019` gives perfect codes 0.34). It says nothing about axes:
    rotated codes that a predictor copes with score like aligned ones. Chance is 1/levels, different
    for every factor in the mean. Trees do not see the scale of a latent, lines do.

    Args:
        method: the predictor; one-vs-rest is the logistic regression of 2019.
        sizes: numbers of rows to learn from.
        repeats: number of times that rows are chosen anew.
        remove: number of latents to remove for each factor, the most important ones first.
        seed: of held-out rows, of chosen rows, and of trees.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(2, size=(300, 1))
    >>> downstream(factors + rng.normal(0, 0.01, (300, 2)), factors, sizes=(10,))
    {'accuracy': 1.0, 'accuracy at 10': 1.0}
    """
    rows = split(codes, factors, test_codes, test_factors, seed)
    used = sorted({min(size, len(rows.codes)) for size in sizes})
    if not used:
        raise ParameterError("downstream.sizes must name at least one number of rows")
    seeds = np.random.default_rng(seed).integers(2**31, size=repeats).tolist()
    if remove:
        return _reduced_scores(rows, used[-1], method, remove, seeds)
    accuracies = {n: float(np.mean([_accuracy(rows, n, method, s) for s in seeds])) for n in used}
    return {
        "accuracy": accuracies[used[-1]],
        **{f"accuracy at {n}": value for n, value in accuracies.items()},
    }


def _accuracy(rows: Split, size: int, method: str, seed: int) -> float:
    order = np.random.default_rng(seed).permutation(len(rows.codes))
    if method == "boosting":
        return _boosting_accuracy(rows, np.sort(order[:size]), seed)
    if method == "forest":
        orders = [_balanced_order(column, order) for column in rows.factors.T]
        return _mean_accuracy(rows, [o[:size] for o in orders], _forest, seed)
    predict = _multinomial if method == "linear" else _one_vs_rest
    return _mean_accuracy(rows, [order[:size]] * rows.factors.shape[1], predict, seed)


def _mean_accuracy(
    rows: Split, chosen: list[NDArray[np.intp]], predict: Predictor, seed: int
) -> float:
    """Mean accuracy over factors, each learned from its own rows."""
    return float(
        np.mean([_factor_accuracy(rows, k, c, predict, seed) for k, c in enumerate(chosen)])
    )


def _factor_accuracy(
    rows: Split, k: int, chosen: NDArray[np.intp], predict: Predictor, seed: int
) -> float:
    """Accuracy on factor k in the test rows."""
    chosen = np.sort(chosen)
    y, test_y = rows.factors[chosen, k], rows.test_factors[:, k]
    if (y == y[0]).all():
        return float((test_y == y[0]).mean())
    return float((predict(rows.codes[chosen], y, rows.test_codes, seed) == test_y).mean())


def _balanced_order(levels: NDArray[np.int64], order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Reorder rows so that levels take turns.

    >>> _balanced_order(np.array([0, 0, 0, 1, 1]), np.array([4, 0, 1, 2, 3])).tolist()
    [0, 4, 1, 3, 2]
    """
    shuffled = levels[order]
    grouped = np.argsort(shuffled, kind="stable")
    starts = np.searchsorted(shuffled[grouped], shuffled[grouped])
    turn = np.empty(len(order), dtype=np.intp)
    turn[grouped] = np.arange(len(order)) - starts
    return order[np.lexsort((shuffled, turn))]


def _boosting_accuracy(rows: Split, chosen: NDArray[np.intp], seed: int) -> float:
    from untwine.estimators.trees import fit_boosted_trees

    fit = fit_boosted_trees(rows.codes[chosen], rows.factors[chosen], rows.test_codes, seed=seed)
    return float((fit.predicted == rows.test_factors).mean())


def _reduced_scores(
    rows: Split, size: int, method: str, remove: int, seeds: list[int]
) -> dict[str, float]:
    """Accuracy on each factor without its latents, and on the others."""
    if method != "boosting":
        raise ParameterError(f"latents are removed by the importances of boosting, not of {method}")
    if rows.codes.shape[1] <= remove or rows.factors.shape[1] < 2:
        raise DataError(
            f"removing {remove} latents needs more than {remove} latents and two factors"
        )
    hits = np.mean(
        [_accuracies_without(rows, size, remove, seed) for seed in seeds], axis=0
    )  # (K, K)
    own = float(np.diag(hits).mean())
    others = float(hits[~np.eye(len(hits), dtype=np.bool_)].mean())
    return {"gap": others - own, "others": others, "own": own}


def _accuracies_without(rows: Split, size: int, remove: int, seed: int) -> NDArray[np.float64]:
    """(K, K) accuracies on all factors without the latents of each."""
    from untwine.estimators.trees import fit_boosted_trees

    chosen = np.sort(np.random.default_rng(seed).permutation(len(rows.codes))[:size])
    x, y, test_x = rows.codes[chosen], rows.factors[chosen], rows.test_codes
    first = fit_boosted_trees(x, y, test_x[:1], seed=seed).importances.argmax(0)
    hits = []
    for k, latent in enumerate(first):
        rest = np.delete(np.arange(x.shape[1]), latent)
        for _ in range(remove - 1):
            fit = fit_boosted_trees(x[:, rest], y[:, [k]], test_x[:1, rest], seed=seed)
            rest = np.delete(rest, fit.importances[:, 0].argmax())
        fit = fit_boosted_trees(x[:, rest], y, test_x[:, rest], seed=seed)
        hits.append((fit.predicted == rows.test_factors).mean(0))
    return np.array(hits)


def _forest(x: Codes, y: Levels, test_x: Codes, seed: int) -> NDArray[np.int64]:
    from sklearn.ensemble import RandomForestClassifier

    return _fit_quietly(RandomForestClassifier(50, max_depth=4, random_state=seed), x, y).predict(
        test_x
    )


def _multinomial(x: Codes, y: Levels, test_x: Codes, seed: int) -> NDArray[np.int64]:
    return _fit_quietly(_logistic(len(y)), x, y).predict(test_x)


def _one_vs_rest(x: Codes, y: Levels, test_x: Codes, seed: int) -> NDArray[np.int64]:
    from sklearn.multiclass import OneVsRestClassifier

    return _fit_quietly(OneVsRestClassifier(_logistic(len(y))), x, y).predict(test_x)


def _logistic(n: int) -> Any:
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import KFold

    return LogisticRegressionCV(Cs=10, cv=KFold(min(5, n)), scoring="accuracy")


def _fit_quietly(model: Any, x: Codes, y: Levels) -> Any:
    with warnings.catch_warnings():
        # few rows look like regression to scikit-learn, and its defaults will change; weak
        # penalties need not converge in 100 steps, nor did they in the study
        warnings.simplefilter("ignore")
        return model.fit(x, y)
