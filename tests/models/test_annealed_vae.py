"""Facts special to AnnealedVAE."""

from dataclasses import replace

import pytest
import torch

import untwine
from untwine.models.annealed_vae import CapacityGap
from untwine.records import Batch, Sizes


def fit(name, data, **settings):
    model = untwine.build(name, data, network="mlp", **settings)
    return untwine.fit(model, data, steps=20, batch=8, quiet=True)


def test_no_capacity_is_the_beta_vae(tiny):
    annealed = fit("annealed-vae", tiny, capacity=0, gamma=4)
    assert annealed == fit("beta-vae", tiny, beta=4)


def test_no_weight_leaves_the_reconstruction_alone(tiny):
    assert all(row["loss"] == row["nll"] for row in fit("annealed-vae", tiny, gamma=0))


def test_the_mean_is_taken_inside_the_absolute_value(tiny):
    """KLs of 1 and 3 at capacity 2 have no gap; per example they would have a gap of 1."""
    model = untwine.build("annealed-vae", tiny, network="mlp", capacity=2, steps=1)
    trace = model.trace(Batch(tiny.take([0, 1]), step=torch.tensor(5)))
    latent = replace(trace.latents["z"], kl=torch.tensor([1.0, 3.0]))
    trace = replace(trace, latents={"z": latent})
    assert model.objective.terms["kl"](trace).item() == 0


@pytest.mark.parametrize(
    ("step", "capacity"), [(0, 0.0), (25_000, 6.25), (100_000, 25.0), (200_000, 25.0)]
)
def test_the_capacity_grows_linearly_then_stays(step, capacity):
    gap = CapacityGap(Sizes(torch.Size((1, 8, 8))), 25.0, 100_000)
    assert gap.capacity(torch.tensor(step)).item() == capacity


@pytest.mark.parametrize("settings", [{"capacity": -1}, {"gamma": -1}, {"steps": 0}])
def test_impossible_numbers_are_refused(tiny, settings):
    with pytest.raises(untwine.ParameterError, match="annealed-vae"):
        untwine.build("annealed-vae", tiny, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_kl_settles_within_a_nat_of_the_capacity(seed):
    data = untwine.dataset("sprites", size=32)
    model = untwine.build("annealed-vae", data, capacity=8, steps=500, seed=seed)
    history = untwine.fit(model, data, steps=1500, lr=1e-3, seed=seed, quiet=True)
    assert history[-1]["kl"] < 1
