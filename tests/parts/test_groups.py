"""Products of experts over the members of a group."""

import torch

from untwine.distributions import Gaussian
from untwine.parts.groups import group_rows, product_of_experts


def test_product_of_identical_experts_divides_the_variance():
    q = Gaussian(torch.full((4, 2), 1.5).double(), torch.full((4, 2), 0.3).double())
    g = product_of_experts(q, torch.zeros(4, dtype=torch.long))
    assert torch.allclose(g.mean, q.mean[:1])
    assert torch.allclose(g.variance, q.variance[:1] / 4)


def test_product_of_experts_survives_extreme_precisions():
    q = Gaussian(torch.tensor([[1.0], [2.0]]), torch.tensor([[-200.0], [150.0]]))
    g = product_of_experts(q, torch.tensor([0, 0]))
    assert g.mean.item() == 1.0 and g.logvar.item() == -200.0


def test_product_of_experts_keeps_groups_apart_whatever_their_order():
    q = Gaussian(torch.randn(6, 2).double(), torch.randn(6, 2).double())
    rows = torch.tensor([0, 1, 0, 2, 1, 0])
    g = product_of_experts(q, rows)
    order = torch.tensor([5, 3, 1, 0, 4, 2])
    again = product_of_experts(Gaussian(q.mean[order], q.logvar[order]), rows[order])
    assert torch.allclose(g.mean, again.mean) and torch.allclose(g.logvar, again.logvar)
    alone = product_of_experts(q, *group_rows(None, 6, q.mean.device))
    assert torch.allclose(alone.mean, q.mean) and torch.allclose(alone.logvar, q.logvar)
