"""DCI: disentanglement, completeness and informativeness."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import Split, split
from untwine.registry import metric
from untwine.schema import Natural

IMPORTANCE_OFFSET = 1e-11  # added to every importance, as in the 2019 study
DEPTHS = (2, 4, 8, 16)  # of the trees of a forest, to choose from


@metric(
    title="Disentanglement, completeness and informativeness",
    paper="Eastwood & Williams, 2018",
    url="https://openreview.net/forum?id=By-7dz-AZ",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "shift"),
    variants={"forest": {"method": "forest"}, "lasso": {"method": "lasso"}},
)
def dci(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    *,
    method: Literal["boosting", "forest", "lasso"] = "boosting",
    seed: Natural = 0,
) -> dict[str, float]:
    """Disentanglement, completeness and informativeness (Eastwood & Williams, 2018).

    D = Σ_i ρ_i (1 − H(P_i) / ln K),  P_i = R_i· / Σ_k R_ik,  ρ_i = Σ_k R_ik / Σ R
    C = Σ_k ρ_k (1 − H(Q_k) / ln D),  Q_k = R_·k / Σ_i R_ik

    R_ik is how much latent i helps to predict factor k from all latents. Codes are (N, D), factors
    (N, K) levels; without test rows, a third of the rows is held back.

    By default the predictor is that of the 2019 study, scikit-learn's gradient boosting at its
    defaults (100 stages, depth 3) and its impurity importances, reproduced exactly up to the
    chance by which splits of equal gain are broken; `informativeness` is the accuracy on held-out
    rows, and `informativeness_train` on the training rows. The variants `forest` and `lasso` are
    the paper's own: regression on standardised codes and levels, with importances from splits and
    from absolute weights. They return `nrmse` instead, the root of the squared error on held-out
    rows over that of guessing the mean, where *lower* is better. Never compare across methods.

    D is 0 with one factor, C is 0 with one latent, and both are 0 where nothing can be predicted. A
    perfect code scores 0.9999999993, not 1.

    Blind spots: D and C grow with the number of rows when factors have many levels (0.61 at 2,000
    rows is 0.71 at 10,000), so state N and never compare across it. Dead latents raise the base of
    C: two copies of every latent score 1 − ln 2 / ln D. Copies share their importance by chance.
    Noise is overfitted: informativeness_train of pure noise is 0.4 and more. Codes are cut to
    single precision and values closer than 1e-7 count as equal, so a tiny or far shifted latent
    looks dead. The variants take levels for numbers, which a shape is not; and what little a lasso
    keeps of noise looks disentangled, so read D and C next to nrmse.

    Args:
        method: what predicts factors: boosted trees, or a forest or lasso as in the paper.
        seed: of the held-out rows, of ties between splits, and of forests and folds.

    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> scores = dci(factors.astype(float), factors)
    >>> round(scores["disentanglement"], 6), round(scores["completeness"], 6)
    (1.0, 1.0)
    """
    rows = split(codes, factors, test_codes, test_factors, seed)
    if method == "boosting":
        return _by_boosting(rows, seed)
    importances, errors = _by_regression(rows, _forest if method == "forest" else _lasso, seed)
    return {
        "disentanglement": disentanglement(importances),
        "completeness": completeness(importances),
        "nrmse": float(errors.mean()),
    }


def disentanglement(importances: ArrayLike) -> float:
    """D of importances (D, K): 1 if every latent serves one factor, 0 if all serve all alike.

    >>> round(disentanglement([[0.9, 0.1], [0.1, 0.9]]), 6)
    0.531004
    """
    return _concentration(_check_importances(importances))


def completeness(importances: ArrayLike) -> float:
    """C of importances (D, K): 1 if every factor needs one latent, 0 if all need all alike.

    >>> round(completeness([[0.8, 0.3, 0], [0.2, 0.7, 0], [0, 0, 1]]), 6)
    0.662827
    """
    return _concentration(_check_importances(importances).T)


def _check_importances(importances: ArrayLike) -> NDArray[np.float64]:
    r = np.asarray(importances, dtype=np.float64)
    if r.ndim != 2 or 0 in r.shape or not (np.isfinite(r) & (r >= 0)).all():
        raise DataError(
            f"importances must have shape (D, K) and not be negative; these have shape {r.shape}"
        )
    return r


def _concentration(r: NDArray[np.float64]) -> float:
    """The mean of 1 − normalised entropy over rows, weighted by their sums."""
    if r.shape[1] == 1 or not r.any():
        return 0.0
    p = (r + IMPORTANCE_OFFSET) / (r + IMPORTANCE_OFFSET).sum(1, keepdims=True)
    scores = 1 + (p * np.log(p)).sum(1) / np.log(r.shape[1])
    return float(np.clip(r.sum(1) / r.sum() @ scores, 0.0, 1.0))


def _by_boosting(rows: Split, seed: int) -> dict[str, float]:
    from untwine.estimators.trees import fit_boosted_trees

    fit = fit_boosted_trees(rows.codes, rows.factors, rows.test_codes, seed=seed)
    return {
        "disentanglement": disentanglement(fit.importances),
        "completeness": completeness(fit.importances),
        "informativeness": float((fit.predicted == rows.test_factors).mean()),
        "informativeness_train": float((fit.fitted == rows.factors).mean()),
    }


def _by_regression(
    rows: Split, fit: Any, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(D, K) importances, and the (K,) errors on held-out rows."""
    x, test_x = _standardise(rows.codes, rows.test_codes)
    y, test_y = _standardise(rows.factors, rows.test_factors)
    importances, errors = [], []
    for k in range(y.shape[1]):
        model, importance = fit(x, y[:, k], seed)
        importances.append(importance)
        errors.append(_nrmse(test_y[:, k], model.predict(test_x)))
    return np.stack(importances, axis=1), np.array(errors)


