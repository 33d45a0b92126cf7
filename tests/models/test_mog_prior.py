"""Facts special to the fixed mixture prior."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.errors import IncompatibleError, ParameterError
from untwine.models.mog_prior import FixedMixture, centres
from untwine.records import Batch, Sizes


def density(components, latent, *, radius=2.0, variance=1.0):
    sizes = Sizes(torch.Size((1, 8, 8)), latent=latent)
    return FixedMixture(sizes, components, radius, variance).double()(lambda x: x)


def make(name, data, **settings):
    return untwine.build(name, data, network="mlp", width=16, **settings)


def test_one_component_is_the_vae_with_one_sample_kl(tiny):
    latents = []
    for name, numbers in [("mog-prior", {"components": 1}), ("vae", {})]:
        model = make(name, tiny, latent=4, **numbers).double()
        torch.manual_seed(0)
        latents.append(model.trace(Batch(tiny.take(range(8)).double())).latents["z"])
    mixture, plain = latents
    assert torch.equal(mixture.draw.z, plain.draw.z)
    assert torch.allclose(mixture.kl, plain.log_ratio(), atol=1e-12)


def test_one_component_trains_like_the_importance_bound_with_one_draw(tiny):
    histories = [
        untwine.fit(make(name, tiny, **numbers), tiny, steps=20, batch=8, quiet=True)
        for name, numbers in [("mog-prior", {"components": 1}), ("iwae", {"draws": 1})]
    ]
    for a, b in zip(*histories, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


@pytest.mark.parametrize(("variance", "expected"), [(math.e, -2.1546974), (1.0, -2.9189385)])
def test_two_components_have_the_known_density_at_zero(variance, expected):
    p = density(2, 1, variance=variance)
    assert p.log_prob(torch.zeros(1, 1).double()).item() == pytest.approx(expected, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([1, 2, 4, 6, 10]), st.integers(2, 5), st.integers(0, 1000))
def test_an_even_number_of_components_is_symmetric(components, latent, seed):
    z = torch.randn(7, latent, generator=torch.Generator().manual_seed(seed)).double() * 3
    p = density(components, latent)
    assert torch.allclose(p.log_prob(z), p.log_prob(-z), atol=1e-5)


def test_four_components_sit_on_the_axes():
    expected = torch.tensor([[2.0, 0, 0], [0, 2, 0], [-2, 0, 0], [0, -2, 0]])
    assert torch.allclose(centres(4, 3, 2.0), expected, atol=1e-6)


@pytest.mark.parametrize("components", [3, 5, 10])
def test_means_lie_evenly_on_a_circle_in_the_first_two_latents(components):
    means = centres(components, 5, 3.0)
    assert torch.allclose(means.norm(dim=1), torch.full((components,), 3.0))
    gaps = (means - means.roll(1, 0)).norm(dim=1)
    assert torch.allclose(gaps, gaps[:1].expand_as(gaps), atol=1e-5)
    assert (means[:, 2:] == 0).all()


def test_the_density_integrates_to_one():
    axis = torch.linspace(-9, 9, 181).double()
    grid = torch.cartesian_prod(axis, axis)
    mass = density(5, 2, variance=0.7).log_prob(grid).exp().sum() * 0.1**2
    assert mass.item() == pytest.approx(1.0, abs=1e-6)


def test_samples_fill_the_components_evenly():
    z = density(2, 1, radius=10.0, variance=0.25).sample((20_000,))
    assert (z > 0).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert z.abs().std().item() == pytest.approx(0.5, abs=0.02)


def test_one_latent_takes_two_components_and_refuses_a_circle(tiny):
    assert make("mog-prior", tiny, latent=1, components=2).sample(3).shape == (3, 1, 16, 16)
    with pytest.raises(IncompatibleError, match="need at least 2 latents"):
        make("mog-prior", tiny, latent=1, components=3)


def test_the_prior_is_fixed(tiny):
    assert list(make("mog-prior", tiny).latents.prior.parameters()) == []


@pytest.mark.parametrize("setting", [{"components": 0}, {"radius": -1}, {"variance": 0}])
def test_impossible_numbers_are_refused(tiny, setting):
    with pytest.raises(ParameterError, match=f"mog-prior.{next(iter(setting))} must"):
        make("mog-prior", tiny, **setting)
