"""Sylvester flow: a posterior bent by a chain of orthogonal Sylvester transformations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from untwine.errors import IncompatibleError
from untwine.parts.defaults import GaussianPosterior
from untwine.records import Draw, Sizes
from untwine.registry import model
from untwine.schema import Natural, Range
from untwine.slots import Posterior
from untwine.vae import Recipe

Source = Literal["features", "mean"]
MAX_DIAGONAL = 1 - 1e-5
DEFAULT_COLUMNS = 8  # as in the paper, if there are that many latents


def orthonormal(a: Tensor, iterations: int) -> Tensor:
    """Matrices (..., D, M) with orthonormal columns near `a`, by Q ← Q (I + ½ (I − QᵀQ)).

    The smallest singular value, over the norm of `a`, grows by half in each iteration until it is
    close to 1; from there convergence is quadratic.
    """
    q = (a / torch.linalg.matrix_norm(a, keepdim=True)).flatten(0, -3)
    for _ in range(iterations):
        q = torch.baddbmm(q, q, q.mT @ q, beta=1.5, alpha=-0.5)
    return q.view_as(a)


@dataclass(frozen=True)
class Step:
    """z ↦ z + Q R₁ tanh(R₂ Qᵀ z + b), one transformation per example.

    Q has orthonormal columns, R₁ and R₂ are upper triangular with diagonals within (−1, 1), so
    that the map is invertible and its determinant is that of a triangular matrix.
    """

    q: Tensor  # (B, D, M)
    r1: Tensor  # (B, M, M)
    r2: Tensor  # (B, M, M)
    b: Tensor  # (B, M)

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z (..., B, D) to its image and log |det ∂z'/∂z| (..., B)."""
        a = (self.r2 @ self.q.mT @ z[..., None]).squeeze(-1) + self.b  # (..., B, M)
        t = a.tanh()
        image = z + (self.q @ self.r1 @ t[..., None]).squeeze(-1)
        diagonals = self.r1.diagonal(dim1=-2, dim2=-1) * self.r2.diagonal(dim1=-2, dim2=-1)
        return image, ((1 - t.square()) * diagonals).log1p().sum(-1)


def triangular(full: Tensor, diagonal: Tensor) -> Tensor:
    """The matrix (..., M, M) above its diagonal, with tanh of `diagonal` (..., M) on it.

    It stays strictly inside (−1, 1) even where tanh rounds to ±1: at −1 the map is singular.
    """
    return full.triu(1) + (MAX_DIAGONAL * diagonal.tanh()).diag_embed()


class SylvesterFlow(Posterior):
    """K steps applied to a Gaussian draw; the parameters of each step depend on the example.

    The density is available only at the samples. Refuses more columns than latents, which cannot
    be orthonormal.
    """

    def __init__(
        self, sizes: Sizes, flows: int, columns: int, iterations: int, amortise: Source
    ) -> None:
        super().__init__()
        m = columns or min(DEFAULT_COLUMNS, sizes.latent)
        if m > sizes.latent:
            raise IncompatibleError(
                f"{m} orthonormal columns need at least {m} latents, not {sizes.latent}; "
                f"choose sylvester.columns from 1 to {sizes.latent}, or 0"
            )
        self.flows, self.iterations, self.amortise = flows, iterations, amortise
        self.shapes = [(sizes.latent, m), (m, m), (m,), (m,)]
        self.base = GaussianPosterior(sizes)
        inputs = sizes.features if amortise == "features" else sizes.latent
        self.head = nn.Linear(inputs, flows * sum(torch.Size(s).numel() for s in self.shapes))

    def forward(self, h: Tensor) -> Draw:
        start = self.base(h)
        z = torch.stack([start.z, start.mean])  # (2, B, D): the mean goes through the same flow
        log_density = start.log_q
        for step in self.steps(h if self.amortise == "features" else start.mean):
            z, log_det = step(z)
            log_density = log_density - log_det[0]
        return Draw(z[0], z[1], None, log_density)

    def steps(self, source: Tensor) -> list[Step]:
        """The transformations of every example, from features or means (B, ...)."""
        raw = self.head(source).unflatten(-1, (self.flows, -1))  # (B, K, ...)
        pieces = raw.split([torch.Size(s).numel() for s in self.shapes], -1)
        columns, full, second, b = (
            piece.unflatten(-1, shape) for piece, shape in zip(pieces, self.shapes, strict=True)
        )
        q = orthonormal(columns, self.iterations)  # (B, K, D, M)
        r1 = triangular(full, full.diagonal(dim1=-2, dim2=-1))  # (B, K, M, M)
        r2 = triangular(full.mT, second)
        return [Step(q[:, k], r1[:, k], r2[:, k], b[:, k]) for k in range(self.flows)]


@model(
    title="Sylvester flow VAE",
    paper="van den Berg et al., 2018",
    url="https://arxiv.org/abs/1803.05649",
    use="The posterior is far from Gaussian, and the bound matters.",
    avoid="Latents should mean something one by one, or another part needs the posterior's "
    "density.",
    bibtex="""@inproceedings{vandenberg2018sylvester,
  title = {Sylvester Normalizing Flows for Variational Inference},
  author = {van den Berg, Rianne and Hasenclever, Leonard and Tomczak, Jakub M. and Welling, Max},
  booktitle = {Conference on Uncertainty in Artificial Intelligence},
  year = {2018}
}""",
)
def sylvester(
    *,
    flows: Annotated[int, Range(1, 100)] = 4,
    columns: Natural = 0,
    iterations: Annotated[int, Range(1, 10_000)] = 60,
    amortise: Source = "features",
) -> Recipe:
    """Bend the posterior with orthogonal Sylvester flows (van den Berg et al., 2018).

    L = E_q(z₀|x)[−log p(x|z_K) + log q(z₀|x) − Σ_k log |det J_k| − log p(z_K)],
    z_k = z_{k−1} + Q_k R₁_k tanh(R₂_k Q_kᵀ z_{k−1} + b_k),   Q_kᵀ Q_k = I

    The KL is the one-sample estimate. R₁ and R₂ share one full matrix: above its diagonal, and
    below it transposed. The representation is the base mean μ carried through the flow, because
    the decoder knows only what comes out of it. Images are generated from the prior; the flow is
    not used. Without the paper's warm-up of the KL. Parts that need the density of the posterior
    elsewhere than at its sample refuse this one.

    Args:
        flows: K, the number of transformations; 4 in the released code.
        columns: M, the columns of Q, at most the number of latents; 0 takes 8 or the number of
            latents if that is less. 8 in the released code; 1 is a planar flow.
        iterations: of the orthogonalisation, always all of them; the released code stops at an
            error of 1e-6 or after 100, the InteL-VAE code takes 30. Square matrices need the most.
        amortise: what the flow's parameters are computed from; features as in the paper, mean (the
            base mean) as in the InteL-VAE code.
    """
    return Recipe(
        posterior=partial(
            SylvesterFlow,
            flows=flows,
            columns=columns,
            iterations=iterations,
            amortise=amortise,
        )
    )
