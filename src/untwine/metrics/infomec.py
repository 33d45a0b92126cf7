"""InfoMEC: modularity, explicitness and compactness from mutual information."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.estimators.arrays import Codes, Levels, check
from untwine.estimators.information import discretise, entropy, mutual_information
from untwine.registry import metric
from untwine.schema import Count, Natural, Range

TIE_NOISE = 1e-8  # separates equal codes, which have a standard deviation of 1
ROUNDING = 1e-10  # distances shrink by this share, so that the k-th neighbour is not counted


@metric(
    title="InfoMEC",
    paper="Hsu et al., 2023",
    url="https://arxiv.org/abs/2305.18378",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "dead"),
    variants={"discrete": {"latents": "discrete"}},
)
def infomec(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    latents: Literal["continuous", "discrete"] = "continuous",
    neighbours: Count = 10,
    bins: Annotated[int, Range(2, 10_000)] = 20,
    iterations: Count = 100,
    seed: Natural = 0,
) -> dict[str, float]:
    """Modularity, explicitness and compactness of Hsu et al., 2023, from normalised information.

    N_ki = I(v_k; z_i) / H(v_k) for the A active latents
    InfoM = (mean_i max_k N_ki / Σ_k N_ki − 1/K) / (1 − 1/K)   each latent holds one factor
    InfoC = (mean_k max_i N_ki / Σ_i N_ki − 1/A) / (1 − 1/A)   each factor is in one latent
    InfoE = mean_k 1 − L_k / ln n_k                            factors can be read linearly

    L_k is the log-loss, on the same rows, of an unpenalised logistic regression with balanced
    classes from all standardised latents to factor k, and ln n_k that of a guess.

    Codes (N, D), factors (N, K) levels. Continuous latents are active if their range is over a
    twentieth of the widest, and I is estimated from nearest neighbours; discrete ones are cut into
    equal bins, are active unless constant, and enter the regression one-hot. Latents and factors
    without any information are skipped in InfoM and InfoC, and their numbers are returned. With a
    single factor InfoM is 1, with a single active latent InfoC is 1; without information both
    are 0.

    Blind spots: InfoE is measured on the rows it was learned from, so many latents or few rows
    raise it; and where `iterations` end the regression early, it is lower than it could be. A
    latent with an outlier makes others inactive, and scaling a latent changes who is active; dead
    latents with any noise are active when discrete. A factor with one tiny share of information in
    one latent counts as perfectly compact: read InfoC next to InfoE.

    Args:
        latents: "continuous", or "discrete" to take each latent as equal bins between its extremes.
        neighbours: number of neighbours in the estimate for continuous latents.
        bins: number of bins of each discrete latent.
        iterations: maximum number of steps of the logistic regression.
        seed: of the noise that separates equal codes.

    >>> factors = np.stack(np.meshgrid(*map(np.arange, (5, 6, 7))), -1).reshape(-1, 3)
    >>> scores = infomec(factors, factors, latents="discrete")
    >>> [round(scores[name], 3) for name in ("infom", "infoe", "infoc")]
    [1.0, 1.0, 1.0]
    """
    z, f = check(codes, factors)
    width = z.max(0).astype(np.float64) - z.min(0)
    active = width > (width.max() / 20 if latents == "continuous" else 0)
    if latents == "continuous":
        x = _standardise(z)
        information = _neighbour_information(x[:, active], f, neighbours, seed)
    else:
        levels = discretise(z, bins)
        x = _one_hot(levels)
        information = mutual_information(levels[:, active], f) if active.any() else np.zeros((0, 1))
    shares = information / entropy(f)  # (A, K)
    return {
        "infom": _concentration(shares),
        "infoe": _explicitness(x, f, iterations),
        "infoc": _concentration(shares.T),
        "active": float(active.sum()),
        "empty_latents": float((~shares.any(1)).sum()),
        "empty_factors": float((~shares.any(0)).sum()),
    }


def _concentration(shares: NDArray[np.float64]) -> float:
    """(R, C) shares to how far each row is in one column: 0 for evenly spread, 1 for one."""
    columns = shares.shape[1]
    rows = shares[shares.any(1)]
    if not len(rows):
        return 0.0
    if columns == 1:
        return 1.0
    share = float((rows.max(1) / rows.sum(1)).mean())
    return (share - 1 / columns) / (1 - 1 / columns)


def _standardise(z: Codes) -> NDArray[np.float64]:
    z = z.astype(np.float64) - z[0]  # a constant latent then is exactly 0
    spread = z.std(0)
    return (z - z.mean(0)) / np.where(spread > 0, spread, 1)


def _one_hot(levels: NDArray[np.integer]) -> Any:
    """(N, D) bins to a sparse (N, D * bins) matrix of zeros and ones."""
    from scipy.sparse import csr_array

    n, d = levels.shape
    width = int(levels.max()) + 1
    places = (levels + width * np.arange(d)).ravel()
    ends = np.arange(0, n * d + 1, d)
    return csr_array((np.ones(n * d), places, ends), shape=(n, d * width))


def _explicitness(x: Any, f: Levels, iterations: int) -> float:
    losses = [_log_loss(x, column, iterations) / math.log(column.max() + 1) for column in f.T]
    return float(1 - np.mean(losses))


def _log_loss(x: Any, column: NDArray[np.int64], iterations: int) -> float:
    """The mean −ln p(level) of a logistic regression on its training rows."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    regression = LogisticRegression(
        C=np.inf, class_weight="balanced", max_iter=iterations, tol=1e-8
    )
    with warnings.catch_warnings():
        # Separable levels have no finite optimum: the iterations are what ends the fit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # A factor with nearly as many levels as rows looks like a regression, but is not one.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        p = regression.fit(x, column).predict_proba(x)
    likelihood = p[np.arange(len(column)), column]
    return float(-np.log(likelihood.clip(np.finfo(np.float64).eps)).mean())


