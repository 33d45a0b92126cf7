"""Facts special to NestedVAE, in double precision."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine.distributions import LOG_2PI
from untwine.errors import ParameterError
from untwine.models.nested_vae import partner_weights
from untwine.records import Batch

CPU = torch.device("cpu")
PAIRS = torch.tensor([0, 1, 0, 1])


def make(data, name="nested-vae", **settings):
    return untwine.build(name, data, network="mlp", width=16, latent=4, **settings).double()


def images(data, n=4):
    return data.take(list(range(0, 1000 * n, 1000))).double()


def terms(model, x, group=None):
    torch.manual_seed(0)
    return model.objective(model.trace(Batch(x, group)))


@torch.no_grad()
def quiet(model):
    """Take the noise out of the nested VAE: log σ² = −1000."""
    last = model.objective.terms["nested"].encoder[-1]
    half = len(last.bias) // 2
    last.weight[half:] = 0
    last.bias[half:] = -1000
    return model


class Same(torch.nn.Module):
    """A nested encoder that gives the code itself, with variance one."""

    def forward(self, z):
        return torch.cat([z, torch.zeros_like(z)], -1)


def test_weight_zero_is_the_vae_bit_for_bit(tiny):
    nested = untwine.build("nested-vae", tiny, network="mlp", weight=0)
    plain = untwine.build("vae", tiny, network="mlp")
    a, b = (untwine.fit(m, tiny, steps=10, batch=8, quiet=True) for m in (nested, plain))
    assert a == b


def test_the_outer_terms_are_those_of_the_vae_with_the_same_weights(tiny):
    x = images(tiny)
    values = terms(make(tiny, weight=3.0), x, PAIRS)
    plain = terms(untwine.build("vae", tiny, network="mlp", width=16, latent=4).double(), x)
    assert torch.equal(values["nll"], plain["nll"]) and torch.equal(values["kl"], plain["kl"])
    assert torch.allclose(values["loss"], plain["loss"] + 3 * values["nested"])


def test_an_identical_pair_and_an_identity_reconstruct_the_code_itself(tiny):
    model = make(tiny, nested_beta=0.0, nested_latent=4)
    term = model.objective.terms["nested"]
    term.encoder, term.decoder = Same(), torch.nn.Identity()
    trace = model.trace(Batch(images(tiny)))
    torch.manual_seed(5)
    loss = term(trace)
    torch.manual_seed(5)
    noise = torch.randn(4, 4, dtype=torch.float64)
    assert torch.allclose(loss, noise.square().sum(-1) / 2 + 2 * LOG_2PI)


def test_a_pair_counts_in_both_directions(tiny):
    model = quiet(make(tiny, nested_beta=0.0))
    term, trace = model.objective.terms["nested"], model.trace(Batch(images(tiny), PAIRS))
    mean = trace.latents["z"].draw.mean
    guess = term.decoder(term.common(mean).mean)
    truth = (mean[[2, 3, 0, 1]] - guess).square().sum(-1) / 2 + 2 * LOG_2PI
    assert torch.allclose(term(trace), truth)


def test_the_nested_divergence_has_its_own_weight(tiny):
    x = images(tiny)
    low, high = (terms(make(tiny, nested_beta=b), x, PAIRS)["nested"] for b in (1, 3))
    model = make(tiny)
    mean = model.trace(Batch(x)).latents["z"].draw.mean
    assert torch.allclose(high - low, 2 * model.objective.terms["nested"].common(mean).kl().mean())


def test_swapping_the_members_of_a_pair_changes_nothing(tiny):
    model, x = quiet(make(tiny)), images(tiny)
    term = model.objective.terms["nested"]
    before = term(model.trace(Batch(x, PAIRS))).mean()
    swapped = term(model.trace(Batch(x[[2, 3, 0, 1]], PAIRS))).mean()
    assert torch.allclose(before, swapped)


@pytest.mark.parametrize("source", ["mean", "sample"])
def test_detached_the_nested_vae_leaves_the_outer_one_alone(tiny, source):
    x = images(tiny)
    for detach in (True, False):
        model = make(tiny, detach=detach, source=source)
        model.objective.terms["nested"](model.trace(Batch(x, PAIRS))).sum().backward()
        touched = [p.grad is not None for p in model.encoder.parameters()]
        assert not any(touched) if detach else all(touched)


def test_the_nested_vae_can_see_the_sample(tiny):
    x = images(tiny)
    model = quiet(make(tiny, source="sample"))
    term = model.objective.terms["nested"]
    first, second = (term(model.trace(Batch(x, PAIRS))) for _ in range(2))
    assert not torch.allclose(first, second)


def test_partners_are_the_others_of_a_group_or_oneself():
    weights = partner_weights(torch.tensor([4, 7, 4, 4]), torch.arange(4))
    truth = [[0, 0, 0.5, 0.5], [0, 1, 0, 0], [0.5, 0, 0, 0.5], [0.5, 0, 0.5, 0]]
    assert weights.tolist() == truth
    assert torch.equal(partner_weights(None, torch.arange(3)), torch.eye(3).double())


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_the_weights_of_all_partners_sum_to_one(ids):
    weights = partner_weights(torch.tensor(ids), torch.arange(len(ids)))
    assert torch.allclose(weights.sum(1), torch.ones(len(ids)).double())
    assert torch.equal(weights, weights.T)


def test_data_without_groups_pairs_each_example_with_itself(tiny):
    model, x = quiet(make(tiny)), images(tiny)
    alone = terms(model, x, torch.arange(4))["nested"]
    assert torch.equal(terms(model, x)["nested"], alone)


def test_it_works_with_several_draws_per_example(tiny):
    model = make(tiny, "nested-vae+iwae", draws=3)
    trace = model.trace(Batch(images(tiny), PAIRS))
    assert model.objective.terms["nested"](trace).shape == (12,)


def test_the_nested_vae_learns_pairs(tiny):
    data = replace(tiny, groups=torch.arange(len(tiny)) % 8)
    model = untwine.build("nested-vae", data, network="mlp", width=16, latent=4, weight=10)
    history = untwine.fit(model, data, steps=100, batch=16, lr=3e-3, quiet=True)
    assert history[-1]["nested"] < history[0]["nested"]
    assert math.isfinite(history[-1]["loss"])


def test_beta_vae_leaves_the_nested_divergence_alone(tiny):
    x = images(tiny)
    low, high = (terms(make(tiny, "nested-vae+beta-vae", beta=b), x, PAIRS) for b in (1, 4))
    assert torch.equal(low["nested"], high["nested"])
    assert torch.allclose(high["loss"] - low["loss"], 3 * low["kl"])


@pytest.mark.parametrize(
    "bad", [{"weight": -1.0}, {"nested_beta": -1.0}, {"nested_latent": 0}, {"units": 0}]
)
def test_impossible_numbers_are_refused(tiny, bad):
    with pytest.raises(ParameterError, match=f"nested-vae.{next(iter(bad))} must"):
        make(tiny, **bad)


def test_draws_of_one_example_are_not_its_partners():
    group = torch.tensor([0, 0, 1, 1]).repeat_interleave(5)
    weights = partner_weights(group, torch.arange(20) // 5)
    assert torch.allclose(weights[0, 5:10], torch.full((5,), 0.2).double())
    assert weights[0].sum() == 1 and weights[0, :5].sum() == 0
