"""DD sparse: a sparse prior, and a penalty that makes the aggregate posterior match it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError
from untwine.records import Density, Draw, Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative, Positive, Share
from untwine.slots import Prior, Term
from untwine.vae import Recipe

KERNEL_SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class ScaleMixture:
    """Independent dimensions, each a mixture of the same centred Gaussians; a `Density`."""

    log_weight: Tensor  # (K,), normalised
    logvar: Tensor  # (K, D)

    def log_prob(self, z: Tensor) -> Tensor:
        """Σ_d log Σ_k w_k N(z_d; 0, v_kd), (...) for z (..., D)."""
        parts = Gaussian(torch.zeros_like(self.logvar), self.logvar)
        each = self.log_weight[:, None] + parts.log_prob_per_dim(z[..., None, :])  # (..., K, D)
        return each.logsumexp(-2).sum(-1)

    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        """(*shape, D)"""
        d = self.logvar.shape[1]
        pick = torch.multinomial(self.log_weight.exp(), math.prod(shape) * d, replacement=True)
        logvar = self.logvar.gather(0, pick.view(-1, d)).view(*shape, d)
        return Gaussian(torch.zeros_like(logvar), logvar).sample()


class SparsePrior(Prior):
    """p(z_d) = γ N(0, s₀²) + (1−γ) N(0, 1), without parameters."""

    log_weight: Tensor  # (2,)
    logvar: Tensor  # (2, D)

    def __init__(self, sizes: Sizes, spike_weight: float, spike_std: float) -> None:
        super().__init__()
        weight = torch.tensor([spike_weight, 1 - spike_weight], dtype=torch.float64)
        logvar = torch.tensor([2 * math.log(spike_std), 0.0])
        self.register_buffer("log_weight", weight.log().float(), persistent=False)
        self.register_buffer("logvar", logvar[:, None].repeat(1, sizes.latent), persistent=False)

    def forward(self, encode: Callable[[Tensor], Draw]) -> Density:
        return ScaleMixture(self.log_weight, self.logvar)


def kernel(x: Tensor, y: Tensor) -> Tensor:
    """Σ_s Σ_d 2s / (2s + (x_id − y_jd)²) over six scales s, (A, B) for x (A, D) and y (B, D)."""
    gap = (x[:, None] - y[None]).square()  # (A, B, D)
    return torch.stack([(2 * s / (2 * s + gap)).sum(-1) for s in KERNEL_SCALES]).sum(0)


def mmd(x: Tensor, y: Tensor) -> Tensor:
    """The released estimate of MMD² between two samples (B, D) of the same size, ().

    1/(B(B−1)) Σ_{i≠j} [k(x_i, x_j) + k(y_i, y_j)] − 2/B² Σ_ij k(x_i, y_j), per dimension and
    summed. The last sum counts i = j and the first does not, so the estimate can be negative.

    >>> x, y = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([[0.0], [2.0]]).double()
    >>> round(mmd(x, y).item(), 7)
    -2.0569264
    """
    b = len(x)
    if b < 2:
        raise IncompatibleError("the MMD needs a batch of at least 2 examples")
    within = kernel(x, x) + kernel(y, y)
    return (within.sum() - within.trace()) / (b * (b - 1)) - 2 * kernel(x, y).mean()


class AggregateMatch(Term):
    """MMD² between the codes of the batch and as many draws from the prior, ().

    Refuses a batch of one example and a prior without a density.
    """

    def forward(self, trace: Trace) -> Tensor:
        p = next(iter(trace.latents.values())).p
        if p is None:
            raise IncompatibleError("the MMD needs a prior with a density")
        z = trace.z[:: trace.draws]  # draws of one example are not independent codes
        return mmd(p.sample((len(z),)).detach(), z)


@model(
    title="DD sparse VAE",
    paper="Mathieu et al., 2019",
    url="https://arxiv.org/abs/1812.02833",
    process="z_d ~ γ N(0, s₀²) + (1−γ) N(0, 1) for each latent, x ~ p(x|z)",
    use="Sparse codes in the aggregate, with a prior whose sparsity is known.",
    avoid="Exact zeros are wanted (vsc), or batches are small.",
    bibtex="""@inproceedings{mathieu2019disentangling,
  title = {Disentangling Disentanglement in Variational Autoencoders},
  author = {Mathieu, Emile and Rainforth, Tom and Siddharth, N. and Teh, Yee Whye},
  booktitle = {International Conference on Machine Learning},
  year = {2019}
}""",
)
def dd_sparse(
    *, alpha: NonNegative = 100.0, spike_weight: Share = 0.8, spike_std: Positive = 0.05
) -> Recipe:
    """Ask for sparse codes with a spiked prior that all codes together must match (Mathieu et al., 2019).

    L = E_q(z|x)[−log p(x|z) + log q(z|x) − log p(z)] + α MMD²(q(z), p(z)),
    p(z_d) = γ N(0, s₀²) + (1−γ) N(0, 1)

    The MMD compares each latent's aggregate with its prior, with the released kernels
    2s/(2s + (a−b)²) for six scales s; it does not see dependence between latents, depends on the
    batch size, and refuses a batch of one. The KL is the one-sample estimate; its weight β is
    +beta-vae here. The paper trains with batches of 500 and a Laplace likelihood of scale 0.1.

    Args:
        alpha: weight of the MMD; the released scripts take 0 and 100. At 0 it is not computed.
        spike_weight: γ, how often a latent is near zero; 0 is the standard normal.
        spike_std: s₀, the standard deviation of the spike as in the released code (the paper
            writes it like a variance).
    """  # noqa: E501
    return Recipe(
        prior=partial(SparsePrior, spike_weight=spike_weight, spike_std=spike_std),
        terms={"mmd": (alpha, AggregateMatch)} if alpha else {},
    )
