"""Latents that a group of examples shares."""

from __future__ import annotations

import torch
from torch import Tensor

from untwine.distributions import Gaussian, uniform_kl
from untwine.records import Draw, Latent


def group_rows(group: Tensor | None, n: int, device: torch.device) -> tuple[Tensor, int]:
    """(B,) row of each example's group, and the number of rows; without groups a row per example.

    Rows are in the order of the group ids.
    """
    if group is None:
        return torch.arange(n, device=device), n
    ids, rows = group.unique(return_inverse=True)
    return rows, len(ids)


def product_of_experts(q: Gaussian, rows: Tensor, groups: int | None = None) -> Gaussian:
    """The Gaussians (B, D) of each group multiplied and normalised, (R, D).

    1/v_g = Σ_i 1/v_i,  m_g = v_g Σ_i m_i/v_i. The prior is not one of the factors. Precisions are
    summed in logarithms, so that neither very certain nor very uncertain members overflow. Pass
    the number of groups if you have it: counting them would synchronise with the device.

    >>> q = Gaussian(torch.tensor([[1.0], [3.0]]), torch.tensor([[1.0], [0.5]]).log())
    >>> g = product_of_experts(q, torch.tensor([0, 0]))
    >>> round(g.mean.item(), 5), round(g.variance.item(), 5)
    (2.33333, 0.33333)
    """
    n = int(rows.max()) + 1 if groups is None else groups
    log_precision = -q.logvar
    index = rows[:, None].expand_as(log_precision)
    empty = log_precision.new_full((n, log_precision.shape[1]), -torch.inf)
    top = empty.scatter_reduce(0, index, log_precision.detach(), "amax")
    weight = (log_precision - top[rows]).exp()  # at most 1 in every group
    total = torch.zeros_like(top).scatter_add(0, index, weight)
    mean = torch.zeros_like(top).scatter_add(0, index, weight * q.mean) / total
    return Gaussian(mean, -(top + total.log()))


def discrete_latent(log_weight: Tensor) -> Latent:
    """A discrete latent that is summed out: weights (B, K), and the KL to the uniform prior."""
    weight = log_weight.exp()
    return Latent(
        Draw(weight, weight, log_density=log_weight), uniform_kl(log_weight), feeds_decoder=False
    )
