"""tGM-VAE: a mixture of Gaussians for the clusters, and a class of outliers outside it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from untwine.distributions import Gaussian, Mixture, categorical_kl, kl_to_each
from untwine.parts.defaults import GaussianPosterior
from untwine.records import Batch, Draw, Latent, Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative, OpenShare, Width
from untwine.slots import Encoder, Latents, Term
from untwine.vae import Recipe


class TruncatedMixture(Latents):
    """z with its cluster c(x) and the probability r(x) of being an inlier, all inferred from x.

    The latent `cluster` holds r·c_1 … r·c_K, 1−r (B, K+1), and their logarithms as its log-density.
    """

    def __init__(self, sizes: Sizes, clusters: int, branch: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(sizes.features, branch), nn.ReLU())
        self.z = GaussianPosterior(replace(sizes, features=branch))
        self.cluster = nn.Linear(branch, clusters)
        self.inlier = nn.Sequential(
            nn.Linear(sizes.features, branch), nn.ReLU(), nn.Linear(branch, 2)
        )
        self.means = nn.Parameter(nn.init.xavier_uniform_(torch.empty(clusters, sizes.latent)))
        self.logits = nn.Parameter(torch.zeros(clusters))
        self.outlier_cluster = clusters
        self.out_features = sizes.latent

    def prior(self) -> Mixture:
        """Σ_k π_k N(m_k, I), the prior of z of inliers."""
        parts = Gaussian(self.means, torch.zeros_like(self.means))
        return Mixture(parts, self.logits.log_softmax(-1))

    def forward(
        self, h: Tensor, batch: Batch, encoder: Encoder, *, mean: bool
    ) -> dict[str, Latent]:
        b = self.branch(h)
        draw, p = self.z(b), self.prior()
        log_c = self.cluster(b).log_softmax(-1)  # (B, K)
        log_r = self.inlier(h).log_softmax(-1)  # (B, 2): inlier, outlier
        log_w = torch.cat([log_r[:, :1] + log_c, log_r[:, 1:]], -1)  # (B, K + 1)
        w = log_w.exp()
        kl = (w[:, :-1] * kl_to_each(draw.q, p.parts)).sum(-1)
        cluster = Draw(w, w, log_density=log_w)
        return {
            "z": Latent(draw, kl, p),
            "cluster": Latent(cluster, torch.zeros_like(kl), feeds_decoder=False),
        }

    def sample(self, n: int, encoder: Encoder) -> Tensor:
        return self.prior().sample((n,))


def log_clusters(trace: Trace) -> Tensor:
    """(B, K) log c(x)."""
    return trace.latents["cluster"].draw.log_q[:, :-1].log_softmax(-1)


def log_inlier(trace: Trace) -> Tensor:
    """(B, 2) log r(x), log (1 − r(x))."""
    log_w = trace.latents["cluster"].draw.log_q
    return torch.stack([log_w[:, :-1].logsumexp(-1), log_w[:, -1]], -1)


def log_proportions(trace: Trace) -> Tensor:
    """(K,) log π."""
    p = trace.latents["z"].p
    assert isinstance(p, Mixture), "the recipe that adds the terms sets the latents too"
    return p.log_weight


def log_mean(log_p: Tensor) -> Tensor:
    """(B, K) to the logarithm of the batch's mean (K,)."""
    return log_p.logsumexp(0) - math.log(len(log_p))


class InlierLikelihood(Term):
    """−r(x) log p(x|w), (B,): outliers come from a constant density instead."""

    def forward(self, trace: Trace) -> Tensor:
        return -log_inlier(trace)[:, 0].exp() * trace.px.log_prob(trace.target)


class Proportions(Term):
    """−Σ_k log π_k, (): a symmetric Dirichlet prior, which keeps every cluster in use."""

    def forward(self, trace: Trace) -> Tensor:
        return -log_proportions(trace).sum()


