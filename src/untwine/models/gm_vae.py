"""GMVAE: clusters in the latent space, shaped by a second latent."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from untwine.distributions import Gaussian, KLMode, Mixture, expected_kl
from untwine.parts.defaults import GaussianPosterior
from untwine.parts.groups import discrete_latent
from untwine.records import Batch, Latent, Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative, Width
from untwine.slots import Encoder, Latents, Term
from untwine.vae import Recipe

Assignment = Literal["bayes", "network"]


class MixtureLatents(Latents):
    """z from a cluster, whose mean and variance are functions of w; the decoder sees z only."""

    def __init__(
        self,
        sizes: Sizes,
        clusters: int,
        base: int,
        units: int,
        assignment: Assignment,
        kl_mode: KLMode,
        floor: float,
    ) -> None:
        super().__init__()
        self.z = GaussianPosterior(sizes)
        self.w = GaussianPosterior(replace(sizes, latent=base))
        self.cluster = nn.Linear(sizes.features, clusters) if assignment == "network" else None
        self.first = nn.Linear(base, units)
        self.last = nn.Linear(units, clusters * 2 * sizes.latent)
        self.clusters, self.floor = clusters, floor
        self.kl_mode: KLMode = kl_mode
        self.out_features = sizes.latent

    def prior(self, w: Tensor) -> Mixture:
        """p(z|w) of w (B, base), a mixture of components (B, K, D)."""
        out = self.last(self.first(w).tanh()).unflatten(-1, (self.clusters, -1))
        return Mixture.even(Gaussian(*out.chunk(2, -1)))

    def forward(
        self, h: Tensor, batch: Batch, encoder: Encoder, *, mean: bool
    ) -> dict[str, Latent]:
        z, w = self.z(h), self.w(h)
        at = z.mean if mean else z.z
        p = self.prior(w.mean if mean else w.z)
        scores = p.log_joint(at) if self.cluster is None else self.cluster(h)
        log_rho = scores.log_softmax(-1)  # (B, K)
        kl = expected_kl(z.q, p.parts, log_rho.exp(), at, self.kl_mode)
        return {
            "z": Latent(z, kl, p),
            "w": Latent(w, w.q.kl(), feeds_decoder=False),
            "cluster": self._with_floor(discrete_latent(log_rho)),
        }

    def _with_floor(self, cluster: Latent) -> Latent:
        """Keep the KL of the component, as a mean over the batch, at or above the floor."""
        if not self.floor:
            return cluster
        kl = cluster.kl.mean().clamp(min=self.floor).expand_as(cluster.kl)
        return replace(cluster, kl=kl)

    def sample(self, n: int, encoder: Encoder) -> Tensor:
        w = torch.randn_like(self.first.weight.new_empty(n, self.first.in_features))
        return self.prior(w).sample()


class Consistency(Term):
    """The entropy of the Bayes posterior p(component | z, w), (B,)."""

    def forward(self, trace: Trace) -> Tensor:
        z = trace.latents["z"]
        assert isinstance(z.p, Mixture), "the recipe that adds the term sets the latents too"
        log_rho = z.p.log_joint(z.draw.z).log_softmax(-1)
        return -(log_rho.exp() * log_rho).sum(-1)


@model(
    title="GMVAE",
    paper="Dilokthanakul et al., 2016",
    url="https://arxiv.org/abs/1611.02648",
    process="w ~ N(0, I), k uniform, z ~ N(m_k(w), v_k(w)), x ~ p(x|z)",
    use="Clusters that are not known beforehand.",
    avoid="One training must do: seeds find different clusters.",
    bibtex="""@article{dilokthanakul2016deep,
  title = {Deep Unsupervised Clustering with {Gaussian} Mixture Variational Autoencoders},
  author = {Dilokthanakul, Nat and Mediano, Pedro A. M. and Garnelo, Marta and
            Lee, Matthew C. H. and Salimbeni, Hugh and Arulkumaran, Kai and Shanahan, Murray},
  journal = {arXiv preprint arXiv:1611.02648},
  year = {2016}
}""",
)
def gm_vae(
    *,
    clusters: Width = 10,
    base: Width = 10,
    units: Width = 500,
    assignment: Assignment = "bayes",
    eta: NonNegative = 0.0,
    floor: NonNegative = 0.0,
    kl_mode: KLMode = "analytic",
) -> Recipe:
    """Find clusters in the code, each shaped by a second latent (Dilokthanakul et al., 2016).

    L = E_q[−log p(x|z)] + Σ_k ρ_k KL(q(z|x) ‖ N(m_k(w), v_k(w))) + KL(q(w|x) ‖ N(0, I))
        + KL(ρ ‖ 1/K) + η H(ρ_Bayes)

    ρ_k ∝ N(z; m_k(w), v_k(w)) is the Bayes posterior of the component at the samples of z and w.
    The decoder sees z (the paper's x); w is recorded under its own name, ρ as `cluster`. The KL of
    the component alone presses towards uniform ρ, which is why η and the floor exist. With the
    analytic KL ρ depends on a sample that the KL integrates out, so that the sum is not quite a
    bound. Importance weights are refused.

    Args:
        clusters: K; the paper's code takes 8 to 15.
        base: latents in w; 150 in the paper's code.
        units: hidden units between w and the components; 500 in the paper's code.
        assignment: ρ by Bayes' rule as in the paper's second version, or from a network that reads
            the encoder as in the first.
        eta: η, weight of the entropy of the Bayes posterior, of the first version; 1 there, 0.4 on
            MNIST.
        floor: λ of the second version: below this many nats the KL of the component, as a mean over
            the batch, is not pressed further.
        kl_mode: analytic as published, or mc, which takes the KL of z at the sample that gave ρ.
    """
    latents = partial(
        MixtureLatents,
        clusters=clusters,
        base=base,
        units=units,
        assignment=assignment,
        kl_mode=kl_mode,
        floor=floor,
    )
    return Recipe(latents=latents, terms={"consistency": (eta, Consistency)} if eta else {})
