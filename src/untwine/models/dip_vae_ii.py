"""DIP-VAE-II: match the covariance of the aggregate posterior to the identity."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError
from untwine.models._papers import KUMAR_2018
from untwine.parts.moments import Diagonal, OffDiagonal
from untwine.parts.schedules import linear
from untwine.records import Sizes, Trace
from untwine.registry import model
from untwine.schema import Natural, NonNegative
from untwine.slots import Term
from untwine.vae import Recipe

Third = Literal["full", "marginal"]


def third_moments(q: Gaussian) -> Tensor:
    """(D, D, D) third central moments of the mixture (1/B) Σ_i N(μ_i, diag σ²_i), exact.

    T_abc = E[d_a d_b d_c] + δ_bc E[d_a σ²_b] + δ_ac E[d_b σ²_a] + δ_ab E[d_c σ²_a],  d = μ − E μ
    """
    d, n = q.mean - q.mean.mean(0), len(q.mean)
    cubes = torch.einsum("ia,ib,ic->abc", d, d, d) / n
    mixed = d.T @ q.variance / n  # (D, D): E[d_a σ²_b]
    eye = torch.eye(d.shape[1], dtype=d.dtype, device=d.device)
    return (
        cubes
        + torch.einsum("ab,bc->abc", mixed, eye)
        + torch.einsum("ba,ac->abc", mixed, eye)
        + torch.einsum("ca,ab->abc", mixed, eye)
    )


def marginal_third_moments(q: Gaussian) -> Tensor:
    """(D,) the third central moment of each latent: the diagonal T_aaa alone."""
    d = q.mean - q.mean.mean(0)
    return (d**3 + 3 * d * q.variance).mean(0)


class ThirdMoments(Term):
    """The size of the third central moments of q(z), (): squared or not, all or only T_aaa."""

    def __init__(self, sizes: Sizes, third: Third, squared: bool) -> None:
        super().__init__(sizes)
        self.third: Third = third
        self.squared = squared

    def forward(self, trace: Trace) -> Tensor:
        q = trace.density(self)
        if len(q.mean) < 2:
            raise IncompatibleError("third moments need a batch of at least 2 examples")
        t = third_moments(q) if self.third == "full" else marginal_third_moments(q)
        return t.square().sum() if self.squared else torch.linalg.vector_norm(t)


@model(
    title="DIP-VAE-II",
    paper="Kumar et al., 2018",
    url="https://arxiv.org/abs/1711.00848",
    use="Decorrelated codes, of which some latents may stay inactive.",
    avoid="Batches hardly exceed the number of latents; with third moments, some seeds collapse.",
    bibtex=KUMAR_2018,
)
def dip_vae_ii(
    *,
    lambda_od: NonNegative = 10.0,
    ratio: NonNegative = 1.0,
    lambda_3: NonNegative = 0.0,
    third: Third = "full",
    squared: bool = True,
    ramp: Natural = 0,
) -> Recipe:
    """Press the covariance S′ of the codes towards the identity (Kumar et al., 2018).

    L = −ELBO + λ_od Σ_{a≠b} S′_ab² + λ_d Σ_a (S′_aa − 1)² + λ₃ Σ_abc T_abc²
    S′ = Cov μ(x) + diag E[σ²(x)],   T the third central moments of q(z)

    Unlike DIP-VAE-I the variances of the posterior count. The paper names an ℓ₂ norm of the third
    moments without saying which: all of them and squared by default, as the covariance terms are.
    With the paper's weight of 200 only those of single latents (marginal) give results like its
    own: the sampling noise of all of them outweighs the reconstruction. From the first step on
    this weight makes some seeds collapse onto two or three latents; a ramp makes that rarer. The
    metric active-units counts the latents that are left.

    Args:
        lambda_od: weight of the off-diagonal; the paper takes 1 to 500, the 2019 study 1 to 50.
        ratio: λ_d / λ_od; 1 for shapes, 0.5 for faces.
        lambda_3: λ₃; the paper takes 200 for shapes and 0 for faces, the 2019 study 0.
        third: all third moments, or only those of single latents (marginal).
        squared: the squared norm of the third moments, or the norm itself.
        ramp: steps over which λ₃ rises from 0 to its value; 0 has all of it from the first step.
    """
    terms = {
        "off_diagonal": (lambda_od, partial(OffDiagonal, of="code")),
        "diagonal": (ratio * lambda_od, partial(Diagonal, of="code")),
    }
    if lambda_3:
        weight = linear(0.0, lambda_3, ramp) if ramp else lambda_3
        terms["third"] = (weight, partial(ThirdMoments, third=third, squared=squared))
    return Recipe(terms=terms)
