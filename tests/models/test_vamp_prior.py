"""Facts special to the VampPrior."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError, ParameterError
from untwine.models.vamp_prior import PseudoInputs, reflect
from untwine.parts.defaults import divergence
from untwine.records import Batch, Draw, Sizes


def prior(components, shape=(1, 4, 4), examples=torch.rand, start="data"):
    sizes = Sizes(torch.Size(shape), latent=1, draw_examples=lambda n: examples(n, *shape))
    return PseudoInputs(sizes, components, start, start_mean=0.05, start_std=0.01)


def encoding_to(mean, logvar):
    """A stub: whatever the inputs, their posteriors are these (C, D)."""
    return lambda u: Draw(mean, mean, Gaussian(mean, logvar))


def make(data, **settings):
    return untwine.build("vamp-prior", data, network="mlp", width=16, latent=4, **settings)


def test_one_pseudo_input_that_encodes_to_the_standard_normal_is_the_vae():
    q = Gaussian(torch.randn(5, 1).double(), torch.randn(5, 1).double())
    zero = torch.zeros(1, 1).double()
    draw = Draw(q.sample(), q.mean, q)
    expected = q.log_prob(draw.z) - Gaussian(zero, zero).log_prob(draw.z)
    assert torch.allclose(divergence(draw, prior(1)(encoding_to(zero, zero))), expected)


def test_two_pseudo_inputs_give_the_known_mixture():
    mean = torch.tensor([[1.0], [-1.0]]).double()
    p = prior(2)(encoding_to(mean, torch.zeros_like(mean)))
    assert p.log_prob(torch.zeros(1, 1).double()).item() == pytest.approx(-1.4189385, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_batch_as_pseudo_inputs_makes_its_aggregate_the_prior(tiny, seed):
    model, x = make(tiny, components=8, seed=seed).double(), tiny.take(range(8)).double()
    model.latents.prior.u.data = x
    latent = model.trace(Batch(x)).latents["z"]
    q, z = latent.draw.q, latent.draw.z
    each = Gaussian(q.mean[None], q.logvar[None]).log_prob(z[:, None])  # (B, B)
    assert torch.allclose(latent.p.log_prob(z), each.logsumexp(1) - math.log(8))
    assert (latent.kl <= math.log(8) + 1e-9).all()  # not only on average


def test_the_order_of_the_pseudo_inputs_does_not_matter(tiny):
    model, x = make(tiny, components=6).double(), tiny.take(range(4)).double()
    z = torch.randn(9, 4).double()
    before = model.trace(Batch(x)).latents["z"].p.log_prob(z)
    model.latents.prior.u.data = model.latents.prior.u.data.flip(0)
    assert torch.allclose(model.trace(Batch(x)).latents["z"].p.log_prob(z), before)


@pytest.mark.parametrize("examples", [torch.zeros, torch.ones, torch.rand])
def test_no_pixel_starts_where_the_clamp_has_no_gradient(examples):
    p = prior(20, examples=examples)
    assert p.u.min() >= 0 and p.u.max() <= 1
    p(lambda u: encoding_to(u.flatten(1), u.flatten(1))(u)).log_prob(torch.ones(16)).backward()
    assert (p.u.grad != 0).float().mean() > 0.99


def test_pseudo_images_are_clamped_and_pseudo_vectors_are_not():
    for shape, expected in [((1, 2, 2), [0.0, 1.0]), ((4,), [-3.0, 7.0])]:
        p, seen = prior(2, shape), []
        p.u.data = torch.tensor([-3.0, 7.0])[:, None].expand(2, 4).reshape(2, *shape).clone()
        p(lambda u, seen=seen: seen.append(u) or encoding_to(u.flatten(1), u.flatten(1))(u))
        assert [row.flatten()[0].item() for row in seen[0]] == expected


def test_vectors_far_from_zero_train():
    data = untwine.from_arrays(torch.randn(200, 3).numpy() * 5 + 20)
    model = untwine.build("vamp-prior", data, width=16, latent=2, components=5)
    assert model.latents.prior.u.min() > 1
    assert untwine.fit(model, data, steps=20, batch=16, quiet=True)[-1]["step"] == 20


def test_pseudo_inputs_start_at_training_examples(tiny):
    u, x = make(tiny).latents.prior.u, tiny.example_drawer(0)(50)
    assert u.shape == (50, 1, 16, 16)
    assert 0.005 < (u - x).std() < 0.01 and (u - x).abs().max() < 0.06


def test_random_pseudo_inputs_have_the_papers_mean_and_spread(tiny):
    u = make(tiny, start="random").latents.prior.u
    assert u.mean().item() == pytest.approx(0.05, abs=1e-3)
    assert u.std().item() == pytest.approx(0.01, abs=1e-3)


def test_a_start_from_data_needs_data():
    with pytest.raises(IncompatibleError, match="use start=random"):
        PseudoInputs(Sizes(torch.Size((3,))), 5, "data", 0.0, 1.0)


def test_pseudo_inputs_learn(tiny):
    model = make(tiny, components=5)
    before = model.latents.prior.u.detach().clone()
    untwine.fit(model, tiny, steps=5, batch=8, lr=1e-3, quiet=True)
    assert ((model.latents.prior.u - before).abs() > 1e-4).float().mean() > 0.9


def test_every_pseudo_input_is_sampled_alike():
    mean = torch.tensor([[-50.0], [0.0], [50.0]])
    z = prior(3)(encoding_to(mean, torch.zeros_like(mean))).sample((9000,))
    shares = [(z - m).abs().lt(10).float().mean().item() for m in mean]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.03)


def test_a_flow_is_refused_with_a_reason(tiny):
    with pytest.raises(IncompatibleError, match="needs a Gaussian posterior"):
        untwine.build("vamp-prior+sylvester", tiny, network="mlp", width=16)


def test_beta_weighs_the_one_sample_kl(tiny):
    model = untwine.build("vamp-prior+beta-vae", tiny, network="mlp", width=16, beta=7)
    terms = model.objective(model.trace(Batch(tiny.take(range(8)))))
    assert torch.allclose(terms["loss"], terms["nll"] + 7 * terms["kl"])


@pytest.mark.parametrize("setting", [{"components": 0}, {"start_std": -1}])
def test_impossible_numbers_are_refused(tiny, setting):
    with pytest.raises(ParameterError, match=f"vamp-prior.{next(iter(setting))} must"):
        make(tiny, **setting)


@settings(max_examples=50, deadline=None)
@given(st.floats(-100, 100))
def test_reflection_stays_inside_and_leaves_the_inside_alone(value):
    u = torch.tensor(value, dtype=torch.float64)
    assert 0 <= reflect(u) <= 1
    assert torch.allclose(reflect(reflect(u)), reflect(u))
    assert torch.allclose(reflect(-u), reflect(u), atol=1e-12)


def test_pseudo_inputs_do_not_count_in_running_statistics(tiny):
    x, means = tiny.take(list(range(16))), []
    plain = untwine.build("vae", tiny, network="mlp-gm", latent=2)
    vamp = untwine.build("vamp-prior", tiny, network="mlp-gm", latent=2)
    vamp.load_state_dict(plain.state_dict(), strict=False)
    for model in (plain.train(), vamp.train()):
        with torch.no_grad():
            model.trace(untwine.Batch(x))
        norms = [m for m in model.encoder.modules() if isinstance(m, torch.nn.BatchNorm1d)]
        means.append(norms[0].running_mean)
    assert torch.equal(*means)
