"""Facts special to GMVAE, in double precision."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine.distributions import Gaussian, Mixture, expected_kl, uniform_kl
from untwine.errors import IncompatibleError, ParameterError
from untwine.parts.groups import discrete_latent
from untwine.records import Batch

N = 12
MODES = ["analytic", "mc"]


def make(data, name="gm-vae", **settings):
    settings = {"units": 32, **settings}
    return untwine.build(name, data, network="mlp", width=16, latent=4, **settings).double()


def evaluate(model, data, seed=0):
    torch.manual_seed(seed)
    trace = model.trace(Batch(data.take(list(range(0, 12_000, 1000))).double()))
    return trace, model.objective(trace)


def mixture(*means):
    centres = torch.tensor(means).double()[:, None]
    return Mixture.even(Gaussian(centres, torch.zeros_like(centres)))


def test_one_standard_component_is_the_vae_plus_the_kl_of_w_bit_for_bit(tiny):
    model = make(tiny, clusters=1)
    torch.nn.init.zeros_(model.latents.last.weight)
    torch.nn.init.zeros_(model.latents.last.bias)
    plain = untwine.build("vae", tiny, network="mlp", width=16, latent=4).double()
    plain.encoder.load_state_dict(model.encoder.state_dict())
    plain.decoder.load_state_dict(model.decoder.state_dict())
    plain.latents.posterior.load_state_dict(model.latents.z.state_dict())
    (trace, terms), (_, truth) = evaluate(model, tiny), evaluate(plain, tiny)
    assert torch.equal(terms["nll"], truth["nll"])
    assert trace.latents["cluster"].kl.abs().max() == 0
    assert torch.allclose(terms["kl"], truth["kl"] + trace.latents["w"].draw.q.kl().mean())


def test_the_posterior_of_the_component_has_its_known_value():
    log_rho = mixture(0.0, 2.0).log_joint(torch.tensor([[0.5]]).double()).log_softmax(-1)
    assert log_rho.exp()[0].tolist() == pytest.approx([0.7310586, 0.2689414], abs=1e-7)
    assert uniform_kl(log_rho).item() == pytest.approx(0.1109441, abs=1e-7)


@given(st.integers(0, 10_000), st.floats(-50, 50))
def test_the_posterior_sums_to_one_and_ignores_a_common_shift(seed, shift):
    generator = torch.Generator().manual_seed(seed)
    mean, logvar = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    z = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    rho = Mixture.even(Gaussian(mean, logvar)).log_joint(z).softmax(-1)
    moved = Mixture.even(Gaussian(mean + shift, logvar)).log_joint(z + shift).softmax(-1)
    assert torch.allclose(rho.sum(-1), torch.ones(5).double())
    assert torch.allclose(rho, moved, atol=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_the_kl_of_the_component_lies_between_zero_and_log_k(seed, k):
    generator = torch.Generator().manual_seed(seed)
    scores = 20 * torch.randn(5, k, generator=generator, dtype=torch.float64)
    kl = discrete_latent(scores.log_softmax(-1)).kl
    assert (kl > -1e-12).all() and (kl < math.log(k) + 1e-12).all()


def test_both_kl_modes_agree_in_expectation_when_the_weights_ignore_z():
    q = Gaussian(torch.tensor([[0.3, -0.2]]).double(), torch.tensor([[-0.5, 0.1]]).double())
    parts = mixture(0.0, 2.0).parts
    rho = torch.tensor([[0.7, 0.3]]).double()
    torch.manual_seed(0)
    z = q.sample((200_000,))[:, 0]
    many = Gaussian(q.mean.expand_as(z), q.logvar.expand_as(z))
    estimate = expected_kl(many, parts, rho, z, "mc").mean()
    assert estimate.item() == pytest.approx(
        expected_kl(q, parts, rho, q.mean, "analytic").item(), abs=0.01
    )


def test_the_sampled_kl_sums_the_component_out_exactly(tiny):
    latents = evaluate(make(tiny, kl_mode="mc"), tiny)[0].latents
    assert torch.allclose(latents["z"].kl + latents["cluster"].kl, latents["z"].log_ratio())


@pytest.mark.parametrize("mode", MODES)
def test_the_objective_is_the_sum_of_its_parts(tiny, mode):
    trace, terms = evaluate(make(tiny, kl_mode=mode), tiny)
    total = sum(latent.kl.mean() for latent in trace.latents.values())
    assert torch.allclose(terms["loss"], terms["nll"] + total)


def test_below_the_floor_the_component_is_not_pressed(tiny):
    free, held = (evaluate(make(tiny, floor=f), tiny)[0].latents["cluster"] for f in (0.0, 2.0))
    assert free.kl.mean() < 2
    assert held.kl.tolist() == [2.0] * N
    (gradient,) = torch.autograd.grad(held.kl.sum(), held.draw.mean, allow_unused=True)
    assert gradient is None or gradient.abs().max() == 0


def test_above_the_floor_nothing_changes(tiny):
    (_, free), (_, held) = (evaluate(make(tiny, floor=f), tiny) for f in (0.0, 1e-9))
    assert torch.allclose(free["loss"], held["loss"])


@pytest.mark.parametrize("assignment", ["bayes", "network"])
def test_consistency_is_the_entropy_of_the_bayes_posterior(tiny, assignment):
    model = make(tiny, eta=0.4, assignment=assignment)
    trace, terms = evaluate(model, tiny)
    latent = trace.latents["z"]
    rho = latent.p.log_joint(latent.draw.z).softmax(-1)
    assert torch.allclose(terms["consistency"], torch.special.entr(rho).sum(-1).mean())
    rest = terms["nll"] + terms["kl"]
    assert torch.allclose(terms["loss"], rest + 0.4 * terms["consistency"])


def test_a_network_assigns_without_looking_at_the_sample(tiny):
    model = make(tiny, assignment="network")
    first, second = (evaluate(model, tiny, seed)[0].latents["cluster"].draw for seed in (0, 1))
    assert torch.equal(first.mean, second.mean)


def test_w_is_recorded_but_not_decoded(tiny):
    model = make(tiny, base=3)
    trace, _ = evaluate(model, tiny)
    assert trace.latents["w"].draw.z.shape == (N, 3)
    assert trace.z.shape == (N, 4)


def test_assign_takes_the_posterior_at_the_means(tiny):
    model = make(tiny, clusters=5)
    x = evaluate(model, tiny)[0].batch.x
    h = model.encoder(x)
    p = model.latents.prior(model.latents.w(h).mean)
    assert torch.equal(model.assign(x), p.log_joint(model.latents.z(h).mean).argmax(-1))


@pytest.mark.parametrize("mode", MODES)
def test_without_sampling_nothing_depends_on_the_noise(tiny, mode):
    model, x = make(tiny, kl_mode=mode), tiny.take([5, 50, 500]).double()
    first, second = (model.trace(Batch(x), mean=True).latents for _ in range(2))
    assert all(torch.equal(first[name].kl, second[name].kl) for name in first)
    assert torch.equal(first["cluster"].draw.mean, second["cluster"].draw.mean)


def test_gradients_stay_finite_when_a_component_is_certain():
    scores = torch.tensor([[0.0, 300.0, -5.0]], requires_grad=True)
    discrete_latent(scores.log_softmax(-1)).kl.sum().backward()
    assert scores.grad.isfinite().all()


def test_samples_spread_over_the_components(tiny):
    model = make(tiny, clusters=2)
    torch.nn.init.zeros_(model.latents.last.weight)
    with torch.no_grad():
        model.latents.last.bias.copy_(
            torch.tensor([50.0] * 4 + [0.0] * 4 + [-50.0] * 4 + [0.0] * 4)
        )
    torch.manual_seed(0)
    z = model.latents.sample(5000, model.encoder)
    assert (z[:, 0] > 0).double().mean().item() == pytest.approx(0.5, abs=0.05)
    assert z.abs().mean().item() == pytest.approx(50, abs=0.1)


def test_importance_weights_are_refused(tiny):
    with pytest.raises(IncompatibleError, match="importance weights need"):
        make(tiny, "gm-vae+iwae")


@pytest.mark.parametrize("bad", [{"clusters": 0}, {"base": 0}, {"eta": -1.0}, {"floor": -1.0}])
def test_impossible_numbers_are_refused(tiny, bad):
    with pytest.raises(ParameterError, match=f"gm-vae.{next(iter(bad))} must"):
        make(tiny, **bad)
