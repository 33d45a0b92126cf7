"""Facts special to variational sparse coding."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError, ParameterError
from untwine.models.vsc import MIN_PROBABILITY, SpikeAndSlab, gate_kl, log_gate
from untwine.records import Batch, Sizes


def fixed(mean, variance, gamma, alpha, *, form="sigmoid", latent=1):
    """Latents whose posterior is the same for every example."""
    sizes = Sizes(torch.Size((1, 8, 8)), latent=latent, features=2)
    latents = SpikeAndSlab(sizes, alpha, form, 50.0, 0.001).double()
    for head in (latents.slab.head, latents.gate):
        head.weight.data.zero_()
    bias = torch.tensor([mean, math.log(variance)]).double().repeat_interleave(latent)
    latents.slab.head.bias.data = bias
    latents.gate.bias.data.fill_(math.log(gamma / (1 - gamma)))
    return latents


def infer(latents, n=1, step=0, *, mean=False):
    h, batch = torch.zeros(n, 2).double(), Batch(torch.zeros(n), step=torch.tensor(step))
    return latents(h, batch, lambda x: x, mean=mean)


def kl(latents):
    return sum(latent.kl for latent in infer(latents).values()).item()


def test_the_prior_as_posterior_has_no_kl():
    assert kl(fixed(0.0, 1.0, 0.3, 0.3)) == pytest.approx(0, abs=1e-12)


def test_kl_has_the_known_value():
    assert kl(fixed(1.0, 0.5, 0.6, 0.1)) == pytest.approx(1.1086277492, abs=1e-7)
    assert kl(fixed(1.0, 0.5, 0.6, 0.1, latent=3)) == pytest.approx(3 * 1.1086277492, abs=1e-6)


def test_kl_agrees_with_samples():
    gamma, alpha, q = 0.6, 0.1, Gaussian(torch.ones(1).double(), torch.full((1,), -0.7).double())
    zero = torch.zeros(1).double()
    z = q.sample((200_000,))
    slab = math.log(gamma / alpha) + (q.log_prob(z) - Gaussian(zero, zero).log_prob(z)).mean()
    expected = gamma * slab + (1 - gamma) * math.log((1 - gamma) / (1 - alpha))
    assert kl(fixed(1.0, math.exp(-0.7), gamma, alpha)) == pytest.approx(expected.item(), abs=0.01)


def test_open_gates_under_a_dense_prior_are_the_vae(tiny):
    options = {"network": "mlp", "width": 16, "latent": 4}
    sparse = untwine.build("vsc", tiny, alpha=1 - 1e-12, **options).double().eval()
    plain = untwine.build("vae", tiny, **options).double()
    sparse.latents.gate.bias.data.fill_(50.0)
    sparse.decoder.load_state_dict(plain.decoder.state_dict())
    terms = []
    for model in (sparse, plain):
        torch.manual_seed(0)
        trace = model.trace(Batch(tiny.take(range(8)).double()))
        terms.append((trace.z, *(model.objective(trace)[name] for name in ("nll", "kl"))))
    for a, b in zip(*terms, strict=True):
        assert torch.allclose(a, b, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 0.99), st.booleans())
def test_gates_are_more_open_than_closed_as_often_as_they_should(gamma, training):
    latents = fixed(0.0, 1.0, gamma, 0.2).train(training)
    eta = ((torch.arange(1000) + 0.5) / 1000).double()
    s = latents.openness(torch.full_like(eta, gamma), eta, torch.tensor(0))
    assert (s > 0.5).double().mean().item() == pytest.approx(gamma, abs=1e-3)


def test_gates_sharpen_with_the_step():
    latents, on, eta = fixed(0.0, 1.0, 0.5, 0.2), torch.tensor(0.5), torch.tensor(0.52)
    for step, c in [(0, 50), (1000, 51), (100_000, 150)]:
        s = latents.openness(on, eta, torch.tensor(step))
        assert s.item() == pytest.approx(1 / (1 + math.exp(-c * 0.02)), abs=1e-6)


def test_gates_are_exact_outside_training_and_soft_in_it():
    latents = fixed(1.0, 0.1, 0.4, 0.2)
    assert set(infer(latents.eval(), 1000)["gate"].draw.z.unique().tolist()) == {0.0, 1.0}
    assert infer(latents.train(), 1000)["gate"].draw.z.unique().numel() > 900


def test_the_code_is_the_slab_behind_the_gate():
    latents = fixed(1.0, 0.1, 0.4, 0.2).eval()
    inferred = infer(latents, 2000)
    assert torch.equal(inferred["z"].draw.z == 0, inferred["gate"].draw.z == 0)
    assert (inferred["z"].draw.z != 0).double().mean().item() == pytest.approx(0.4, abs=0.04)


@pytest.mark.parametrize(("gamma", "expected"), [(0.4, 0.0), (0.6, 1.5)])
def test_the_representation_is_the_mean_or_zero_by_the_gate(gamma, expected):
    latents = fixed(1.5, 0.1, gamma, 0.2).eval()
    assert infer(latents, mean=True)["z"].draw.mean.item() == expected


def test_the_deterministic_code_never_depends_on_a_sample(tiny):
    model = untwine.build("vsc", tiny, network="mlp", width=16)
    batch = Batch(tiny.take(range(8)))
    assert torch.equal(model.trace(batch, mean=True).z, model.trace(batch, mean=True).z)
    assert (model.encode(batch.x) == 0).any()


@settings(max_examples=50, deadline=None)
@given(st.floats(-200, 200), st.sampled_from(["sigmoid", "relu"]))
def test_gate_probabilities_are_normalised_and_their_kl_is_finite(o, form):
    log_on, log_off = log_gate(torch.tensor([[o]]).double(), form)
    assert (log_on.exp() + log_off.exp()).item() == pytest.approx(1, abs=1e-12)
    assert gate_kl(log_on, log_off, 0.2).isfinite() and gate_kl(log_on, log_off, 0.2) >= -1e-12


def test_the_released_gate_is_stuck_where_it_is_open_and_the_default_is_not():
    o = torch.tensor([-1.0, 2.0], dtype=torch.float64, requires_grad=True)
    log_on, _ = log_gate(o, "relu")
    assert log_on.tolist() == pytest.approx([-1.0, math.log(1 - MIN_PROBABILITY)])
    assert torch.autograd.grad(log_on.sum(), o)[0].tolist() == pytest.approx([1.0, 0.0])
    assert (torch.autograd.grad(log_gate(o, "sigmoid")[0].sum(), o)[0] > 0).all()


def test_both_forms_train(tiny):
    for form in ("sigmoid", "relu"):
        model = untwine.build("vsc", tiny, network="mlp", width=16, form=form, alpha=0.01)
        history = untwine.fit(model, tiny, steps=100, batch=16, lr=3e-3, quiet=True)
        assert history[-1]["nll"] < history[0]["nll"]


def test_prior_samples_are_on_as_often_as_alpha_says():
    z = fixed(0.0, 1.0, 0.5, 0.2, latent=5).sample(10_000, lambda x: x)
    assert z.shape == (10_000, 5) and z.dtype == torch.float64
    assert z[z != 0].unique().numel() == (z != 0).sum()
    assert (z != 0).double().mean().item() == pytest.approx(0.2, abs=0.01)
    assert z[z != 0].std().item() == pytest.approx(1, abs=0.03)


def test_beta_weighs_both_parts_of_the_kl(tiny):
    model = untwine.build("vsc+beta-vae", tiny, network="mlp", width=16, beta=0.1)
    trace = model.trace(Batch(tiny.take(range(8))))
    terms = model.objective(trace)
    total = trace.latents["z"].kl + trace.latents["gate"].kl
    assert torch.allclose(terms["loss"], terms["nll"] + 0.1 * total.mean())


@pytest.mark.parametrize("other", ["beta-tcvae", "iwae", "mog-prior", "sylvester"])
def test_parts_that_need_a_density_or_another_posterior_are_refused(tiny, other):
    with pytest.raises(IncompatibleError, match="vsc"):
        untwine.build(f"vsc+{other}", tiny, network="mlp", width=16)


@pytest.mark.parametrize(
    "setting", [{"alpha": 0}, {"alpha": 1}, {"sharpness": 0}, {"sharpening": -1}]
)
def test_impossible_numbers_are_refused(tiny, setting):
    with pytest.raises(ParameterError, match=f"vsc.{next(iter(setting))} must"):
        untwine.build("vsc", tiny, **setting)
