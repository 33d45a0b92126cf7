"""Facts special to UG-VAE, in double precision."""

import math

import numpy as np
import pytest
import torch

import untwine
from untwine.distributions import Gaussian, expected_kl
from untwine.errors import IncompatibleError, ParameterError
from untwine.models.ug_vae import PriorNetworks
from untwine.parts.groups import discrete_latent
from untwine.records import Batch

N = 8


def make(data, name="ug-vae", **settings):
    settings = {"shared": 3, "clusters": 5, "units": 16, **settings}
    return untwine.build(name, data, network="mlp", width=16, latent=4, **settings).double()


def images(data, n=N):
    return data.take(list(range(0, 1000 * n, 1000))).double()


def terms(model, x, *, group=None, mean=False, seed=0):
    torch.manual_seed(seed)
    return model.objective(model.trace(Batch(x, group), mean=mean))


@torch.no_grad()
def standard(model):
    """Make every component N(0, I), whatever β is."""
    model.latents.prior.weight_out.zero_()
    model.latents.prior.bias_out.zero_()
    return model


@torch.no_grad()
def constant(layer, values):
    layer.weight.zero_()
    layer.bias.copy_(torch.as_tensor(values))


@torch.no_grad()
def share_weights(model, other, places):
    """Give another model the networks of a UG-VAE with one cluster, whose weight is always 1.

    `places` are the layers and rows for the mean and log-variance of z, then of β.
    """
    other.encoder.load_state_dict(model.encoder.state_dict())
    other.decoder.load_state_dict(model.decoder.state_dict())
    z, factor = model.latents.z.head, model.latents.factor
    weights = [*z.weight.chunk(2), *factor.weight[:, :-1].chunk(2)]
    biases = [*z.bias.chunk(2), *(factor.bias + factor.weight[:, -1]).chunk(2)]
    for (layer, rows), weight, bias in zip(places, weights, biases, strict=True):
        layer.weight[rows], layer.bias[rows] = weight, bias


def test_one_standard_component_is_the_ml_vae_with_one_group(tiny):
    model, x = standard(make(tiny, clusters=1)), images(tiny)
    other = untwine.build(
        "ml-vae", tiny, network="mlp", width=16, latent=4, style=4, content=3
    ).double()
    style, content = other.latents.style.head, other.latents.content
    halves = [(style, slice(0, 4)), (style, slice(4, 8))]
    share_weights(model, other, [*halves, (content, slice(0, 3)), (content, slice(3, 6))])
    values = terms(model, x)
    truth = terms(other, x, group=torch.zeros(N, dtype=torch.long))
    assert model.trace(Batch(x)).latents["cluster"].kl.abs().max() == 0
    for name in ("nll", "kl", "loss"):
        assert torch.allclose(values[name], truth[name])


def test_one_example_and_one_standard_component_are_the_vae_on_both_latents(tiny):
    model, x = standard(make(tiny, clusters=1)), images(tiny, 1)
    plain = untwine.build("vae", tiny, network="mlp", width=16, latent=7).double()
    head = plain.latents.posterior.head
    rows = [slice(0, 4), slice(7, 11), slice(4, 7), slice(11, 14)]
    share_weights(model, plain, [(head, place) for place in rows])
    values, truth = terms(model, x, mean=True), terms(plain, x, mean=True)
    for name in ("nll", "kl", "loss"):
        assert torch.allclose(values[name], truth[name])


@pytest.mark.parametrize(("scores", "kl"), [([0.0] * 5, 0.0), ([900.0] + [0.0] * 4, math.log(5))])
def test_even_weights_cost_nothing_and_certain_ones_log_k(tiny, scores, kl):
    model = make(tiny)
    constant(model.latents.cluster[-1], scores)
    kls = model.trace(Batch(images(tiny))).latents["cluster"].kl
    assert kls.tolist() == pytest.approx([kl] * N, abs=1e-12)


def test_the_divergence_to_two_components_has_its_known_value():
    zero, log_pi = torch.zeros(1, 1).double(), torch.tensor([[0.7310586, 0.2689414]]).double().log()
    parts = Gaussian(torch.tensor([[0.0], [2.0]]).double(), torch.zeros(2, 1).double())
    value = expected_kl(Gaussian(zero, zero), parts, log_pi.exp(), zero, "analytic")
    assert value.item() == pytest.approx(0.5378828, abs=1e-7)
    assert discrete_latent(log_pi).kl.item() == pytest.approx(0.1109441, abs=1e-7)


