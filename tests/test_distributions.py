"""Closed forms of Gaussians, mixtures and their divergences."""

import math

import pytest
import torch

from untwine.distributions import Gaussian, Mixture, categorical_kl, kl_to_each, uniform_kl


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_kl_of_a_known_gaussian():
    q = Gaussian(double(1, 0), double(0, math.log(4)))
    assert q.kl().item() == pytest.approx(1.3068528194400547, abs=1e-15)
    assert Gaussian(double(0, 0), double(0, 0)).kl().item() == 0


def test_kl_to_the_standard_normal_written_out_is_the_same():
    q, p = Gaussian(double(1, -2), double(0.3, -1)), Gaussian(double(0, 0), double(0, 0))
    assert q.kl(p).item() == pytest.approx(q.kl().item(), abs=1e-14)


def test_kl_agrees_with_torch():
    q, p = Gaussian(double(1, -2), double(0.3, -1)), Gaussian(double(0.5, 3), double(1, -0.2))
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(q.mean, q.std), normal(p.mean, p.std))
    assert torch.allclose(q.kl_per_dim(p), expected)


def test_gradients_of_the_kl():
    mean, logvar = double(0.7, -1.2).requires_grad_(), double(0.4, -2).requires_grad_()
    Gaussian(mean, logvar).kl().backward()
    assert torch.allclose(mean.grad, mean)
    assert torch.allclose(logvar.grad, (logvar.exp() - 1) / 2)


def test_one_sample_estimates_average_to_the_kl():
    torch.manual_seed(0)
    q = Gaussian(double(0.5, -1), double(-1, 0.5))
    p = Gaussian(double(0, 0), double(0, 0))
    z = q.sample((400_000,))
    assert (q.log_prob(z) - p.log_prob(z)).mean().item() == pytest.approx(q.kl().item(), abs=0.01)


def test_log_prob_keeps_its_constant():
    q = Gaussian(double(0), double(0))
    assert q.log_prob(double(0)).item() == pytest.approx(-math.log(2 * math.pi) / 2)


def test_mixture_of_one_component_is_the_component():
    part = Gaussian(double(0.5, -1)[None], double(0.2, 0.1)[None])
    z = torch.randn(5, 2).double()
    mixture = Mixture.even(part)
    assert torch.allclose(mixture.log_prob(z), part.log_prob(z))


def test_mixture_is_invariant_to_the_order_of_its_components():
    mean, logvar, logits = torch.randn(2, 4, 3), torch.randn(4, 3), torch.randn(4)
    order = torch.tensor([2, 0, 3, 1])
    weight = logits.log_softmax(0)
    a = Mixture(Gaussian(mean[0], logvar), weight)
    b = Mixture(Gaussian(mean[0][order], logvar[order]), weight[order])
    z = torch.randn(6, 3)
    assert torch.allclose(a.log_prob(z), b.log_prob(z), atol=1e-6)


def test_mixture_samples_follow_the_weights_and_the_shapes():
    torch.manual_seed(0)
    parts = Gaussian(double(-5, 5)[:, None], torch.full((2, 1), -4.0).double())
    mixture = Mixture(parts, double(0.2, 0.8).log())
    z = mixture.sample((20_000,))
    assert z.shape == (20_000, 1)
    assert (z > 0).double().mean().item() == pytest.approx(0.8, abs=0.01)
    several = Mixture(Gaussian(torch.randn(7, 2, 3), torch.zeros(7, 2, 3)), torch.zeros(2) - 0.7)
    assert several.sample().shape == (7, 3) and several.sample((4,)).shape == (4, 7, 3)


def test_discrete_divergences():
    rho = double(0.7310586, 0.2689414)
    assert uniform_kl(rho.log()).item() == pytest.approx(0.1109441, abs=1e-7)
    assert categorical_kl(rho.log(), rho.log()).item() == pytest.approx(0, abs=1e-12)


def test_a_certain_component_has_a_kl_of_log_k_and_a_finite_gradient():
    logits = torch.tensor([500.0, 0, 0, 0]).requires_grad_()
    kl = uniform_kl(logits.log_softmax(-1))
    kl.backward()
    assert kl.item() == pytest.approx(math.log(4)) and logits.grad.isfinite().all()


def test_kl_to_each_component():
    q = Gaussian(double(0)[None], double(0)[None])
    parts = Gaussian(double(0, 2)[:, None], torch.zeros(2, 1).double())
    assert torch.allclose(kl_to_each(q, parts), double(0, 2)[None])
