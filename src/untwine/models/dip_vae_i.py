"""DIP-VAE-I: match the covariance of the posterior means to the identity."""

from __future__ import annotations

from functools import partial

from untwine.models._papers import KUMAR_2018
from untwine.parts.moments import Diagonal, OffDiagonal
from untwine.registry import model
from untwine.schema import NonNegative
from untwine.vae import Recipe


@model(
    title="DIP-VAE-I",
    paper="Kumar et al., 2018",
    url="https://arxiv.org/abs/1711.00848",
    use="Decorrelated posterior means at little cost in reconstruction, and all latents in use.",
    avoid="Factors depend on each other in the data, or batches hardly exceed the number of "
    "latents.",
    bibtex=KUMAR_2018,
)
def dip_vae_i(*, lambda_od: NonNegative = 10.0, ratio: NonNegative = 10.0) -> Recipe:
    """Press the covariance S of the posterior means towards the identity (Kumar et al., 2018).

    L = −ELBO + λ_od Σ_{a≠b} S_ab² + λ_d Σ_a (S_aa − 1)²,   S = Cov μ(x)

    S is the population covariance of the minibatch, and each pair of latents counts twice. With B
    examples its entries are noisy by about 1/√B, so the batch should be much larger than the number
    of latents.

    Args:
        lambda_od: weight of the off-diagonal; the paper takes 1 to 500, the 2019 study 1 to 50.
        ratio: λ_d / λ_od; 10 for shapes and chairs, 50 for faces.
    """
    return Recipe(
        terms={
            "off_diagonal": (lambda_od, partial(OffDiagonal, of="mean")),
            "diagonal": (ratio * lambda_od, partial(Diagonal, of="mean")),
        }
    )
