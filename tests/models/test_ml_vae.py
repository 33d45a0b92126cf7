"""Facts special to ML-VAE, in double precision."""

from dataclasses import replace

import pytest
import torch

import untwine
from untwine.errors import IncompatibleError, ParameterError
from untwine.models.ml_vae import StyleAndContent
from untwine.records import Batch, Sizes

GROUP = torch.tensor([0, 2, 0, 1, 2, 0])


def make(data, name="ml-vae", **settings):
    return untwine.build(name, data, network="mlp", width=16, latent=4, **settings).double()


def images(data, n=6):
    return data.take(list(range(0, 1000 * n, 1000))).double()


def terms(model, x, group, *, mean=True):
    torch.manual_seed(0)
    return model.objective(model.trace(Batch(x, group), mean=mean))


def content(members):
    """The content of one group whose members have these means and variances."""
    part = StyleAndContent(
        Sizes(torch.Size((1,)), latent=1, features=2), 0, 0, False, False
    ).double()
    part.content.weight.data = torch.eye(2).double()
    torch.nn.init.zeros_(part.content.bias)
    h = torch.tensor(members).double()
    h[:, 1] = h[:, 1].log()
    group = torch.zeros(len(h), dtype=torch.long)
    q = part(h, Batch(h, group), torch.nn.Identity(), mean=True)["content"].draw.q
    return q.mean.item(), q.variance.item()


@pytest.mark.parametrize("group", [None, torch.tensor([3, 1, 9, 0, 2, 5])])
def test_groups_of_one_are_the_vae_on_style_and_content_together(tiny, group):
    model, x = make(tiny), images(tiny)
    plain = untwine.build("vae", tiny, network="mlp", width=16, latent=8).double()
    plain.encoder.load_state_dict(model.encoder.state_dict())
    plain.decoder.load_state_dict(model.decoder.state_dict())
    heads = [model.latents.style.head, model.latents.content]
    for name in ("weight", "bias"):
        halves = [getattr(head, name).chunk(2) for head in heads]
        merged = torch.cat([half[i] for i in (0, 1) for half in halves])
        getattr(plain.latents.posterior.head, name).data = merged.data
    values, truth = terms(model, x, group), terms(plain, x, None)
    assert torch.allclose(values["nll"], truth["nll"])
    assert torch.allclose(values["kl"], truth["kl"])


def test_the_whole_batch_can_be_the_group_whatever_groups_the_data_has(tiny):
    model, x = make(tiny, whole_batch=True), images(tiny)
    one = make(tiny)
    one.load_state_dict(model.state_dict())
    truth = terms(one, x, torch.zeros(6, dtype=torch.long))
    for group in (None, GROUP):
        assert terms(model, x, group)["loss"] == truth["loss"]


def test_identical_factors_divide_the_variance_by_their_number():
    assert content([[0.7, 2.0]] * 5) == pytest.approx((0.7, 0.4))


def test_two_factors_multiply_without_the_prior():
    assert content([[1.0, 1.0], [3.0, 0.5]]) == pytest.approx((7 / 3, 1 / 3))  # not 1.75, 0.25


def test_the_kl_of_the_content_counts_once_per_group(tiny):
    model, x = make(tiny), images(tiny)
    trace = model.trace(Batch(x, GROUP))
    latent = trace.latents["content"]
    assert latent.kl.shape == (3,)
    total = trace.latents["style"].kl.sum() + latent.draw.q.kl().sum()
    assert torch.allclose(model.objective(trace)["kl"], total / 6)


def test_the_order_of_members_and_the_names_of_groups_do_not_matter(tiny):
    model, x = make(tiny), images(tiny)
    before = terms(model, x, GROUP)["loss"]
    order = torch.tensor([5, 3, 0, 1, 2, 4])
    assert torch.allclose(terms(model, x[order], GROUP[order])["loss"], before)
    assert torch.allclose(terms(model, x, torch.tensor([7, 4, 9])[GROUP])["loss"], before)


def test_a_group_shares_one_draw_of_its_content(tiny):
    shared = make(tiny).trace(Batch(images(tiny), GROUP)).z[:, 4:]
    assert torch.equal(shared[0], shared[2]) and torch.equal(shared[1], shared[4])
    assert not torch.equal(shared[0], shared[1])


def test_members_can_have_draws_of_their_own_with_the_same_kl(tiny):
    x = images(tiny)
    own = make(tiny, per_member=True).trace(Batch(x, GROUP))
    shared = make(tiny).trace(Batch(x, GROUP))
    assert not torch.equal(own.z[0, 4:], own.z[2, 4:])
    assert torch.allclose(own.latents["content"].kl.sum(), shared.latents["content"].kl.sum())


@pytest.mark.parametrize("per_member", [False, True])
def test_encoding_gives_style_and_content_and_groups_their_content(tiny, per_member):
    model, x = make(tiny, per_member=per_member), images(tiny)
    code, groups = model.encode(x, GROUP), model.encode_group(x, GROUP)
    assert groups.shape == (3, 4)
    assert torch.equal(code[:, 4:], groups[GROUP])


def test_style_and_content_can_have_their_own_sizes(tiny):
    model = make(tiny, style=2, content=3)
    trace = model.trace(Batch(images(tiny), GROUP))
    assert trace.latents["style"].draw.z.shape == (6, 2)
    assert trace.latents["content"].draw.z.shape == (3, 3)
    assert model.latents.sample(7, model.encoder).shape == (7, 5)


def test_beta_multiplies_both_divergences(tiny):
    x = images(tiny)
    low, high = (terms(make(tiny, "ml-vae+beta-vae", beta=b), x, GROUP, mean=False) for b in (1, 4))
    assert torch.allclose(high["loss"] - low["loss"], 3 * low["kl"])


@pytest.mark.parametrize("per_member", [False, True])
def test_grouped_data_trains(tiny, per_member):
    data = replace(tiny, groups=torch.arange(len(tiny)) // 1024)
    model = untwine.build("ml-vae", data, network="mlp", width=16, latent=4, per_member=per_member)
    history = untwine.fit(model, data, steps=60, batch=16, lr=3e-3, quiet=True)
    assert history[-1]["nll"] < history[0]["nll"]


@pytest.mark.parametrize("per_member", [False, True])
def test_importance_weights_are_refused(tiny, per_member):
    with pytest.raises(IncompatibleError, match="importance weights need"):
        make(tiny, "ml-vae+iwae", per_member=per_member)


@pytest.mark.parametrize("bad", ["style", "content"])
def test_negative_sizes_are_refused(tiny, bad):
    with pytest.raises(ParameterError, match=f"ml-vae.{bad} must be a whole number from 0 to"):
        make(tiny, **{bad: -1})


def test_samples_of_the_code_are_standard_normal(tiny):
    torch.manual_seed(0)
    model = untwine.build("ml-vae", tiny, network="mlp")
    z = model.latents.sample(5000, model.encoder)
    assert z.mean().abs() < 0.02 and z.std().item() == pytest.approx(1, abs=0.02)