@pytest.mark.parametrize(
    ("factors", "mean", "variance"),
    [([[1.0, 1.0], [3.0, 0.5]], 7 / 3, 1 / 3), ([[0.7, 2.0]] * 5, 0.7, 0.4)],
)
def test_the_shared_posterior_is_the_product_without_the_prior(tiny, factors, mean, variance):
    model, x = make(tiny, shared=1), images(tiny, len(factors))
    heads = torch.tensor(factors).double()
    heads[:, 1] = heads[:, 1].log()
    model.latents.factor = Fixed(heads)
    q = model.trace(Batch(x)).latents["beta"].draw.q
    assert (q.mean.item(), q.variance.item()) == pytest.approx((mean, variance))


class Fixed(torch.nn.Module):
    """A layer that gives the same rows whatever it sees."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def forward(self, h):
        return self.rows


def test_both_kl_modes_agree_in_expectation_when_the_weights_ignore_z(tiny):
    x, estimates = images(tiny, 2), {}
    for mode in ("analytic", "mc"):
        model = make(tiny, kl_mode=mode).eval()
        torch.nn.init.zeros_(model.latents.cluster[-1].weight)
        torch.nn.init.zeros_(model.latents.prior.weight_out)  # components do not depend on β
        with torch.no_grad():
            torch.manual_seed(0)
            many = Batch(x[:1].expand(20_000, -1, -1, -1))
            estimates[mode] = model.trace(many).latents["z"].kl.mean().item()
    assert estimates["mc"] == pytest.approx(estimates["analytic"], abs=0.03)


def test_the_order_of_the_images_does_not_matter(tiny):
    model, x = make(tiny), images(tiny)
    order = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4])
    before, after = (terms(model, y, mean=True) for y in (x, x[order]))
    assert torch.allclose(before["loss"], after["loss"])


def test_the_order_of_the_clusters_does_not_matter(tiny):
    model, x, order = make(tiny), images(tiny), torch.tensor([4, 2, 0, 1, 3])
    before = terms(model, x)["loss"]
    last, prior, factor = model.latents.cluster[-1], model.latents.prior, model.latents.factor
    for p in (last.weight, last.bias, *prior.parameters()):
        p.data = p.data[order]
    factor.weight.data[:, -5:] = factor.weight.data[:, -5:][:, order]
    assert torch.allclose(terms(model, x)["loss"], before)


def test_the_group_is_the_batch_whatever_the_data_says(tiny):
    model, x = make(tiny), images(tiny)
    assert torch.equal(terms(model, x)["loss"], terms(model, x, group=torch.arange(N) // 2)["loss"])
    assert model.encode_group(x, torch.arange(N)).shape == (1, 3)


def test_the_divergence_of_the_shared_latent_counts_once(tiny):
    model, x = make(tiny), images(tiny)
    trace = model.trace(Batch(x))
    parts = trace.latents
    total = parts["z"].kl.mean() + parts["cluster"].kl.mean() + parts["beta"].draw.q.kl().sum() / N
    assert torch.allclose(model.objective(trace)["kl"], total)


def test_the_code_is_the_local_mean_beside_the_shared_one(tiny):
    model, x = make(tiny), images(tiny)
    code = model.encode(x)
    assert code.shape == (N, 7)
    assert torch.equal(code[:, 4:], model.encode_group(x).expand(N, -1))
    local = model.latents.z.head(model.encoder(x))[:, :4]
    assert torch.allclose(code[:, :4], local)


def test_a_batch_of_unit_factors_costs_as_much_as_it_should(tiny):
    model = make(tiny)
    constant(model.latents.factor, [0.0] * 6)
    latent = model.trace(Batch(images(tiny, 128))).latents["beta"]
    assert latent.draw.q.variance.flatten().tolist() == pytest.approx([1 / 128] * 3)
    assert latent.kl.item() / 3 == pytest.approx(1.93, abs=0.005)


def test_the_bias_of_the_factors_makes_the_shared_latent_start_near_its_prior(tiny):
    plain, shifted = make(tiny), make(tiny, factor_bias=math.log(N))
    gap = (shifted.latents.factor.bias - plain.latents.factor.bias).tolist()
    assert gap == pytest.approx([0.0] * 3 + [math.log(N)] * 3, abs=1e-6)
    x = images(tiny)
    start, near = (m.trace(Batch(x), mean=True).latents["beta"].kl.item() for m in (plain, shifted))
    assert near < start / 4


def test_every_component_has_a_network_of_its_own():
    nets = PriorNetworks(4, 3, 8, 2)
    parts = nets(100 * torch.randn(5, 3)).parts
    parts.mean[:, 1].sum().backward()
    touched = nets.weight_in.grad.abs().sum((1, 2)) > 0
    assert touched.tolist() == [False, True, False, False]
    assert parts.logvar.abs().max() <= 1


def test_the_components_follow_the_drawn_shared_latent(tiny):
    model = make(tiny)
    latents = model.trace(Batch(images(tiny))).latents
    truth = model.latents.prior(latents["beta"].draw.z).parts
    assert torch.equal(latents["z"].p.parts.mean, truth.mean)


@pytest.mark.parametrize("mode", ["analytic", "mc"])
def test_without_sampling_nothing_depends_on_the_noise(tiny, mode):
    model, x = make(tiny, kl_mode=mode), images(tiny)
    first, second = (model.trace(Batch(x), mean=True).latents for _ in range(2))
    assert all(torch.equal(first[name].kl, second[name].kl) for name in first)
    assert torch.equal(first["beta"].draw.mean, second["beta"].draw.mean)


def test_samples_have_a_shared_latent_each(tiny):
    z = make(tiny).latents.sample(6, torch.nn.Identity())
    assert z.shape == (6, 7)
    assert len(z[:, 4:].unique(dim=0)) == 6


def test_importance_weights_are_refused(tiny):
    with pytest.raises(IncompatibleError, match="importance weights need"):
        make(tiny, "ug-vae+iwae")


@pytest.mark.parametrize("bad", ["shared", "clusters", "units"])
def test_impossible_numbers_are_refused(tiny, bad):
    with pytest.raises(ParameterError, match=f"ug-vae.{bad} must be a whole number from 1 to"):
        make(tiny, **{bad: 0})


def accuracy(model, data, levels, rng):
    """How well a linear rule tells batches of one scale from batches of another by β's mean."""

    def means(level):
        batches = [data.take(data.factors.sample_indices(64, rng, {1: level})) for _ in range(60)]
        return torch.stack([model.encode_group(x)[0] for x in batches]).double()

    a, b = (means(level) for level in levels)
    centre = [a[:30].mean(0), b[:30].mean(0)]
    within = torch.cat([a[:30] - centre[0], b[:30] - centre[1]]).T.cov()
    axis = torch.linalg.solve(within, centre[1] - centre[0])
    middle = (centre[0] + centre[1]) @ axis / 2
    return ((b[30:] @ axis > middle).sum() + (a[30:] @ axis <= middle).sum()).item() / 60


