"""`pixels` weighs the likelihood in the training objective, and nowhere else."""

import numpy as np
import pytest
import torch

import untwine
from untwine.errors import IncompatibleError, ParameterError
from untwine.records import Batch
from untwine.registry import likelihoods, models
from untwine.spec import Run, plan
from untwine.study.document import parse
from untwine.study.file import expand
from untwine.tools.compute import seeded

OWN = 16 * 16  # pixels of the small sprites
FOUR_TIMES = 4 * OWN


def make(data, name="beta-vae", **settings):
    return untwine.build(name, data, network="mlp(width=8)", latent=3, **settings)


def terms_of(model, x):
    model = model.given_in_turn(len(x))
    with seeded(1):
        return model.train().objective(model.trace(Batch(x, torch.arange(len(x)) // 2)))


@pytest.mark.parametrize("name", list(likelihoods))
def test_the_weight_counts_pixels_and_not_channels(name):
    weigh = likelihoods.make(likelihoods.choose(name, pixels=4096)).weight
    assert weigh(torch.Size((1, 32, 32))) == weigh(torch.Size((3, 32, 32))) == 4.0
    assert weigh(torch.Size((1, 16, 16))) == 16.0
    assert likelihoods.make(likelihoods.choose(name)).weight(torch.Size((2,))) == 1.0


@pytest.mark.parametrize("name", list(models))
def test_only_the_loss_sees_the_weight(name, tiny):
    x = tiny.take(list(range(8)))
    plain = terms_of(make(tiny, name), x)
    weighed = terms_of(make(tiny, name, pixels=FOUR_TIMES), x)
    same = plain.keys() - {"loss", "bound"}
    assert all(torch.equal(plain[term], weighed[term]) for term in same)
    if name != "iwae":
        assert weighed["loss"].item() == pytest.approx((plain["loss"] + 3 * plain["nll"]).item())


@pytest.mark.parametrize("name", list(likelihoods))
def test_bounds_and_densities_stay_in_nats(name, tiny):
    x = tiny.take(list(range(0, 700_000, 70_000)))
    plain, weighed = (make(tiny, likelihood=name, pixels=p) for p in (0, FOUR_TIMES))
    assert torch.equal(plain.elbo(x, seed=0), weighed.elbo(x, seed=0))
    assert torch.equal(
        plain.log_likelihood(x, samples=3, seed=0), weighed.log_likelihood(x, samples=3, seed=0)
    )


def test_the_bound_of_iwae_has_the_weight_inside_its_logarithm(tiny):
    x = tiny.take(list(range(6)))
    model = make(tiny, "iwae", draws=1, pixels=FOUR_TIMES)
    with seeded(1):
        trace = model.train().trace(Batch(x))
    terms = model.objective(trace)
    expected = 4 * terms["nll"] + trace.latents["z"].log_ratio().mean()
    assert torch.allclose(terms["loss"], expected)
    assert torch.allclose(
        trace.log_weight().mean(), -terms["nll"] - trace.latents["z"].log_ratio().mean()
    )


def test_the_history_tells_nats(tiny):
    first = [
        untwine.fit(make(tiny, pixels=pixels), tiny, steps=1, batch=16, quiet=True)[0]
        for pixels in (0, FOUR_TIMES)
    ]
    assert first[0]["nll"] == first[1]["nll"]
    assert first[1]["loss"] == pytest.approx(first[0]["loss"] + 3 * first[0]["nll"])


def test_weights_shrunk_with_the_likelihood_train_alike(tiny):
    """Adam does not see a common factor: β with 4 times the pixels is β / 4."""
    scaled = make(tiny, beta=8.0, pixels=FOUR_TIMES)
    shrunk = make(tiny, beta=2.0)
    for model in (scaled, shrunk):
        untwine.fit(model, tiny, steps=20, batch=16, lr=1e-3, quiet=True)
    for p, q in zip(scaled.parameters(), shrunk.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-4)


def test_own_pixels_train_bit_for_bit_as_none(tiny):
    trained = [make(tiny, "iwae", pixels=pixels) for pixels in (0, OWN)]
    histories = [untwine.fit(m, tiny, steps=12, batch=8, quiet=True) for m in trained]
    assert histories[0] == histories[1]
    for p, q in zip(*(m.parameters() for m in trained), strict=True):
        assert torch.equal(p, q)


def test_runs_made_before_keep_their_hash():
    run = plan("vae", "sprites(size=16)", likelihood="gaussian", variance=0.2)
    assert run.hash == "f43d227d0552"
    before = run.to_json()
    del before["likelihood"]["pixels"]
    assert Run.from_json(before) == run
    assert plan("iwae", "sprites(size=16)").hash == "2c7125da9d6e"
    assert plan("iwae", "sprites(size=16)", pixels=4096).hash != "2c7125da9d6e"


def test_data_that_are_no_images_are_refused():
    points = untwine.from_arrays(np.zeros((20, 2)))
    with pytest.raises(IncompatibleError, match="for images"):
        untwine.build("vae", points, likelihood="gaussian(pixels=4096)")
    with pytest.raises(IncompatibleError, match=r"pixels=64 .* leave it out"):
        plan("vae", "circle", pixels=64)


def test_a_name_may_carry_its_numbers(tiny):
    run = plan("vae", "sprites(size=16)", likelihood="gaussian(variance=0.1, squash=false)")
    assert run == plan("vae", "sprites(size=16)", likelihood="gaussian", variance=0.1, squash=False)
    with pytest.raises(ParameterError, match=r"gaussian\.variance is set twice"):
        plan("vae", "sprites(size=16)", likelihood="gaussian(variance=0.1)", variance=0.2)


STUDY = """
models: {vae: , beta-vae: {beta: 4}}
data: sprites(size=16)
training: {steps: 2, batch: 4, network: mlp(width=8), likelihood: [bernoulli(pixels=4096), laplace]}
"""


def test_a_study_names_its_likelihood_with_its_numbers():
    runs = expand(parse(STUDY)).runs
    assert [str(run.likelihood) for run in runs[:2]] == [
        "bernoulli(pixels=4096)",
        "laplace(scale=1.0, squash=True, pixels=0)",
    ]
    assert {run.network.params["width"] for run in runs} == {8}


def test_a_study_tells_the_line_of_a_wrong_number():
    with pytest.raises(ParameterError, match=r"line 4: bernoulli\.pixels must be a whole number"):
        expand(parse(STUDY.replace("4096", "many")))
