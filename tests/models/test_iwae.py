"""Facts special to IWAE."""

from dataclasses import replace

import pytest
import torch

import untwine
from untwine.distributions import Gaussian
from untwine.records import Batch, Draw
from untwine.tools.compute import seeded


def make(data, **settings):
    return untwine.build("iwae", data, network="mlp", latent=3, **settings).double()


def test_one_draw_is_the_negative_one_sample_bound(tiny):
    model, x = make(tiny, draws=1), tiny.take(list(range(6))).double()
    trace = model.trace(Batch(x))
    terms = model.objective(trace)
    expected = terms["nll"] + trace.latents["z"].log_ratio().mean()
    assert torch.allclose(terms["loss"], expected)


def test_the_bound_averages_weights_not_logarithms(tiny):
    model, x = make(tiny, draws=4), tiny.take(list(range(3))).double()
    trace = model.train().trace(Batch(x))
    weights = trace.log_weight().view(3, 4)
    expected = -(weights.exp().mean(1)).log().mean()
    assert torch.allclose(model.objective(trace)["loss"], expected)


def test_draws_of_an_example_stand_side_by_side(tiny):
    trace = make(tiny, draws=3).train().trace(Batch(tiny.take([0, 5]).double()))
    assert torch.equal(trace.target[0], trace.target[2]) and trace.z.shape == (6, 3)
    assert not torch.equal(trace.z[0], trace.z[1])


def test_outside_training_there_is_one_draw(tiny):
    model = make(tiny, draws=3).eval()
    assert model.trace(Batch(tiny.take([0, 5]).double())).z.shape == (2, 3)


def test_more_draws_give_a_tighter_bound(tiny):
    x = tiny.take(list(range(0, 700_000, 20_000))).double()
    bounds = []
    for draws in (1, 50):
        model = make(tiny, draws=draws).train()
        with seeded(0), torch.no_grad():
            model.latents.posterior.head.bias.add_(0.5)
            bounds.append(model.objective(model.trace(Batch(x)))["loss"].item())
    assert bounds[1] < bounds[0]


def test_it_takes_the_place_of_the_bound_and_refuses_another_one(tiny):
    with pytest.raises(untwine.IncompatibleError, match="kl"):
        untwine.build("iwae+beta-vae", tiny)


def test_no_draws_are_refused(tiny):
    with pytest.raises(untwine.ParameterError, match="from 1 to"):
        untwine.build("iwae", tiny, draws=0)


@pytest.mark.parametrize("other", ["beta-tcvae", "dd-sparse"])
def test_estimates_over_the_batch_take_one_draw_per_example(tiny, other):
    name = {"beta-tcvae": "tc", "dd-sparse": "mmd"}[other]
    model = untwine.build(f"iwae+{other}", tiny, network="mlp", latent=3).double().train()
    trace = model.trace(Batch(tiny.take(list(range(6))).double()))
    single = replace(
        trace,
        target=trace.target[::5],
        z=trace.z[::5],
        latents={"z": only(trace.latents["z"], 5)},
    )
    values = []
    for one in (trace, single):
        torch.manual_seed(0)
        values.append(model.objective.terms[name](one).mean())
    assert trace.draws == 5 and single.draws == 1
    assert torch.allclose(*values)


def only(latent, draws):
    """One draw of each example."""
    q = Gaussian(latent.draw.q.mean[::draws], latent.draw.q.logvar[::draws])
    return replace(latent, draw=Draw(latent.draw.z[::draws], q.mean, q), kl=latent.kl[::draws])