def _standardise(
    train: NDArray[Any], test: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean, spread = train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64)
    spread = np.where(spread > 0, spread, 1.0)
    return (train - mean) / spread, (test - mean) / spread


def _nrmse(y: NDArray[np.float64], guess: NDArray[np.float64]) -> float:
    """The error over that of guessing the mean of the training rows, which is 0."""
    mean_square = float(np.square(y).mean())
    return float(np.sqrt(np.square(y - guess).mean() / mean_square)) if mean_square else 0.0


def _lasso(
    x: NDArray[np.float64], y: NDArray[np.float64], seed: int
) -> tuple[Any, NDArray[np.float64]]:
    """A lasso whose penalty is chosen by five folds, and the absolute weights."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV
    from sklearn.model_selection import KFold

    folds = KFold(min(5, len(y)), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # the smallest penalties tried need not converge to lose against the others
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LassoCV(cv=folds).fit(x, y)
    return model, np.abs(model.coef_)


def _forest(
    x: NDArray[np.float64], y: NDArray[np.float64], seed: int
) -> tuple[Any, NDArray[np.float64]]:
    """Twenty trees of the depth that predicts a held-out fifth best, and their importances."""
    from sklearn.ensemble import RandomForestRegressor

    order = np.random.default_rng(seed).permutation(len(y))
    held_out, rows = order[: len(y) // 5], order[len(y) // 5 :]

    def forest(trees: int, depth: int) -> Any:
        return RandomForestRegressor(trees, max_depth=depth, random_state=seed)

    def error(depth: int) -> float:
        model = forest(5, depth).fit(x[rows], y[rows])
        return float(np.square(model.predict(x[held_out]) - y[held_out]).mean())

    depth = min(DEPTHS, key=error) if len(held_out) else DEPTHS[0]
    model = forest(20, depth).fit(x, y)
    return model, np.maximum(model.feature_importances_, 0.0)  # rounding may leave them below 0
