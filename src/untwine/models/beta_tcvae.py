"""β-TCVAE: penalise the total correlation of the aggregate posterior."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError
from untwine.records import Sizes, Trace
from untwine.registry import model
from untwine.schema import NonNegative
from untwine.slots import Term
from untwine.vae import Recipe

Weighting = Literal["mws", "mss"]
Part = Literal["mi", "tc", "dw"]


def log_weights(batch: int, n_train: int, weighting: Weighting) -> Tensor:
    """(B, B) log ω_ij, log-weights of posterior j in the estimate of q(z_i).

    `mws` (minibatch-weighted): 1/(B·N) everywhere. `mss` (stratified, symmetric): 1/N for the
    sample's own posterior and (N−1)/(N(B−1)) for every other, so that each row sums to 1 and the
    estimate is unbiased.
    """
    if weighting == "mws":
        return torch.full((batch, batch), -math.log(batch * n_train), dtype=torch.float64)
    if batch < 2:
        raise IncompatibleError("stratified weights need a batch of at least 2 examples")
    other = (n_train - 1) / (n_train * (batch - 1))
    weights = torch.full((batch, batch), other, dtype=torch.float64)
    return weights.fill_diagonal_(1 / n_train).log()


def aggregate(z: Tensor, q: Gaussian, log_weight: Tensor) -> tuple[Tensor, Tensor]:
    """log q̂(z_i) (B,) and log q̂(z_id) (B, D) of samples z (B, D) under the batch's posteriors q."""
    each = Gaussian(q.mean[None], q.logvar[None]).log_prob_per_dim(z[:, None])  # (B, B, D)
    joint = (log_weight + each.sum(-1)).logsumexp(1)
    return joint, (log_weight[..., None] + each).logsumexp(1)


class KLPart(Term):
    """One part of KL = MI + TC + DW, estimated from the minibatch, (B,); Chen et al., eq. 2.

    `mi` index-code mutual information, `tc` total correlation, `dw` dimension-wise KL. Refuses a
    posterior without a factorised density.
    """

    def __init__(self, sizes: Sizes, part: Part, weighting: Weighting) -> None:
        super().__init__(sizes)
        self.part: Part = part
        self.weighting: Weighting = weighting
        self.n_train = sizes.n_train
        if weighting == "mws":
            multiple = {"mi": 1, "tc": sizes.latent - 1, "dw": -sizes.latent}[part]
            self.constant = multiple * math.log(sizes.n_train)

    def forward(self, trace: Trace) -> Tensor:
        q, z = trace.density(self), trace.z[:: trace.draws]  # one draw per example
        q = Gaussian(q.mean[:: trace.draws], q.logvar[:: trace.draws])

        def estimate() -> tuple[Tensor, Tensor]:
            return aggregate(z, q, log_weights(len(z), self.n_train, self.weighting).to(z))

        joint, marginals = trace.once((aggregate, self.n_train, self.weighting), estimate)
        if self.part == "tc":
            return joint - marginals.sum(-1)
        if self.part == "mi":
            return q.log_prob(z) - joint
        p = next(iter(trace.latents.values())).p
        if p is None:
            raise IncompatibleError("the dimension-wise KL needs a prior with a density")
        return marginals.sum(-1) - p.log_prob(z)


@model(
    title="β-TCVAE",
    paper="Chen et al., 2018",
    url="https://arxiv.org/abs/1802.04942",
    use="One latent per factor, with less loss of detail than β-VAE.",
    avoid="Batches are small: its estimate of the total correlation depends on their size. "
    "Above 256 examples it takes most of a step.",
    bibtex="""@inproceedings{chen2018isolating,
  title = {Isolating Sources of Disentanglement in Variational Autoencoders},
  author = {Chen, Ricky T. Q. and Li, Xuechen and Grosse, Roger B. and Duvenaud, David K.},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}""",
)
def beta_tcvae(
    *,
    beta: NonNegative = 6.0,
    alpha: NonNegative = 1.0,
    gamma: NonNegative = 1.0,
    weighting: Weighting = "mws",
) -> Recipe:
    """Penalise the total correlation of the aggregate posterior (Chen et al., 2018).

    L = E_q(z|x)[−log p(x|z)] + α MI + β TC + γ DW,   MI + TC + DW = KL(q(z|x) ‖ p(z))

    Computed as the exact KL plus (α−1) MI + (β−1) TC + (γ−1) DW, which has the same expectation
    and less noise. Minibatch weights shift TC by the constant (D−1) log N, which has no
    gradient. History files contain it; the progress line and reports leave it out.
    Estimates depend on the batch size.

    Args:
        beta: weight of the total correlation; 1 is the VAE, the paper takes 6, the 2019 study 1
            to 10.
        alpha: weight of the mutual information between example and code.
        gamma: weight of the KL of each latent's aggregate to the prior.
        weighting: how the minibatch stands for the data; mws as in the paper's experiments, mss
            unbiased (its weights on the diagonal, unlike the authors' code).
    """
    weights: dict[Part, float] = {"mi": alpha - 1, "tc": beta - 1, "dw": gamma - 1}
    return Recipe(
        terms={
            name: (weight, partial(KLPart, part=name, weighting=weighting))
            for name, weight in weights.items()
            if weight or name == "tc"
        }
    )
