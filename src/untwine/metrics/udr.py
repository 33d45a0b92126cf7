"""UDR: do models that differ only by their seed find the same latents?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from untwine.errors import DataError
from untwine.estimators.arrays import check_codes
from untwine.metrics.total_correlation import covariance
from untwine.registry import metric
from untwine.schema import NonNegative, Positive

SWEEPS, ROUNDS = 4, 1000  # of coordinate descent before each attempt to solve exactly
ZERO_TOLERANCE = 1e-12  # gradients and coefficients that count as zero
MAX_NUMBERS = 2**22  # in memory for the systems of all regressions on a model
RIDGE = 1e-10  # lets systems of copied latents be solved


def udr_scores(
    several_codes: Sequence[ArrayLike],
    several_kl: Sequence[ArrayLike] | None = None,
    *,
    method: Literal["lasso", "spearman"] = "lasso",
    alpha: float = 0.1,
    threshold: float = 0.01,
    filtered: bool = True,
) -> NDArray[np.float64]:
    """(M,) scores of the models, for choosing among them; arguments as in `udr`."""
    models = _check_models(several_codes)
    ends = np.cumsum([z.shape[1] for z in models])[:-1]
    correlations, changing = _correlations(models, method)  # (T, T) and (T,) over all latents
    informative = changing & _informative(models, several_kl, threshold)
    correlations = correlations * informative * informative[:, None]
    used = informative if filtered else np.ones_like(informative)
    blocks = np.split(np.arange(len(used)), ends)
    strengths = [
        _strengths(correlations[block], block, method, alpha)[used[block]] for block in blocks
    ]
    agreements = np.array(
        [[_agreement(r[:, block[used[block]]]) for block in blocks] for r in strengths]
    )
    return np.array([np.median(np.delete(column, b)) for b, column in enumerate(agreements.T)])


@metric(
    title="Unsupervised disentanglement ranking",
    paper="Duan et al., 2020",
    url="https://arxiv.org/abs/1905.12614",
    higher_is_better=True,
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "shift", "dead"),
    variants={"spearman": {"method": "spearman"}},
    compares="runs",  # studies give each run a score with:
    per_run=udr_scores,
)
def udr(
    several_codes: Sequence[ArrayLike],
    several_kl: Sequence[ArrayLike] | None = None,
    *,
    method: Literal["lasso", "spearman"] = "lasso",
    alpha: Positive = 0.1,
    threshold: NonNegative = 0.01,
    filtered: bool = True,
) -> dict[str, float]:
    """How much models agree, up to the order and sign of latents (Duan et al., 2020).

    s(a, b) = ½ [mean_j max_i R_ij² / Σ_i R_ij + mean_i max_j R_ij² / Σ_j R_ij],   0/0 = 0
    UDR_b = median_{a≠b} s(a, b)

    R_ij ≥ 0 (D_a, D_b) says how strongly latent i of model a goes with latent j of model b: the
    size of a lasso coefficient, when all latents of b are regressed on those of a (all
    standardised), or Spearman's rank correlation.

    `several_codes` are the codes (N, D) of at least two models on the same N examples, best
    trained alike with different seeds; `several_kl` the mean KL (D,) of each latent. Latents with
    no more KL than the threshold are left out; without KL only constant ones are. Returns the
    median over models, then the score of each model: the higher, the more likely it is to be
    disentangled.

    Blind spots: models that share a flaw agree on it, so a high score needs no factor to be found.
    Lasso shrinks: identical models of independent latents score 1 − alpha. A model that uses one
    latent agrees easily. Lasso sees linear relations only, Spearman monotone ones.

    Args:
        method: "lasso" coefficients or "spearman" rank correlations.
        alpha: weight of the lasso's penalty.
        threshold: KL in nats above which a latent is informative.
        filtered: leave uninformative latents out; else they count as latents that nothing fits.

    >>> z = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    >>> scores = udr([z, -z[:, ::-1], z])
    >>> round(scores["udr"], 6), round(scores["model 3"], 6)
    (0.9, 0.9)
    """
    scores = udr_scores(
        several_codes,
        several_kl,
        method=method,
        alpha=alpha,
        threshold=threshold,
        filtered=filtered,
    )
    each = {f"model {number}": float(score) for number, score in enumerate(scores, 1)}
    return {"udr": float(np.median(scores)), **each}


def _check_models(several_codes: Sequence[ArrayLike]) -> list[NDArray[np.floating]]:
    models = [check_codes(codes) for codes in several_codes]
    if len(models) < 2:
        raise DataError(f"agreement needs the codes of at least 2 models, not {len(models)}")
    if len({len(z) for z in models}) > 1:
        raise DataError(
            "all models must encode the same examples, not "
            + ", ".join(str(len(z)) for z in models)
        )
    return models


def _informative(
    models: list[NDArray[np.floating]], several_kl: Sequence[ArrayLike] | None, threshold: float
) -> NDArray[np.bool_]:
    """(T,) whether the KL of each latent of all models exceeds the threshold."""
    total = sum(z.shape[1] for z in models)
    if several_kl is None:
        return np.ones(total, dtype=np.bool_)
    kl = [np.asarray(values, dtype=np.float64) for values in several_kl]
    if [values.shape for values in kl] != [(z.shape[1],) for z in models]:
        raise DataError(
            "the KL must have one number per latent of each model: shapes "
            f"{[(z.shape[1],) for z in models]}, not {[values.shape for values in kl]}"
        )
    return np.concatenate(kl) > threshold


def _correlations(
    models: list[NDArray[np.floating]], method: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(T, T) correlations of all latents, 0 for constant ones, and (T,) which are not constant."""
    columns = np.concatenate(models, axis=1)
    if method == "spearman":
        from scipy.stats import rankdata

        columns = np.stack([rankdata(column) for column in columns.T], axis=1)
    covariances = covariance(columns)
    changing = covariances.diagonal() > 0
    scale = np.sqrt(np.where(changing, covariances.diagonal(), 1))
    return covariances / np.outer(scale, scale), changing


