"""Facts special to the Sylvester flow."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import jacrev

import untwine
from untwine.errors import IncompatibleError, ParameterError
from untwine.models.sylvester import Step, SylvesterFlow, orthonormal, triangular
from untwine.records import Batch, Sizes


def make(data, **settings):
    return untwine.build("sylvester", data, network="mlp", width=16, **settings)


def flow(latent, columns=0, flows=4, seed=0, amortise="features"):
    torch.manual_seed(seed)
    sizes = Sizes(torch.Size((1, 8, 8)), latent=latent, features=6)
    return SylvesterFlow(sizes, flows, columns, 40, amortise).double()


def random_step(b, d, m, seed=0):
    torch.manual_seed(seed)
    full, first, second = torch.randn(b, m, m), torch.randn(b, m), torch.randn(b, m)
    q = orthonormal(torch.randn(b, d, m).double(), 60)
    r1, r2 = triangular(full.double(), first.double()), triangular(full.mT.double(), second)
    return Step(q, r1, r2, torch.randn(b, m).double())


def chain(steps, z):
    total = torch.zeros(z.shape[:-1]).to(z)
    for step in steps:
        z, log_det = step(z)
        total = total + log_det
    return z, total


def test_without_r1_it_is_the_vae_with_one_sample_kl(tiny):
    model, plain = (
        make(tiny, latent=4),
        untwine.build("vae", tiny, network="mlp", width=16, latent=4),
    )
    head = model.latents.posterior.head
    for values in (head.weight, head.bias):  # every flow: Q (16), R (16), diagonal (4), b (4)
        values.data.unflatten(0, (4, 40))[:, 16:32] = 0
    traces = []
    for m in (model, plain):
        torch.manual_seed(0)
        traces.append(m.trace(Batch(tiny.take(range(8)))))
    assert torch.equal(traces[0].z, traces[1].z)
    assert torch.equal(traces[0].latents["z"].kl, traces[1].latents["z"].log_ratio())


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000))
def test_log_determinant_is_that_of_the_jacobian(d, m, seed):
    step, z = random_step(1, d, min(m, d), seed), torch.randn(1, d).double()
    jacobian = jacrev(lambda v: step(v[None])[0][0])(z[0])
    assert step(z)[1].item() == pytest.approx(torch.linalg.slogdet(jacobian)[1].item(), abs=1e-7)


def test_log_determinants_of_a_chain_add_up():
    steps, z = flow(5, 3).steps(torch.randn(1, 6).double()), torch.randn(1, 5).double()
    jacobian = jacrev(lambda v: chain(steps, v[None])[0][0])(z[0])
    expected = torch.linalg.slogdet(jacobian)
    assert chain(steps, z)[1].item() == pytest.approx(expected[1].item(), abs=1e-8)


def test_one_column_is_a_planar_flow():
    step, z = random_step(7, 4, 1), torch.randn(7, 4).double()
    u, w = (step.q * step.r1).squeeze(-1), (step.q * step.r2).squeeze(-1)
    t = ((w * z).sum(-1, keepdim=True) + step.b).tanh()
    moved, log_det = step(z)
    assert torch.allclose(moved, z + u * t)
    slope = 1 + (u * w).sum(-1) * (1 - t.square()).squeeze(-1)
    assert torch.allclose(log_det, slope.abs().log())


@pytest.mark.parametrize(("d", "m"), [(1, 1), (4, 4), (8, 8), (10, 8), (64, 8)])
def test_columns_are_orthonormal(d, m):
    torch.manual_seed(0)
    q = orthonormal(torch.randn(5000, d, m), 40)
    assert (q.mT @ q - torch.eye(m)).abs().max() < 1e-5


def test_scale_of_the_matrix_does_not_matter_and_orthonormal_ones_stay():
    a = torch.randn(3, 5, 2).double()
    q = orthonormal(a, 40)
    assert torch.allclose(orthonormal(1000 * a, 40), q)
    assert torch.allclose(orthonormal(q, 40), q)


@pytest.mark.parametrize("seed", range(3))
def test_density_in_one_dimension_integrates_to_one(seed):
    posterior, h = flow(1, seed=seed), torch.randn(1, 6).double()
    q = posterior.base(h).q
    z = (q.mean + q.std * torch.linspace(-9, 9, 20_001).double()[:, None])[:, None]  # (G, 1, 1)
    moved, log_det = chain(posterior.steps(h), z)
    density = (q.log_prob(z) - log_det).exp().squeeze()
    assert (moved.squeeze().diff() > 0).all()
    assert torch.trapezoid(density, moved.squeeze()).item() == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 10))
def test_the_flow_never_folds(seed, scale):
    step = random_step(50, 4, 4, seed)
    log_det = step(scale * torch.randn(50, 4).double())[1]
    assert log_det.isfinite().all()


def test_examples_do_not_mix():
    step, z = random_step(6, 4, 3), torch.randn(6, 4).double()
    alone = Step(step.q[2:3], step.r1[2:3], step.r2[2:3], step.b[2:3])
    assert step(z)[1].shape == (6,)
    for together, single in zip(step(z), alone(z[2:3]), strict=True):
        assert torch.allclose(together[2:3], single)


def test_the_density_of_a_sample_is_that_of_its_start_less_the_log_determinants():
    posterior, h = flow(4), torch.randn(9, 6).double()
    torch.manual_seed(1)
    start = posterior.base(h)
    torch.manual_seed(1)
    draw = posterior(h)
    z, log_det = chain(posterior.steps(h), start.z)
    assert draw.q is None and torch.allclose(draw.z, z)
    assert torch.allclose(draw.log_q, start.log_q - log_det)


@pytest.mark.parametrize("amortise", ["features", "mean"])
def test_the_representation_is_the_base_mean_carried_through_the_flow(tiny, amortise):
    model, x = make(tiny, latent=4, amortise=amortise), tiny.take(range(5))
    posterior, h = model.latents.posterior, model.encoder(x)
    base = posterior.base(h).mean
    expected = chain(posterior.steps(h if amortise == "features" else base), base)[0]
    assert torch.allclose(model.encode(x), expected)
    assert not torch.allclose(model.encode(x), base)


def test_the_flow_depends_on_the_example_through_what_was_chosen():
    assert flow(4, amortise="mean").head.in_features == 4
    posterior, h = flow(4, amortise="features"), torch.randn(2, 6).double()
    assert not torch.allclose(*posterior.steps(h)[0].q)


@pytest.mark.parametrize(("latent", "columns"), [(1, 1), (5, 5), (8, 8), (20, 8)])
def test_default_columns_are_eight_or_as_many_as_latents(latent, columns):
    assert flow(latent).steps(torch.randn(2, 6).double())[0].q.shape == (2, latent, columns)


def test_more_columns_than_latents_are_refused(tiny):
    with pytest.raises(IncompatibleError, match="5 orthonormal columns need at least 5 latents"):
        make(tiny, latent=4, columns=5)


def test_it_composes_with_a_mixture_prior_and_importance_weights(tiny):
    model = untwine.build("sylvester+mog-prior+iwae", tiny, network="mlp", width=16)
    history = untwine.fit(model, tiny, steps=3, batch=8, quiet=True)
    assert history[-1]["loss"] == pytest.approx(history[-1]["bound"])


@pytest.mark.parametrize("setting", [{"flows": 0}, {"columns": -1}, {"iterations": 0}])
def test_impossible_numbers_are_refused(tiny, setting):
    with pytest.raises(ParameterError, match=f"sylvester.{next(iter(setting))} must"):
        make(tiny, **setting)
