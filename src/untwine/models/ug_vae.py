"""UG-VAE: a latent that the whole minibatch shares, above clusters of local ones."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from untwine.distributions import Gaussian, KLMode, Mixture, expected_kl
from untwine.parts.defaults import GaussianPosterior
from untwine.parts.groups import discrete_latent, product_of_experts
from untwine.records import Batch, Draw, Latent, Sizes
from untwine.registry import model
from untwine.schema import Width
from untwine.slots import Encoder, Latents
from untwine.vae import Recipe


class PriorNetworks(nn.Module):
    """K separate networks with one hidden layer, side by side: β (R, G) to N(m_k, v_k) (R, K, D).

    Variances lie between 1/e and e.
    """

    def __init__(self, clusters: int, inputs: int, units: int, outputs: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.weight_in, self.bias_in = affine(clusters, inputs, units)
        self.weight_out, self.bias_out = affine(clusters, units, 2 * outputs)

    def forward(self, beta: Tensor) -> Mixture:
        hidden = torch.einsum("rg,kgu->rku", beta, self.weight_in) + self.bias_in
        out = torch.einsum("rku,kuo->rko", hidden.relu(), self.weight_out) + self.bias_out
        mean, raw = out.chunk(2, -1)
        return Mixture.even(Gaussian(mean, raw.tanh()))


def affine(clusters: int, inputs: int, outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights (K, inputs, outputs) and biases (K, outputs), drawn as for a linear layer."""
    bound = inputs**-0.5
    weight = torch.empty(clusters, inputs, outputs).uniform_(-bound, bound)
    bias = torch.empty(clusters, outputs).uniform_(-bound, bound)
    return nn.Parameter(weight), nn.Parameter(bias)


class GlobalAndLocal(Latents):
    """z per example from one of K clusters, and β per batch, which shapes the clusters."""

    def __init__(
        self,
        sizes: Sizes,
        shared: int,
        clusters: int,
        units: int,
        factor_bias: float,
        kl_mode: KLMode,
    ) -> None:
        super().__init__()
        self.z = GaussianPosterior(sizes)
        self.cluster = nn.Sequential(
            nn.Linear(sizes.latent, units), nn.Tanh(), nn.Linear(units, clusters)
        )
        self.factor = nn.Linear(sizes.features + clusters, 2 * shared)
        with torch.no_grad():
            self.factor.bias[shared:] += factor_bias
        self.prior = PriorNetworks(clusters, shared, units, sizes.latent)
        self.kl_mode: KLMode = kl_mode
        self.out_features = sizes.latent + shared

    def forward(
        self, h: Tensor, batch: Batch, encoder: Encoder, *, mean: bool
    ) -> dict[str, Latent]:
        z = self.z(h)
        at = z.mean if mean else z.z
        log_pi = self.cluster(at).log_softmax(-1)  # (B, K)
        factors = Gaussian(*self.factor(torch.cat([h, log_pi.exp()], -1)).chunk(2, -1))
        rows = torch.zeros(h.shape[0], dtype=torch.long, device=h.device)
        q = product_of_experts(factors, rows, groups=1)  # (1, G)
        beta = Draw(q.sample(), q.mean, q)
        p = self.prior(beta.mean if mean else beta.z)  # (1, K, D)
        kl = expected_kl(z.q, p.parts, log_pi.exp(), at, self.kl_mode)
        zero = torch.zeros_like(q.mean)
        return {
            "z": Latent(z, kl, p),
            "beta": Latent(beta, q.kl(), Gaussian(zero, zero), rows=rows),
            "cluster": discrete_latent(log_pi),
        }

    @torch.no_grad()
    def own_prior(self, shared: Tensor) -> Gaussian:
        return self.prior(shared).parts

    def sample(self, n: int, encoder: Encoder) -> Tensor:
        """Every sample forms its own group."""
        beta = torch.randn_like(self.factor.weight.new_empty(n, self.prior.inputs))
        return torch.cat([self.prior(beta).sample(), beta], -1)


@model(
    title="UG-VAE",
    paper="Peis et al., 2020",
    url="https://arxiv.org/abs/2012.08234",
    process="β ~ N(0, I) for the batch, k uniform, z_i ~ N(m_k(β), v_k(β)), x_i ~ p(x|z_i, β)",
    use="Batches differ in something that nobody labelled.",
    avoid="Examples must be encoded one by one: a code depends on its batch.",
    bibtex="""@article{peis2020unsupervised,
  title = {Unsupervised Learning of Global Factors in Deep Generative Models},
  author = {Peis, Ignacio and Olmos, Pablo M. and Art{\\'e}s-Rodr{\\'i}guez, Antonio},
  journal = {arXiv preprint arXiv:2012.08234},
  year = {2020}
}""",
)
def ug_vae(
    *,
    shared: Width = 20,
    clusters: Width = 20,
    units: Width = 256,
    factor_bias: float = 0.0,
    kl_mode: KLMode = "analytic",
) -> Recipe:
    """Learn without labels what the examples of a batch have in common (Peis et al., 2020).

    L = Σ_i { E_q[−log p(x_i|z_i, β)] + Σ_k π_ik KL(q(z_i|x_i) ‖ N(m_k(β), v_k(β)))
        + KL(π_i ‖ 1/K) } + KL(q(β|X) ‖ N(0, I)),   divided by the number of examples

    π_i = π(z_i) at the sample; q(β) is the normalised product of one Gaussian per example, from its
    features and π_i, without the prior among the factors. The group is the whole batch, whatever
    groups the data has, and the KL of β counts once. The code is [z, β]; it depends on the other
    examples encoded with it, and the variance of β falls with their number: encode batches of the
    size trained on. `encode_group` gives the mean of β, `assign` the cluster. With the analytic KL
    π depends on a sample that the KL integrates out, so that the sum is not quite a bound. The
    paper's likelihood is Gaussian with variance 0.2. Importance weights are refused.

    Args:
        shared: latents in β; 20 in the paper's code, 50 for faces and 40 to align domains.
        clusters: K; the paper takes 20 on faces and 10 on digits.
        units: hidden units of π and of each of the K networks of the prior; 256 in the paper's
            code.
        factor_bias: added at the start to the log-variance of every example's Gaussian for β; the
            logarithm of the batch size (4.85 for 128) makes β start with variance of about 1.
        kl_mode: analytic as published, or mc, which takes the KL of z at the sample that gave π.
    """
    latents = partial(
        GlobalAndLocal,
        shared=shared,
        clusters=clusters,
        units=units,
        factor_bias=factor_bias,
        kl_mode=kl_mode,
    )
    return Recipe(latents=latents)
