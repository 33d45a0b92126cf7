"""Which models combine: asked of the real build, for the command line and the docs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from untwine.data import Dataset, from_arrays
from untwine.errors import IncompatibleError
from untwine.registry import models
from untwine.spec import Settings, assemble, design, model_names

YES, NO = "●", "·"


def refusal(names: str) -> str:
    """Why these models do not combine at their defaults, or nothing if they do."""
    try:
        data = _probe()
        pieces = design(names, data, Settings({"mlp.width": 8}), network="mlp")
        assemble(pieces, data, latent=4, seed=0)
    except IncompatibleError as error:
        return str(error)
    return ""


def _probe() -> Dataset:
    """Small colour images, which every model takes."""
    return from_arrays(np.random.default_rng(0).random((16, 16, 16, 3)))


def refusals(pairs: Iterable[tuple[str, str]] | None = None) -> dict[tuple[str, str], str]:
    """Every pair of models with the reason why it is refused, nothing where it builds."""
    asked = itertools.combinations(models, 2) if pairs is None else pairs
    return {pair: refusal("+".join(pair)) for pair in asked}


def partners(name: str) -> tuple[list[str], list[str]]:
    """The models that combine with this one, and those that do not."""
    found = refusals((name, other) for other in models if other != name)
    yes = [other for (_, other), reason in found.items() if not reason]
    return yes, [other for (_, other), reason in found.items() if reason]


def matrix(found: dict[tuple[str, str], str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: one numbered row and column per model, a dot where the pair builds."""
    names = list(models)
    header = ["", *(str(i + 1) for i in range(len(names)))]
    rows = [[f"{i + 1} {a}", *(_cell(found, a, b) for b in names)] for i, a in enumerate(names)]
    return header, rows


def _cell(found: dict[tuple[str, str], str], a: str, b: str) -> str:
    if a == b:
        return ""
    return NO if found[min((a, b), (b, a), key=lambda pair: pair not in found)] else YES


def markdown() -> str:
    """The page of all pairs with the reasons of those refused."""
    found = refusals()
    header, rows = matrix(found)
    table = "\n".join(
        [
            f"| {' | '.join(header)} |",
            "|" + "---|" * len(header),
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    )
    reasons = "\n".join(
        f"- `{'+'.join(pair)}`: {reason}" for pair, reason in found.items() if reason
    )
    together = sum(not reason for reason in found.values())
    return (
        "# Compositions\n\n"
        f"Of {len(found)} pairs of models {together} build together ({YES}); the others are "
        f"refused ({NO}) for the reasons below. The table is made by building every pair: "
        "`untwine models --pairs` prints it.\n\n"
        f"{table}\n\n## Why not\n\n{reasons}\n"
    )


def citations(text: str) -> list[str]:
    """The BibTeX of exactly the models in `jigsaw+beta-tcvae`, each once."""
    texts = [models[name].facts["bibtex"] for name in model_names(text)]
    return list(dict.fromkeys(entry for text in texts for entry in text.split("\n\n")))
