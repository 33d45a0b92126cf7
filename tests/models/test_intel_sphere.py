"""Facts special to the InteL-VAE on a sphere, in double precision where numbers matter."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine import IncompatibleError, ParameterError
from untwine.models.intel_sphere import to_sphere

coordinates = st.floats(-10, 10)
points = st.lists(coordinates, min_size=3, max_size=3)


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def circle(seed, n=5000):
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, n)
    return untwine.from_arrays(2 * np.stack([np.cos(angle), np.sin(angle)], -1))


@given(points, st.sampled_from([1e-7, 1e-3, 1.0]))
def test_the_norm_is_what_the_formula_says(y, epsilon):
    radius = math.hypot(*y)
    length = to_sphere(rows(y), epsilon).norm().item()
    assert length == pytest.approx(radius / (radius + epsilon), abs=1e-12)


@given(points.filter(lambda y: math.hypot(*y) > 0.1), st.floats(0.1, 100))
def test_only_the_direction_matters_as_epsilon_vanishes(y, scale):
    assert torch.allclose(to_sphere(rows(y), 1e-12), to_sphere(scale * rows(y), 1e-12), atol=1e-9)


@given(coordinates, coordinates, st.floats(-4, 4))
def test_rotating_the_input_rotates_the_output(a, b, angle):
    c, s = math.cos(angle), math.sin(angle)
    rotation = rows([c, -s], [s, c])
    y = rows([a, b])
    assert torch.allclose(to_sphere(y @ rotation, 1e-7), to_sphere(y, 1e-7) @ rotation, atol=1e-8)


@given(st.lists(st.sampled_from([0.0, -0.0, 1e-40, 1e-20, -1e-7, 1.0]), min_size=3, max_size=3))
def test_gradients_are_finite_near_the_origin(y):
    y = torch.tensor([y], requires_grad=True)
    to_sphere(y, 1e-7).sum().backward()
    assert y.grad.isfinite().all()


def test_the_origin_stays_and_its_slope_is_one_over_epsilon():
    zero = torch.zeros(2, dtype=torch.float64)
    assert torch.equal(to_sphere(zero, 1e-7), zero)
    slope = torch.autograd.functional.jacobian(lambda y: to_sphere(y, 1e-3), zero)
    assert torch.allclose(slope, 1e3 * torch.eye(2).double())


def test_projecting_to_the_circle_loses_divergence():
    """y ~ N((1, 0), I): KL to the prior is ½, that of the angle to the uniform one is 0.342."""
    torch.manual_seed(0)
    y = torch.randn(400_000, 2, dtype=torch.float64) + rows(1.0, 0.0)
    c = to_sphere(y, 1e-7)[:, 0]  # the cosine of the angle
    bump = math.sqrt(2 * math.pi) * c * (c.square() / 2).exp() * torch.special.ndtr(c)
    divergence = ((1 + bump).log() - 0.5).mean().item()  # of the projected normal's density
    assert divergence == pytest.approx(0.342, abs=2e-3) and divergence < 0.5


def test_codes_lie_on_the_sphere_and_the_kl_is_taken_before_it(tiny):
    model = untwine.build("intel-sphere", tiny, network="mlp", width=16, latent=4)
    x = tiny.take(list(range(16)))
    trace = model.trace(untwine.Batch(x))
    assert torch.allclose(trace.w.norm(dim=-1), torch.ones(16), atol=1e-5)
    assert torch.allclose(model.encode(x).norm(dim=-1), torch.ones(16), atol=1e-5)
    assert torch.allclose(trace.latents["z"].kl, trace.density(model).kl())
    assert not torch.allclose(trace.z, trace.w)


def test_bad_numbers_are_refused(tiny):
    with pytest.raises(ParameterError, match=r"intel-sphere\.epsilon must be a number above 0"):
        untwine.build("intel-sphere", tiny, network="mlp", epsilon=0)
    with pytest.raises(IncompatibleError, match="at least 2 latents"):
        untwine.build("intel-sphere", tiny, network="mlp", latent=1)


@pytest.mark.slow
def test_no_sample_falls_into_the_hole_of_a_circle():
    inside = {"intel-sphere": [], "vae": []}
    for seed in range(3):
        data = circle(seed)
        for name, shares in inside.items():
            model = untwine.build(
                name, data, latent=2, network="mlp", width=32, variance=0.05, seed=seed
            )
            untwine.fit(model, data, steps=3000, lr=1e-3, seed=seed, quiet=True)
            radius = model.sample(2000, seed=1).norm(dim=-1)
            shares.append((radius < 1).double().mean().item())
    assert inside["intel-sphere"] == [0, 0, 0]
    assert min(inside["vae"]) > 0.01
