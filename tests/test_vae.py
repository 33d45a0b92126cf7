"""What a model offers beside training."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import untwine
from untwine import Batch, Sizes
from untwine.likelihoods.basic import gaussian
from untwine.parts.terms import KL
from untwine.records import Network
from untwine.tools.compute import seeded
from untwine.vae import Recipe


class Twice(nn.Module):
    """Features that give the exact posterior of x = w z + noise through the linear head."""

    def forward(self, x):
        return torch.cat([x, torch.ones_like(x)], 1)


@pytest.fixture
def linear_gaussian():
    """x = 0.8 z + N(0, 0.3), with the exact posterior as encoder; in double precision."""
    w, s2 = 0.8, 0.3

    def decoder(code, shape):
        layer = nn.Linear(1, 1, bias=False)
        nn.init.constant_(layer.weight, w)
        return layer

    network = Network(2, lambda shape: Twice(), decoder)
    likelihood = gaussian(variance=s2, squash=False)
    model = Recipe().build(Sizes(torch.Size((1,)), latent=1), network, likelihood).double()
    total = w * w + s2
    with torch.no_grad():
        model.latents.posterior.head.weight.copy_(torch.tensor([[w / total, 0], [0, 0]]))
        model.latents.posterior.head.bias.copy_(torch.tensor([0, math.log(s2 / total)]))
    return model, torch.distributions.Normal(0.0, math.sqrt(total))


def test_importance_sampling_is_exact_under_the_exact_posterior(linear_gaussian):
    model, marginal = linear_gaussian
    x = torch.tensor([[-1.0], [0.3], [2.0]]).double()
    for samples in (1, 7):
        estimate = model.log_likelihood(x, samples=samples, seed=0)
        assert torch.allclose(estimate, marginal.log_prob(x[:, 0]), atol=1e-6)


def test_elbo_is_the_log_likelihood_under_the_exact_posterior(linear_gaussian):
    model, marginal = linear_gaussian
    x = torch.full((200_000, 1), 0.7).double()
    assert model.elbo(x, seed=0).item() == pytest.approx(
        marginal.log_prob(torch.tensor(0.7)).item(), abs=0.01
    )


def test_more_samples_tighten_the_bound(tiny):
    model = untwine.build("vae", tiny, network="mlp")
    untwine.fit(model, tiny, steps=100, batch=16, lr=1e-3, quiet=True)
    x = tiny.take(list(range(0, 700_000, 50_000)))
    one, many = (model.log_likelihood(x, samples=k, seed=0).mean() for k in (1, 200))
    assert many > one
    assert model.elbo(x, seed=0) < many


def test_log_likelihood_refuses_no_samples(tiny):
    with pytest.raises(untwine.ParameterError, match="at least 1 sample"):
        untwine.build("vae", tiny).log_likelihood(tiny.take([0]), samples=0)


def test_reconstruction_is_the_decoded_representation(tiny):
    model, x = untwine.build("vae", tiny), tiny.take([5, 6])
    assert torch.equal(model.reconstruct(x), model.decode(model.encode(x)))


def test_arrays_are_decoded_in_chunks():
    data = untwine.from_arrays(np.random.default_rng(0).random((6, 4, 4)), np.arange(6) % 3)
    codes, sizes = np.random.default_rng(1).normal(size=(600, 2)).astype(np.float32), []
    plain, conditional = (
        untwine.build(name, data, latent=2, network="mlp", width=8) for name in ("vae", "cvae")
    )
    plain.decoder.register_forward_pre_hook(lambda module, args: sizes.append(len(args[0])))
    images = plain.decode(codes)
    assert max(sizes) <= 256 and isinstance(images, np.ndarray)
    assert np.allclose(images, plain.decode(torch.from_numpy(codes)), atol=1e-6)
    labels = {"factor 1": np.arange(600) % 3}
    each = conditional.given(labels).decode(codes)
    ones = conditional.given({"factor 1": 1}).decode(codes[1::3])
    assert np.allclose(each[1::3], ones, atol=1e-6)


def test_methods_leave_the_mode_and_the_random_numbers_as_they_were(tiny):
    model, x = untwine.build("vae", tiny), tiny.take([5])
    model.train()
    before = torch.get_rng_state()
    model.encode(x), model.sample(2, seed=1), model.elbo(x, seed=1)
    assert model.training and torch.equal(before, torch.get_rng_state())


def test_a_seed_fixes_the_samples(tiny):
    model = untwine.build("vae", tiny)
    assert torch.equal(model.sample(3, seed=4), model.sample(3, seed=4))
    assert not torch.equal(model.sample(3, seed=4), model.sample(3, seed=5))


def test_traversal_changes_one_latent_and_passes_through_the_image(tiny):
    model, x = untwine.build("vae", tiny, latent=3), tiny.take([1000])[0]
    z = model.posterior_mean(x[None])[0]
    rows = model.traverse(x, z[1:2], dims=[1])
    assert torch.allclose(rows[0, 0], model.reconstruct(x[None])[0], atol=1e-6)


def test_weights_depend_on_the_seed_alone(tiny):
    torch.manual_seed(1)
    first = untwine.build("vae", tiny, seed=3).state_dict()
    torch.manual_seed(2)
    second = untwine.build("vae", tiny, seed=3).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_the_probe_leaves_running_statistics_alone(tiny):
    def encoder(shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(shape.numel(), 4), nn.BatchNorm1d(4))

    network = Network(
        4, encoder, lambda code, shape: nn.Sequential(nn.Linear(code, 256), nn.Unflatten(1, shape))
    )
    model = Recipe().build(Sizes(tiny.shape), network, gaussian())
    assert model.encoder[2].num_batches_tracked == 0
    assert torch.equal(model.encoder[2].running_mean, torch.zeros(4))


def test_no_latents_are_refused(tiny):
    with pytest.raises(untwine.ParameterError, match="at least 1 latent"):
        untwine.build("vae", tiny, latent=0)


def test_sums_over_pixels_and_latents_mean_over_the_batch(tiny):
    model, x = untwine.build("vae", tiny), tiny.take([0, 1, 2])
    with seeded(0):
        trace = model.trace(Batch(x))
    terms = model.objective(trace)
    q, logits = trace.latents["z"].draw.q, trace.px.logits
    bce = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / 3
    assert torch.allclose(terms["nll"], bce)
    assert torch.allclose(terms["kl"], q.kl().mean())


def test_a_plain_model_has_no_groups_and_no_clusters(tiny):
    model, x = untwine.build("vae", tiny), tiny.take([0])
    with pytest.raises(untwine.IncompatibleError, match="no latent that a group shares"):
        model.encode_group(x)
    with pytest.raises(untwine.IncompatibleError, match="no clusters"):
        model.assign(x)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.zeros(1, 16, 16), "takes tensors of shape"),
        (torch.zeros(2, 1, 8, 8), "takes tensors of shape"),
        (torch.zeros(2, 1, 16, 16, dtype=torch.uint8), "takes floats"),
        (torch.zeros(2, 1, 8, 8).numpy(), "takes tensors of shape"),
    ],
)
def test_other_inputs_are_refused_at_the_door(tiny, x, sentence):
    with pytest.raises(untwine.DataError, match=sentence):
        untwine.build("vae", tiny).encode(x)


@pytest.mark.parametrize("name", ["loss", "step", "a.b"])
def test_names_that_the_history_uses_are_not_for_terms(name):
    with pytest.raises(untwine.IncompatibleError, match="cannot be named"):
        Recipe(terms={name: (1.0, KL)})
