"""What a run has learned and what not, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from untwine.scoring.latents import LatentDescription
from untwine.scoring.scores import Scores, value_title
from untwine.study.titles import join_names

KNOWN_SHARE = 0.3  # of a factor's entropy, from which one latent is said to know it
PARTLY_SHARE = 0.05
LAST_SHARE = 0.1  # of the rows, at the end of a training
OVERFITTING = 0.01  # rise of the validation loss, relative to its fall


def what_was_learned(
    latents: Sequence[LatentDescription],
    shares: NDArray[np.float64],
    factors: Sequence[str],
    history: Sequence[Mapping[str, float]],
    scores: Scores,
    labels: Collection[str] = (),
) -> list[str]:
    """Sentences on factors, latents, held-out data and unreliable scores.

    Args:
        latents: all of them.
        shares: (D, K) of each factor's entropy that each latent knows.
        factors: (K,) names.
        history: rows of the training.
        scores: of the run.
        labels: names of factors that a conditional model is told.
    """
    active = [one.number for one in latents if one.active]
    sentences = [_latents(len(active), len(latents))]
    if not factors:
        sentences.append(
            "The data has no factors, so what a latent means is for the eye: see its traversal."
        )
    elif active:
        own = [k for k, name in enumerate(factors) if name not in labels]
        names = [factors[k] for k in own]
        known = _factors(shares[:, own], names, active) if own else []
        sentences = [*known, *_labels(shares, factors, active, labels), *sentences]
        sentences += _entangled(shares[:, own], names, active)
    sentences += [
        f"{value_title(name, next(iter(scores[name].values)))} is {note}."
        for name in scores
        if (note := scores.note(name))
    ]
    return [*sentences, *_held_out(history)]


def _latents(active: int, total: int) -> str:
    if not active:
        return (
            "No latent is active: the posterior has collapsed to the prior, so the codes say "
            "nothing. Lower the weight of the KL, or train longer."
        )
    if active == total:
        return f"All {total} latents are active; more of them may hold more."
    unused = total - active
    return f"{active} of {total} latents are active, {unused} {'is' if unused == 1 else 'are'} not."


def _factors(shares: NDArray[np.float64], names: Sequence[str], active: list[int]) -> list[str]:
    """Which factors one latent knows, knows in part, or does not know."""
    best = shares[active].max(0)
    where = np.array(active)[shares[active].argmax(0)]
    described = [f"{name} ({100 * best[k]:.0f} % in z{where[k]})" for k, name in enumerate(names)]
    order = sorted(range(len(names)), key=lambda k: -best[k])
    known = [described[k] for k in order if best[k] >= KNOWN_SHARE]
    partly = [described[k] for k in order if PARTLY_SHARE <= best[k] < KNOWN_SHARE]
    unknown = [names[k] for k in order if best[k] < PARTLY_SHARE]
    factors = f"{len(names)} factor{'s' if len(names) != 1 else ''}"
    sentences = [
        f"It knows {len(known)} of {factors}: {join_names(known)}."
        if known
        else f"It knows none of {factors} well."
    ]
    sentences += [f"It knows in part: {join_names(partly)}."] if partly else []
    sentences += [f"It does not know: {join_names(unknown)}."] if unknown else []
    return sentences


def _labels(
    shares: NDArray[np.float64],
    names: Sequence[str],
    active: list[int],
    labels: Collection[str],
) -> list[str]:
    """How much latents know of the labels, which a conditional model is told."""
    best = shares[active].max(0)
    return [
        f"It is told {name}, which codes need not hold: z{active[int(shares[active, k].argmax())]} "
        f"knows most of it ({100 * best[k]:.0f} %)."
        for k, name in enumerate(names)
        if name in labels
    ]


def _entangled(shares: NDArray[np.float64], names: Sequence[str], active: list[int]) -> list[str]:
    """Latents that mix factors, and factors that are spread over latents."""
    high = shares >= KNOWN_SHARE
    mixed = [
        (d, [name for k, name in enumerate(names) if high[d, k]])
        for d in active
        if high[d].sum() > 1
    ]
    spread = [
        (name, [f"z{d}" for d in active if high[d, k]])
        for k, name in enumerate(names)
        if high[active, k].sum() > 1
    ]
    return [
        *(f"z{latent} mixes {join_names(some)}." for latent, some in mixed),
        *(f"{name.capitalize()} is spread over {join_names(some)}." for name, some in spread),
    ]


def _held_out(history: Sequence[Mapping[str, float]]) -> list[str]:
    """Whether the validation loss rose towards the end."""
    rows = [row for row in history if "validation_loss" in row]
    if len(rows) < 3:
        return []
    losses = np.array([row["validation_loss"] for row in rows])
    n_last, lowest = max(1, round(LAST_SHARE * len(losses))), int(losses.argmin())
    last, fall = losses[-n_last:].mean(), losses[0] - losses.min()
    step = f"{int(rows[lowest]['step']):,}"
    if lowest < len(losses) - n_last and last - losses.min() > OVERFITTING * fall:
        return [
            f"The validation loss was lowest at step {step} ({losses.min():.4g}) and rose to "
            f"{last:.4g}: from there on the model overfits."
        ]
    return [f"The validation loss did not rise: it was lowest at step {step} ({losses.min():.4g})."]
