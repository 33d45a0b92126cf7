"""Facts special to β-TCVAE, in double precision."""

import itertools
import math

import pytest
import torch

import untwine
from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError
from untwine.models.beta_tcvae import aggregate, log_weights
from untwine.records import Batch

WEIGHTINGS = ["mws", "mss"]


def posteriors(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean, logvar = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return Gaussian(mean, logvar)


def terms(data, **settings):
    model = untwine.build("beta-tcvae", data, network="mlp", **settings).double()
    torch.manual_seed(1)
    return model.objective(model.trace(Batch(data.take(list(range(16))).double())))


def test_rows_of_the_weights_sum_to_what_they_should():
    assert torch.allclose(log_weights(8, 100, "mss").exp().sum(1), torch.ones(8).double())
    assert torch.allclose(log_weights(8, 100, "mws").exp().sum(1), torch.full((8,), 0.01).double())


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_parts_add_up_to_the_one_sample_kl(tiny, weighting):
    model = untwine.build(
        "beta-tcvae", tiny, network="mlp", alpha=2, gamma=3, weighting=weighting
    ).double()
    trace = model.trace(Batch(tiny.take(list(range(16))).double()))
    parts = [model.objective.terms[name](trace) for name in ("mi", "tc", "dw")]
    latent = trace.latents["z"]
    assert torch.allclose(sum(parts), latent.log_ratio(), atol=1e-10)


def test_beta_one_is_the_vae(tiny):
    values = terms(tiny, beta=1)
    assert torch.allclose(values["loss"], values["nll"] + values["kl"])


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_one_latent_has_no_total_correlation(tiny, weighting):
    model = untwine.build("beta-tcvae", tiny, latent=1, network="mlp", weighting=weighting).double()
    trace = model.trace(Batch(tiny.take(list(range(16))).double()))
    assert model.objective.terms["tc"](trace).abs().max() < 1e-10


def test_identical_posteriors_have_no_mutual_information_or_total_correlation_under_mss():
    q = Gaussian(torch.zeros(8, 3).double(), torch.zeros(8, 3).double())
    z = q.sample()
    joint, marginals = aggregate(z, q, log_weights(8, 100, "mss").double())
    assert torch.allclose(joint, q.log_prob(z), atol=1e-6)
    assert torch.allclose(joint, marginals.sum(-1), atol=1e-6)


def test_identical_posteriors_give_the_known_bias_under_mws():
    q = Gaussian(torch.zeros(8, 3).double(), torch.zeros(8, 3).double())
    joint, marginals = aggregate(q.sample(), q, log_weights(8, 100, "mws").double())
    bias = (joint - marginals.sum(-1)).mean().item()
    assert bias == pytest.approx(2 * math.log(100), abs=1e-5)  # 9.2103404


def test_stratified_estimate_is_unbiased_over_all_minibatches():
    n, m = 5, 3
    q = posteriors(n, 2)
    z = q.mean[:1] + 0.3
    truth = q.log_prob(z).exp().mean()
    weights = log_weights(m, n, "mss").double()
    estimates = []
    for others in itertools.combinations(range(1, n), m - 1):
        batch = [0, *others]
        part = Gaussian(q.mean[batch], q.logvar[batch])
        joint, _ = aggregate(z.expand(m, -1), part, weights)
        estimates.append(joint[0].exp())
    assert torch.stack(estimates).mean().item() == pytest.approx(truth.item(), abs=1e-7)


def test_stratified_weights_refuse_a_single_example():
    with pytest.raises(IncompatibleError, match="at least 2"):
        log_weights(1, 100, "mss")