class ClusterRate(Term):
    """KL(c̄ ‖ π) of the batch's mean, (); or r KL(c ‖ π) of every example, (B,)."""

    def __init__(self, sizes: Sizes, per_sample: bool) -> None:
        super().__init__(sizes)
        self.per_sample = per_sample

    def forward(self, trace: Trace) -> Tensor:
        log_c, log_pi = log_clusters(trace), log_proportions(trace)
        if self.per_sample:
            return log_inlier(trace)[:, 0].exp() * categorical_kl(log_c, log_pi)
        return categorical_kl(log_mean(log_c), log_pi)


class OutlierRate(Term):
    """KL((r̄, 1−r̄) ‖ (1−α, α)) of the batch's mean, (); or of every example, (B,)."""

    def __init__(self, sizes: Sizes, alpha: float, per_sample: bool) -> None:
        super().__init__(sizes)
        self.log_prior = (math.log1p(-alpha), math.log(alpha))
        self.per_sample = per_sample

    def forward(self, trace: Trace) -> Tensor:
        log_r = log_inlier(trace)
        log_r = log_r if self.per_sample else log_mean(log_r)
        return categorical_kl(log_r, log_r.new_tensor(self.log_prior))


@model(
    title="tGM-VAE",
    paper="Zhao et al., 2019",
    url="https://arxiv.org/abs/1902.03717",
    process="k ~ π, z ~ N(m_k, I), x ~ p(x|z)",
    use="Clusters, with outliers set aside.",
    avoid="Batches are below 256, or one training must do.",
    bibtex="""@inproceedings{zhao2019truncated,
  title = {Variational Autoencoder with Truncated Mixture of {Gaussians} for Functional
           Connectivity Analysis},
  author = {Zhao, Qingyu and Honnorat, Nicolas and Adeli, Ehsan and Pfefferbaum, Adolf and
            Sullivan, Edith V. and Pohl, Kilian M.},
  booktitle = {Information Processing in Medical Imaging},
  year = {2019}
}""",
)
def tgm_vae(
    *,
    clusters: Width = 10,
    alpha: OpenShare = 0.01,
    lambda1: NonNegative = 1.0,
    lambda2: NonNegative = 200.0,
    dirichlet: NonNegative = 0.1,
    per_sample: bool = False,
    branch: Width = 64,
) -> Recipe:
    """Cluster the data and set outliers aside while learning the code (Zhao et al., 2019).

    L = r E_q[−log p(x|z)] + r Σ_k c_k KL(q(z|x) ‖ N(m_k, I)) − λ₀ Σ_k log π_k
        + λ₁ KL(c̄ ‖ π) + λ₂ KL((r̄, 1−r̄) ‖ (1−α, α))

    c(x) is the cluster and r(x) the probability of being no outlier, both read from the encoder;
    c̄ and r̄ are means over the batch, as in the authors' code, so that single assignments may be
    confident (batches of 256 or more serve them best). "Truncated" is the mixture, not a density.
    `assign` gives the cluster, or K for an outlier. The term `kl` is the second one, so that β-VAE
    multiplies it alone; the first is logged as `nll`. Clusters start almost together: compare
    several seeds.

    Args:
        clusters: K; the paper takes 3 on MNIST and 5 on synthetic scans.
        alpha: α, the share of outliers, above 0 and below 1; the paper takes 0.05 on MNIST and
            0.075 on synthetic scans.
        lambda1: weight of the KL between the batch's clusters and their proportions; 1 in the
            paper's code.
        lambda2: weight of the KL between the batch's share of outliers and α; large, because
            nothing else stops everything from becoming an outlier; 200 in the paper's code.
        dirichlet: λ₀, weight of the prior on the proportions π; 0.1 in the paper's code.
        per_sample: take both KLs for every example, which is the exact bound, instead of for the
            batch's mean.
        branch: hidden units of each of the two branches above the encoder's features; 64 in the
            paper's code.
    """
    return Recipe(
        latents=partial(TruncatedMixture, clusters=clusters, branch=branch),
        terms={
            "nll": (1.0, InlierLikelihood),
            "proportions": (dirichlet, Proportions),
            "clusters": (lambda1, partial(ClusterRate, per_sample=per_sample)),
            "outliers": (lambda2, partial(OutlierRate, alpha=alpha, per_sample=per_sample)),
        },
    )
