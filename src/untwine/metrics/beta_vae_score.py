"""BetaVAE score: can a linear classifier tell which factor two sets of codes share?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.estimators.sampling import Draws, Encoder, make_sampler, pair_differences
from untwine.registry import metric
from untwine.schema import Count, Natural

Classifier = Callable[[NDArray[np.float64]], NDArray[np.int64]]


@metric(
    title="BetaVAE score",
    paper="Higgins et al., 2017",
    url="https://openreview.net/forum?id=Sy2fzU9gl",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "shift", "dead"),
    variants={"2019": {"solver": "2019"}, "fresh": {"draws": "fresh"}},
)
def beta_vae_score(
    codes: ArrayLike | Encoder,
    factors: ArrayLike,
    *,
    pairs: Count = 64,
    train: Count = 10_000,
    test: Count = 5_000,
    solver: Literal["multinomial", "2019"] = "multinomial",
    draws: Draws = "rows",
    seed: Natural = 0,
) -> dict[str, float]:
    """How well a linear classifier tells the factor that pairs share (Higgins et al., 2017).

    x = 1/L Σ_l |z_l − z'_l|,   score = share of fresh points (x, y) with classify(x) = y

    One point: a factor y is drawn, then L pairs of examples, each with a level of factor y in
    common and all else independent. Logistic regression with C = 1 learns y from x (D,).

    Codes (N, D) and factors (N, K): the pairs are rows of these with an equal level, drawn with
    replacement, so where a level has few rows a row often meets itself. With `draws="fresh"`,
    `codes` is a function from levels (n, K) to codes (n, D) and `factors` the sizes (K,) of
    independent uniform factors: the protocol of the 2019 study. Refuses fewer than two factors
    that change. Returns the accuracy on the test points, then on the training points; chance is
    about 1/K, and constant codes score the share of the most frequent class.

    Blind spots: mixed latents are hardly seen (random rotations of three factors score 1.0), and K
    − 1 of K encoded factors suffice for 1.0, because the last follows from no distance being small.
    The distances are not standardised, so the penalty makes the score depend on the scale of the
    codes: perfect codes of standard deviation 0.01 score near chance. The classifier matters:
    "2019" (one-vs-rest, penalised bias) is up to 0.02 lower. Test pairs come from the same rows as
    training pairs, so with few rows and many latents even noise is classified (0.98 for 60 rows of
    200 latents): give thousands of rows, or fresh draws.

    Args:
        pairs: pairs per point.
        train: points to learn from.
        test: points to test on.
        solver: "multinomial" logistic regression, or "2019" for one classifier per factor with a
            penalised bias, as the study of 2019 ran.
        draws: "rows" pairs existing rows, "fresh" encodes new examples with a function.
        seed: of the draws.

    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> beta_vae_score(factors.astype(float), factors, train=500, test=500)
    {'beta_vae_score': 1.0, 'train_accuracy': 1.0}
    """
    source, rng = make_sampler(codes, factors, draws), np.random.default_rng(seed)
    x, y = pair_differences(source, train, pairs, rng)
    estimator = _multinomial if solver == "multinomial" else _one_vs_rest
    classify = fit_classifier(estimator, x, y)
    test_x, test_y = pair_differences(source, test, pairs, rng)
    return {
        "beta_vae_score": float((classify(test_x) == test_y).mean()),
        "train_accuracy": float((classify(x) == y).mean()),
    }


def fit_classifier(
    estimator: Callable[[], Any], x: NDArray[np.float64], y: NDArray[np.int64]
) -> Classifier:
    """Fit an estimator to x (P, D) and y (P,); return its function from points to classes."""
    if (y == y[0]).all():  # estimators refuse a single class
        return lambda points: np.full(len(points), y[0])
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # The number of iterations is part of the score: an unconverged fit counts as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator().fit(x, y).predict


def _multinomial() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def _one_vs_rest() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(LogisticRegression(solver="liblinear"))