def _strengths(
    correlations: NDArray[np.float64], block: NDArray[np.intp], method: str, alpha: float
) -> NDArray[np.float64]:
    """(D_a, T) how strongly each latent of a model goes with every latent of all models."""
    if method == "spearman":
        return np.abs(correlations)
    pieces = -(-correlations.size * len(block) // MAX_NUMBERS)
    parts = np.array_split(correlations, pieces, axis=1)
    return np.abs(np.hstack([_lasso(correlations[:, block], part, alpha) for part in parts]))


def _lasso(
    gram: NDArray[np.float64], targets: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    """(D, D) X'X/N and (D, T) X'Y/N to the (D, T) W of least |Y − XW|²/2N + alpha |W|.

    Coordinate descent finds which coefficients are not zero; then they solve a linear system. Where
    that would change a sign, it goes as far as to the first zero, and descends again.
    """
    w = np.zeros_like(targets)
    left = np.arange(targets.shape[1])
    for _ in range(ROUNDS):
        start = _descend(gram, targets[:, left], alpha, w[:, left])
        exact, optimal = _solve(gram, targets[:, left], alpha, start)
        w[:, left] = np.where(optimal, exact, _move_towards(start, exact))
        left = left[~optimal]
        if not len(left):
            break
    return w


def _descend(
    gram: NDArray[np.float64],
    targets: NDArray[np.float64],
    alpha: float,
    w: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Coefficients (D, T) after some sweeps of coordinate descent."""
    for j in np.tile(np.flatnonzero(gram.diagonal()), SWEEPS):
        rest = targets[j] - gram[j] @ w + gram[j, j] * w[j]
        w[j] = np.sign(rest) * np.maximum(np.abs(rest) - alpha, 0) / gram[j, j]
    return w


def _solve(
    gram: NDArray[np.float64],
    targets: NDArray[np.float64],
    alpha: float,
    start: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Coefficients (D, T) near start whose gradient is zero, and (T,) which are optimal.

    Copied latents have many solutions; the ridge chooses the one that is nearest.
    """
    signs = np.sign(start) * (np.abs(start) > ZERO_TOLERANCE)  # smaller ones are rounding errors
    active = (signs != 0).T  # (T, D)
    both = active[:, :, None] & active[:, None, :]
    systems = np.where(both, gram, 0.0) + np.eye(len(gram)) * np.where(active, RIDGE, 1)[:, None]
    w = np.where(active.T, start, 0.0)
    slope = (targets - gram @ w - alpha * signs).T * active
    w = w + np.linalg.solve(systems, slope[..., None])[..., 0].T
    slope = targets - gram @ w
    good = (
        np.where(active.T, np.abs(slope - alpha * signs), np.abs(slope) - alpha) <= ZERO_TOLERANCE
    )
    return w, (good & (np.sign(w) == signs)).all(0)


def _move_towards(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D, T) as far from start to end as no sign changes."""
    turns = np.sign(end) * np.sign(start) < 0
    share = np.where(turns, start / np.where(turns, start - end, 1), 1)
    least = share.min(0)
    return np.where(turns & (share == least), 0, start + least * (end - start))


def _agreement(r: NDArray[np.float64]) -> float:
    """(D_a, D_b) strengths to s(a, b); 0 where a model has no informative latent."""
    return (_one_way_agreement(r) + _one_way_agreement(r.T)) / 2 if r.size else 0.0


def _one_way_agreement(r: NDArray[np.float64]) -> float:
    total = r.sum(0)
    return float((np.square(r.max(0)) / np.where(total > 0, total, 1)).mean())