@pytest.mark.slow
def test_training_makes_the_shared_latent_tell_batches_of_neighbouring_sizes_apart(tiny):
    fresh, trained = [], []
    for seed in range(3):
        model = untwine.build(
            "ug-vae", tiny, network="mlp", width=64, latent=5, shared=5, clusters=5, seed=seed
        )
        fresh.append(accuracy(model, tiny, (2, 3), np.random.default_rng(seed)))
        untwine.fit(model, tiny, steps=600, batch=64, lr=2e-3, seed=seed, quiet=True)
        trained.append(accuracy(model, tiny, (2, 3), np.random.default_rng(seed)))
    assert min(trained) >= 0.9
    assert sum(trained) > sum(fresh)


def test_samples_come_from_the_clusters_that_beta_shapes(tiny):
    torch.manual_seed(0)
    model = untwine.build("ug-vae", tiny, network="mlp", latent=2, clusters=2, shared=1)
    with torch.no_grad():
        model.latents.prior.weight_out.zero_()
        model.latents.prior.bias_out.copy_(torch.tensor([[9.0, 9, 0, 0], [-9, -9, 0, 0]]))
    code = model.latents.sample(2000, model.encoder)
    assert (code[:, 0] > 0).float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert code[:, :2].abs().mean().item() == pytest.approx(9, abs=0.2)
    assert code[:, 2].std().item() == pytest.approx(1, abs=0.06)
