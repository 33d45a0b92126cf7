"""Moments of the aggregate posterior, penalised by both kinds of DIP-VAE."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError
from untwine.records import Sizes, Trace
from untwine.slots import Term

CovarianceOf = Literal["mean", "code"]


def covariance(q: Gaussian, of: CovarianceOf) -> Tensor:
    """(D, D) population covariance over the batch: of the posterior means, or of the code z itself.

    Cov z = Cov μ + diag E[σ²], the law of total covariance.
    """
    if len(q.mean) < 2:
        raise IncompatibleError("a covariance needs a batch of at least 2 examples")
    d = q.mean - q.mean.mean(0)
    of_means = d.T @ d / len(d)
    return of_means if of == "mean" else of_means + torch.diag(q.variance.mean(0))


class OffDiagonal(Term):
    """Σ_{a≠b} S_ab², over ordered pairs, ()."""

    def __init__(self, sizes: Sizes, of: CovarianceOf) -> None:
        super().__init__(sizes)
        self.of: CovarianceOf = of

    def forward(self, trace: Trace) -> Tensor:
        s = _covariance(self, trace)
        return (s - torch.diag(s.diagonal())).square().sum()


class Diagonal(Term):
    """Σ_a (S_aa − 1)², ()."""

    def __init__(self, sizes: Sizes, of: CovarianceOf) -> None:
        super().__init__(sizes)
        self.of: CovarianceOf = of

    def forward(self, trace: Trace) -> Tensor:
        return (_covariance(self, trace).diagonal() - 1).square().sum()


def _covariance(term: OffDiagonal | Diagonal, trace: Trace) -> Tensor:
    q = trace.density(term)
    return trace.once((covariance, term.of), lambda: covariance(q, term.of))
