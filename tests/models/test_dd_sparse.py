"""Facts special to DD sparse."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError, ParameterError
from untwine.models.dd_sparse import KERNEL_SCALES, AggregateMatch, ScaleMixture, SparsePrior, mmd
from untwine.records import Batch, Sizes


def density(weight=0.8, std=0.05, latent=1):
    logvar = torch.tensor([2 * math.log(std), 0.0]).double()[:, None].repeat(1, latent)
    return ScaleMixture(torch.tensor([weight, 1 - weight], dtype=torch.float64).log(), logvar)


def make(data, name="dd-sparse", **settings):
    return untwine.build(name, data, network="mlp", width=16, **settings)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


def samples(n, d, seed):
    return torch.randn(2, n, d, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize(("at", "expected"), [(0.0, 1.8660727), (1.0, -3.0283764)])
def test_density_has_the_known_values(at, expected):
    assert density().log_prob(column(at)).item() == pytest.approx(expected, abs=1e-7)
    five = torch.full((5,), at, dtype=torch.float64)
    assert density(latent=5).log_prob(five).item() == pytest.approx(5 * expected, abs=1e-6)


def test_the_prior_of_the_recipe_is_this_density():
    sizes = Sizes(torch.Size((1, 8, 8)), latent=3)
    p, z = SparsePrior(sizes, 0.8, 0.05).double()(lambda x: x), torch.randn(4, 3).double()
    assert torch.allclose(p.log_prob(z), density(latent=3).log_prob(z), atol=1e-5)


def test_the_density_integrates_to_one():
    grid = torch.linspace(-10, 10, 100_001).double()
    mass = torch.trapezoid(density().log_prob(grid[:, None]).exp(), grid)
    assert mass.item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("numbers", [{"weight": 0.0}, {"weight": 0.8, "std": 1.0}])
def test_without_a_spike_the_prior_is_the_standard_normal(numbers):
    z = 3 * torch.randn(50, 4).double()
    zero = torch.zeros(4).double()
    log_prob = density(**numbers, latent=4).log_prob(z)
    assert torch.allclose(log_prob, Gaussian(zero, zero).log_prob(z), atol=1e-12)


@pytest.mark.parametrize("numbers", [{"spike_weight": 0}, {"spike_std": 1}])
def test_without_spike_and_mmd_it_is_the_beta_vae_with_one_sample_kl(tiny, numbers):
    sparse = make(tiny, "dd-sparse+beta-vae", alpha=0, beta=3, **numbers).double()
    plain, batch = make(tiny, "vae").double(), Batch(tiny.take(range(8)).double())
    torch.manual_seed(0)
    loss = sparse.objective(sparse.trace(batch))["loss"]
    torch.manual_seed(0)
    trace = plain.trace(batch)
    ratio = trace.latents["z"].log_ratio().mean()
    assert torch.allclose(loss, plain.objective(trace)["nll"] + 3 * ratio, atol=1e-9)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_missing_component_leaves_the_gradient_finite(weight):
    z = torch.randn(5, 2).double().requires_grad_()
    density(weight, latent=2).log_prob(z).sum().backward()
    expected = -z.detach() / (1.0 if weight == 0 else 0.05**2)
    assert torch.allclose(z.grad, expected)


def test_samples_are_small_as_often_as_the_spike_weighs():
    z = density(latent=3).sample((20_000,))
    assert z.shape == (20_000, 3)
    assert z.var().item() == pytest.approx(0.8 * 0.05**2 + 0.2, abs=0.01)
    near = 0.8 * math.erf(2 / math.sqrt(2)) + 0.2 * math.erf(0.1 / math.sqrt(2))
    assert (z.abs() < 0.1).double().mean().item() == pytest.approx(near, abs=0.01)


def test_mmd_has_the_known_value():
    assert mmd(column(0, 1), column(0, 2)).item() == pytest.approx(-2.0569264, abs=1e-7)


def test_mmd_is_the_sum_over_pairs_written_out():
    x, y = samples(4, 2, 0)
    total = 0.0
    for c, d in [(2 * s, d) for s in KERNEL_SCALES for d in range(2)]:
        for i in range(4):
            for j in range(4):
                pairs = [(x, x), (y, y)] if i != j else []
                total += sum(c / (c + (a[i, d] - b[j, d]) ** 2) for a, b in pairs) / 12
                total -= 2 * c / (c + (x[i, d] - y[j, d]) ** 2) / 16
    assert mmd(x, y).item() == pytest.approx(total.item(), abs=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 10_000))
def test_mmd_is_symmetric_and_blind_to_the_order(n, d, seed):
    x, y = samples(n, d, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(mmd(x, y), mmd(y, x), atol=1e-10)
    assert torch.allclose(mmd(x, y), mmd(x[order], y), atol=1e-10)


def test_mmd_is_zero_on_average_for_one_distribution_and_positive_for_two():
    same = torch.stack([mmd(*samples(16, 2, seed)) for seed in range(400)])
    assert abs(same.mean().item()) < 4 * same.std().item() / 20
    x, y = samples(500, 2, 0)
    assert mmd(x, 0.1 * y) > 0.5


def test_the_gradient_of_the_mmd_goes_only_through_the_codes(tiny):
    model = make(tiny)
    trace = model.trace(Batch(tiny.take(range(8))))
    zero = torch.zeros(10, requires_grad=True)
    latent = replace(trace.latents["z"], p=Gaussian(zero, zero))
    value = AggregateMatch(model.sizes)(replace(trace, latents={"z": latent}))
    by_code, by_prior = torch.autograd.grad(value, [trace.z, zero], allow_unused=True)
    assert by_code.abs().sum() > 0 and by_prior is None


def test_the_mmd_is_weighed_once_per_batch(tiny):
    model = make(tiny, alpha=1000)
    terms = model.objective(model.trace(Batch(tiny.take(range(8)))))
    assert torch.allclose(terms["loss"], terms["nll"] + terms["kl"] + 1000 * terms["mmd"])


def test_one_example_is_refused_only_where_the_mmd_is_needed(tiny):
    batch = Batch(tiny.take([0]))
    with pytest.raises(IncompatibleError, match="batch of at least 2"):
        (both := make(tiny)).objective(both.trace(batch))
    model = make(tiny, alpha=0)
    assert model.objective(model.trace(batch))["loss"].isfinite()


@pytest.mark.parametrize(
    "setting", [{"alpha": -1}, {"spike_weight": 1.1}, {"spike_weight": -0.1}, {"spike_std": 0}]
)
def test_impossible_numbers_are_refused(tiny, setting):
    with pytest.raises(ParameterError, match=f"dd-sparse.{next(iter(setting))} must"):
        make(tiny, **setting)
