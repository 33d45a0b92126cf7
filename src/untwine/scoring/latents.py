"""What each latent of a run says, and of which factor.

The report, the explorer and the exhibits all ask this module, so that they agree about a run.
How much a latent says is measured by `untwine.latents`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from untwine.latents import Floats, Index, LatentStatistics, measure_sample
from untwine.records import ACTIVE_NATS, LatentProfile
from untwine.runs.directory import TrainedRun

VISIBLE_CHANGE = 0.05  # of the range of a pixel or column, below which a latent counts as unused
N_FILM_STARTS, N_FILM_FRAMES = 4, 5  # codes in which a latent is moved, and the values it takes
N_RANGE_CODES = 64  # decoded for the range of the columns of a table
MIN_FACTOR_SHARE = 0.02  # of a factor's entropy, from which a latent is said to know of it
INFORMATION_BINS = 20
N_SHUFFLES = 3


@dataclass(frozen=True)
class LatentDescription:
    """One latent in words and numbers."""

    number: int
    part: str  # the latent variable it belongs to
    nats: float
    exact: bool  # whether `nats` is the mean KL, or an estimate
    factor: str  # the factor it knows most of, if any
    share: float  # of that factor's entropy, beyond chance
    change: float  # by which it changes some pixel or column, as a share of its range

    @property
    def active(self) -> bool:
        """Whether it says something of examples and changes what is decoded."""
        return self.nats >= ACTIVE_NATS and self.change >= VISIBLE_CHANGE


def run_latents(trained: TrainedRun) -> LatentStatistics:
    """What the model of a run says of the sample of its data by which its latents are described."""
    return measure_sample(trained.model, trained.data, batch=trained.spec.batch)


def factor_shares(codes: Floats, factors: Index) -> NDArray[np.float64]:
    """(D, K) the share of each factor's entropy that each latent knows, beyond chance.

    (I − E) / (H − E) with the mutual information I of a latent in 20 bins and a factor, the
    factor's entropy H, and E what the same bins know of the factor when examples are shuffled,
    which is far from 0 in a small sample.

    >>> levels = np.arange(400)[:, None] % 4
    >>> noise = np.random.default_rng(0).standard_normal((400, 1))
    >>> factor_shares(np.concatenate([levels, noise], 1).astype(float), levels).round(1).tolist()
    [[1.0], [0.0]]
    """
    from untwine.estimators.information import discretise, entropy, mutual_information

    rng = np.random.default_rng(0)
    binned, whole = discretise(codes, INFORMATION_BINS), entropy(factors)
    shuffled = [mutual_information(binned, rng.permutation(factors)) for _ in range(N_SHUFFLES)]
    chance = np.mean(shuffled, axis=0)
    left = whole - chance
    share = (mutual_information(binned, factors) - chance) / np.where(left > 1e-9, left, 1)
    return np.clip(np.where(left > 1e-9, share, 0), 0, 1)


def film_changes(
    decode: Callable[[Floats], Floats], codes: Floats, profiles: Sequence[LatentProfile]
) -> NDArray[np.float64]:
    """(D,) the largest change of a pixel or column as each latent moves over its range.

    A share of a pixel's range, which is [0, 1], or of the range of a column in decoded codes; the
    mean over films that start from the first few codes. 0 where a latent says next to nothing.

    Args:
        decode: gives the examples (B, *shape) of codes (B, D).
        codes: (N, D) drawn from the prior.
        profiles: (D,) of the latents.
    """
    starts, scale = codes[:N_FILM_STARTS], 1.0
    if decode(starts[:1]).ndim == 2:  # a table
        scale = np.maximum(np.ptp(decode(codes[:N_RANGE_CODES]), axis=0), 1e-9)
    changes = np.zeros(len(profiles))
    for d, profile in enumerate(profiles):
        if profile.nats < ACTIVE_NATS:
            continue
        film = np.repeat(starts[None], N_FILM_FRAMES, 0)
        film[:, :, d] = np.linspace(profile.low, profile.high, N_FILM_FRAMES)[:, None]
        decoded = decode(film.reshape(-1, film.shape[-1]))
        frames = decoded.reshape(N_FILM_FRAMES, len(starts), *decoded.shape[1:])
        extent = np.ptp(frames, axis=0) / scale
        changes[d] = extent.reshape(len(starts), -1).max(1).mean()
    return changes


def describe_latents(
    profiles: Sequence[LatentProfile],
    parts: Sequence[str],
    shares: NDArray[np.float64],
    factors: Sequence[str],
    changes: NDArray[np.float64],
) -> list[LatentDescription]:
    """Every latent: the active ones, then the others, each the most informative first.

    Args:
        profiles: (D,) of the latents.
        parts: (D,) the latent variable that each belongs to.
        shares: (D, K) of the factors' entropies, see `factor_shares`; (D, 0) without factors.
        factors: (K,) their names.
        changes: (D,) of what is decoded, see `film_changes`.
    """
    rows: list[LatentDescription] = []
    for d in range(len(profiles)):
        nats, factor, share = profiles[d].nats, "", 0.0
        best = int(shares[d].argmax()) if len(factors) else -1
        if nats >= ACTIVE_NATS and best >= 0 and shares[d, best] >= MIN_FACTOR_SHARE:
            factor, share = factors[best], float(shares[d, best])
        change = float(changes[d])
        rows.append(LatentDescription(d, parts[d], nats, profiles[d].exact, factor, share, change))
    return sorted(rows, key=lambda row: (not row.active, -row.nats))
