"""The objective: a weighted sum of terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from untwine.parts.schedules import Weight
from untwine.parts.terms import KL, NegLogLikelihood
from untwine.records import Sizes, Trace
from untwine.slots import AdversarialTerm, Term

Terms = Mapping[str, tuple[Weight, Callable[[Sizes], Term]]]
ELBO: Terms = {"nll": (1.0, NegLogLikelihood), "kl": (1.0, KL)}


class Objective(nn.Module):
    """A weighted sum of named terms, averaged over the batch, to minimise."""

    def __init__(self, terms: Mapping[str, tuple[Weight, Term]]) -> None:
        super().__init__()
        self.weights = {name: weight for name, (weight, _) in terms.items()}
        self.terms = nn.ModuleDict({name: term for name, (_, term) in terms.items()})

    def forward(self, trace: Trace) -> dict[str, Tensor]:
        """The value of each term under its name, and their weighted sum under `loss`."""
        values = {name: term(trace).mean() for name, term in self.terms.items()}
        step = trace.batch.step
        weighted = [
            (weight(step) if callable(weight) else weight) * values[name]
            for name, weight in self.weights.items()
        ]
        return {"loss": torch.stack(weighted).sum(), **values}

    def constants(self) -> dict[str, float]:
        """What the estimators of terms add to them, by term."""
        terms = {name: term for name, term in self.terms.items() if isinstance(term, Term)}
        return {name: term.constant for name, term in terms.items() if term.constant}

    def without_constants(self, row: Mapping[str, float]) -> dict[str, float]:
        """A row of the history without the constants that the estimators of terms add."""
        constants = self.constants()
        return {
            name: value - constants.get(name.removeprefix("validation_"), 0.0)
            for name, value in row.items()
        }

    def adversaries(self) -> list[AdversarialTerm]:
        return [term for term in self.terms.values() if isinstance(term, AdversarialTerm)]