def _neighbour_information(
    x: NDArray[np.float64], f: Levels, neighbours: int, seed: int
) -> NDArray[np.float64]:
    """(N, A) standardised latents and (N, K) levels to the (A, K) information in nats.

    All latents get the same noise, so that their order does not matter.
    """
    noise = TIE_NOISE * np.random.default_rng(seed).standard_normal((len(x), 1))
    information = np.zeros((x.shape[1], f.shape[1]))
    for i, latent in enumerate((x + noise).T):
        order = np.argsort(latent)
        for k, column in enumerate(f.T):
            information[i, k] = _ross(latent[order], column[order], neighbours)
    return information


def _ross(latent: NDArray[np.float64], column: NDArray[np.int64], neighbours: int) -> float:
    """The information between a sorted latent (N,) and levels (N,), by Ross, 2014.

    I = ψ(N) − mean ψ(N_x) + mean ψ(k) − mean ψ(m), where the N_x rows of a level hold the k-th
    neighbour of a row, and m rows of any level are nearer than that. Levels of one row are left
    out.
    """
    from scipy.special import digamma

    counts = np.bincount(column)
    several = counts[column] > 1
    latent, column = latent[several], column[several]
    if not len(latent):
        return 0.0
    order = np.argsort(column.astype(np.min_scalar_type(column.max())), kind="stable")
    count = counts[column[order]]
    k = np.minimum(neighbours, count - 1)
    start = (np.cumsum(counts * (counts > 1)) - counts)[column[order]]
    x = latent[order]
    reach = _distances(x, start, start + count, k, neighbours) * (1 - ROUNDING)
    m = np.searchsorted(latent, x + reach) - np.searchsorted(latent, x - reach, side="right")
    parts = digamma(k) - digamma(count) - digamma(np.maximum(m, k))
    return max(0.0, float(digamma(len(x)) + parts.mean()))


def _distances(
    x: NDArray[np.float64],
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
    k: NDArray[np.int64],
    neighbours: int,
) -> NDArray[np.float64]:
    """(N,) the distance from each number to its k-th neighbour among those from start to stop.

    The numbers from start to stop are sorted, so the neighbours are one of k + 1 windows.
    """
    nearest = np.full(len(x), np.inf)
    for before in range(neighbours + 1):
        low = np.arange(len(x)) - before
        high = low + k
        inside = np.flatnonzero((low >= start) & (high < stop))
        wide = np.maximum(x[inside] - x[low[inside]], x[high[inside]] - x[inside])
        nearest[inside] = np.minimum(nearest[inside], wide)
    return nearest
