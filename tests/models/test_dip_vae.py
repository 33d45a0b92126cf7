"""Facts special to DIP-VAE-I and DIP-VAE-II."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.distributions import Gaussian
from untwine.models.dip_vae_ii import marginal_third_moments, third_moments
from untwine.parts.moments import covariance
from untwine.records import Batch
from untwine.tools.compute import seeded

OPPOSITE = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]).double()
NONE = torch.full((2, 2), -torch.inf).double()  # log of no variance


def penalties(q, of):
    s = covariance(q, of)
    diagonal = (s.diagonal() - 1).square().sum().item()
    return s.square().sum().item() - s.diagonal().square().sum().item(), diagonal


def random_posterior(seed, n=12, d=3):
    generator = torch.Generator().manual_seed(seed)
    mean, logvar = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return Gaussian(mean, logvar)


def test_two_opposite_means():
    assert penalties(Gaussian(OPPOSITE, NONE), "mean") == (2.0, 0.0)


def test_variances_add_to_the_diagonal_of_the_second_kind():
    q = Gaussian(OPPOSITE, torch.full((2, 2), math.log(0.5)).double())
    off, on = penalties(q, "code")
    assert off == pytest.approx(2.0) and on == pytest.approx(0.5)


def test_without_variance_both_kinds_agree():
    q = Gaussian(torch.randn(9, 4).double(), torch.full((9, 4), -torch.inf).double())
    assert torch.equal(covariance(q, "code"), covariance(q, "mean"))


def test_identical_inputs_have_no_covariance_of_means():
    q = Gaussian(torch.ones(5, 3).double(), torch.randn(1, 3).double().expand(5, 3))
    assert covariance(q, "mean").abs().max() == 0
    assert torch.allclose(covariance(q, "code"), torch.diag(q.variance[0]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(-5, 5))
def test_covariance_ignores_a_shift_and_the_order_of_the_batch(seed, shift):
    q = random_posterior(seed)
    order = torch.randperm(len(q.mean), generator=torch.Generator().manual_seed(seed))
    moved = Gaussian(q.mean[order] + shift, q.logvar[order])
    assert torch.allclose(covariance(moved, "code"), covariance(q, "code"), atol=1e-9)


def test_equal_weights_are_the_distance_to_the_identity():
    s = covariance(random_posterior(0), "code")
    off, on = penalties(random_posterior(0), "code")
    assert off + on == pytest.approx((s - torch.eye(3)).square().sum().item())


def test_covariance_of_the_code_agrees_with_samples():
    torch.manual_seed(0)
    q = random_posterior(1, n=4, d=2)
    z = q.sample((200_000,)).flatten(0, 1)
    assert torch.allclose(torch.cov(z.T), covariance(q, "code"), atol=0.05)


def test_third_moments_agree_with_samples():
    torch.manual_seed(0)
    q = random_posterior(2, n=3, d=2)
    q = Gaussian(q.mean, q.logvar / 3)
    z = q.sample((400_000,)).flatten(0, 1)
    d = z - q.mean.mean(0)
    assert torch.allclose(
        torch.einsum("ia,ib,ic->abc", d, d, d) / len(d), third_moments(q), atol=0.05
    )


def test_third_moments_are_symmetric():
    t = third_moments(random_posterior(3))
    for axes in ((1, 0, 2), (0, 2, 1), (2, 1, 0)):
        assert torch.allclose(t, t.permute(axes))


def test_marginal_third_moment():
    q = random_posterior(4)
    d = q.mean - q.mean.mean(0)
    expected = d.pow(3).mean(0) + 3 * (d * q.variance).mean(0)
    assert torch.allclose(torch.einsum("aaa->a", third_moments(q)), expected)
    assert torch.allclose(marginal_third_moments(q), expected)


def test_a_symmetric_batch_has_no_third_moments():
    d = torch.randn(6, 3).double()
    q = Gaussian(torch.cat([d, -d]), torch.zeros(12, 3).double())
    assert third_moments(q).abs().max() < 1e-12


def test_a_skewed_batch_of_one_latent():
    q = Gaussian(torch.tensor([[-1.0], [-1.0], [2.0]]).double(), torch.zeros(3, 1).double())
    assert third_moments(q).item() == pytest.approx(2.0)


def term_value(data, mean, **settings):
    model = untwine.build(
        "dip-vae-ii", data, network="mlp", latent=1, lambda_3=1, **settings
    ).double()
    head = model.latents.posterior.head
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    trace = model.trace(untwine.Batch(data.take([0, 1, 2]).double()))
    draw = trace.latents["z"].draw
    draw.q.mean.data.copy_(mean)
    return model.objective.terms["third"](trace).item()


@pytest.mark.parametrize(("squared", "value"), [(True, 4.0), (False, 2.0)])
def test_the_third_moment_is_squared_or_not(tiny, squared, value):
    skewed = torch.tensor([[-1.0], [-1.0], [2.0]])
    assert term_value(tiny, skewed, squared=squared) == pytest.approx(value)


@pytest.mark.parametrize("name", ["dip-vae-i", "dip-vae-ii"])
def test_no_weight_is_the_vae(tiny, name):
    options = {"steps": 10, "batch": 8, "quiet": True}
    dip = untwine.fit(untwine.build(name, tiny, network="mlp", lambda_od=0), tiny, **options)
    plain = untwine.fit(untwine.build("vae", tiny, network="mlp"), tiny, **options)
    assert [row["loss"] for row in dip] == [row["loss"] for row in plain]


def test_only_the_second_kind_moves_the_variances(tiny):
    grads = {}
    for name in ("dip-vae-i", "dip-vae-ii"):
        model = untwine.build(name, tiny, network="mlp")
        trace = model.trace(untwine.Batch(tiny.take(list(range(8)))))
        model.objective.terms["diagonal"](trace).backward()
        grads[name] = model.latents.posterior.head.weight.grad[10:].abs().max().item()
    assert grads["dip-vae-i"] == 0 and grads["dip-vae-ii"] > 0


def test_a_single_example_has_no_covariance():
    with pytest.raises(untwine.IncompatibleError, match="batch of at least 2"):
        covariance(Gaussian(torch.zeros(1, 2), torch.zeros(1, 2)), "mean")


@pytest.mark.parametrize("name", ["dip-vae-i", "dip-vae-ii"])
def test_negative_weights_are_refused(tiny, name):
    with pytest.raises(untwine.ParameterError, match="at least 0"):
        untwine.build(name, tiny, lambda_od=-1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_off_diagonal_energy_falls_with_the_weight(seed):
    data = untwine.dataset("sprites", size=32)
    energy = []
    for weight in (0.01, 50):
        model = untwine.build("dip-vae-i", data, lambda_od=weight, seed=seed)
        history = untwine.fit(model, data, steps=600, lr=1e-3, seed=seed, quiet=True)
        energy.append(history[-1]["off_diagonal"])
    assert energy[1] < energy[0]


def objective(name, data, **settings):
    model = untwine.build(name, data, network="mlp", latent=3, **settings).double()
    torch.manual_seed(0)
    trace = model.trace(untwine.Batch(data.take(list(range(0, 900, 100))).double()))
    return trace.density("test"), model.objective(trace)


@pytest.mark.parametrize(("name", "of"), [("dip-vae-i", "mean"), ("dip-vae-ii", "code")])
def test_the_whole_loss_written_out(tiny, name, of):
    q, terms = objective(name, tiny, lambda_od=3, ratio=0.5)
    d = q.mean - q.mean.mean(0)
    s = d.T @ d / len(d) + (torch.diag(q.variance.mean(0)) if of == "code" else 0)
    off = sum(s[a, b] ** 2 for a in range(3) for b in range(3) if a != b)
    on = sum((s[a, a] - 1) ** 2 for a in range(3))
    assert torch.allclose(terms["loss"], terms["nll"] + terms["kl"] + 3 * off + 1.5 * on)


@pytest.mark.parametrize("third", ["full", "marginal"])
def test_the_third_moments_join_the_loss_with_their_weight(tiny, third):
    settings = {"lambda_od": 0, "lambda_3": 7, "third": third}
    q, terms = objective("dip-vae-ii", tiny, **settings)
    t = third_moments(q)
    size = t.square().sum() if third == "full" else torch.einsum("aaa->a", t).square().sum()
    assert torch.allclose(terms["loss"], terms["nll"] + terms["kl"] + 7 * size)


def test_relabelling_latents_changes_nothing():
    q = random_posterior(5)
    order = [2, 0, 1]
    other = Gaussian(q.mean[:, order], q.logvar[:, order])
    assert penalties(other, "code") == pytest.approx(penalties(q, "code"))


def test_third_moments_may_be_ramped(tiny):
    model = untwine.build("dip-vae-ii", tiny, network="mlp(width=8)", lambda_3=200.0, ramp=4000)
    model = model.double()
    weight = model.objective.weights["third"]
    at = [weight(torch.tensor(step)).item() for step in (0, 1000, 4000, 9000)]
    assert at == [0.0, 50.0, 200.0, 200.0]
    x = tiny.take(list(range(0, 700_000, 70_000))).double()
    batch = [Batch(x, step=torch.tensor(step)) for step in (0, 2000)]
    first, later = (model.objective(trace_once(model, each)) for each in batch)
    assert (later["loss"] - first["loss"]).item() == pytest.approx(
        100 * later["third"].item(), rel=1e-4
    )


def trace_once(model, batch):
    with seeded(0):
        return model.trace(batch)


def test_without_a_ramp_the_weight_is_there_from_the_start(tiny):
    settings = {"network": "mlp(width=8)", "lambda_3": 200.0}
    model = untwine.build("dip-vae-ii", tiny, **settings)
    assert model.objective.weights["third"] == 200.0
    plain = untwine.plan("dip-vae-ii", "sprites(size=16)", **settings)
    assert untwine.plan("dip-vae-ii", "sprites(size=16)", ramp=0, **settings).hash == plain.hash
    assert untwine.plan("dip-vae-ii", "sprites(size=16)", ramp=9, **settings).hash != plain.hash


def test_collapsed_latents_are_counted_by_active_units(tiny):
    """A collapsed latent keeps its prior: no mean that varies, unit variance."""
    model = untwine.build("dip-vae-ii", tiny, network="mlp(width=8)", latent=5)
    head = model.latents.posterior.head
    with torch.no_grad():
        head.weight.mul_(50)
        head.weight[3:5] = 0
        head.bias[3:5] = 0
    scores = untwine.evaluate(model, tiny, "active-units", n_examples=300)
    assert float(scores["active-units"]) == 3
