"""Which pairs of models combine, found by building them, for the command line and the docs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from untwine.data.arrays import from_arrays
from untwine.data.dataset import Dataset
from untwine.data.incoming.bounds import describe_error
from untwine.errors import IncompatibleError
from untwine.registry import models
from untwine.settings import Settings
from untwine.spec import build_model, resolve_model

YES, NO = "●", "·"


def pair_refusal(names: str) -> str:
    """Why these models do not combine at their defaults; empty if they do.

    Whatever a model of a plug-in raises is a reason, so that it spoils no list.
    """
    try:
        data = _probe_data()
        pieces = resolve_model(names, data, Settings({"mlp.width": 8}), network="mlp")
        build_model(pieces, data, latent=4, seed=0)
    except IncompatibleError as error:
        return str(error)
    except Exception as error:
        foreign = [name for name in names.split("+") if models[name].plugin]
        if not foreign:
            raise
        return f"{' or '.join(foreign)} fails: {describe_error(error)}"
    return ""


def _probe_data() -> Dataset:
    """Small colour images with a label, which every model accepts."""
    return from_arrays(np.random.default_rng(0).random((16, 16, 16, 3)), np.arange(16) % 2)


def all_refusals(pairs: Iterable[tuple[str, str]] | None = None) -> dict[tuple[str, str], str]:
    """The reason why each pair of models is refused; empty if it builds."""
    pairs = itertools.combinations(models, 2) if pairs is None else pairs
    return {pair: pair_refusal("+".join(pair)) for pair in pairs}


def partners(name: str) -> tuple[list[str], list[str]]:
    """The models that combine with this one, and those that do not."""
    refusals = all_refusals((name, other) for other in models if other != name)
    yes = [other for (_, other), reason in refusals.items() if not reason]
    return yes, [other for (_, other), reason in refusals.items() if reason]


def pair_table(refusals: dict[tuple[str, str], str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: one numbered row and column per model, a dot where the pair builds."""
    names = list(models)
    header = ["", *(str(i + 1) for i in range(len(names)))]
    rows = [[f"{i + 1} {a}", *(_cell(refusals, a, b) for b in names)] for i, a in enumerate(names)]
    return header, rows


def _cell(refusals: dict[tuple[str, str], str], a: str, b: str) -> str:
    if a == b:
        return ""
    return NO if refusals[min((a, b), (b, a), key=lambda pair: pair not in refusals)] else YES


def pair_page() -> str:
    """The page of all pairs with the reasons of those refused."""
    refusals = all_refusals()
    header, rows = pair_table(refusals)
    table = "\n".join(
        [
            f"| {' | '.join(header)} |",
            "|" + "---|" * len(header),
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    )
    reasons = "\n".join(
        f"- `{'+'.join(pair)}`: {reason}" for pair, reason in refusals.items() if reason
    )
    together = sum(not reason for reason in refusals.values())
    return (
        "# Compositions\n\n"
        f"Of {len(refusals)} pairs of models {together} build together ({YES}); the others are "
        f"refused ({NO}) for the reasons below. The table is made by building every pair: "
        "`untwine models --pairs` prints it.\n\n"
        f"{table}\n\n## Why not\n\n{reasons}\n"
    )
