"""Counts given their total."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import nbinom

import untwine
from untwine.errors import IncompatibleError
from untwine.likelihoods import counts


def test_the_density_is_scipys():
    raw = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    x = torch.tensor([[0.0, 3, 1, 7], [2, 0, 0, 0], [900, 50, 3, 0]])
    shares = raw[:, :4].softmax(1).double().numpy()
    dispersion = (8 * torch.tanh(raw[:, 4:] / 8)).exp().double().numpy()
    mean = shares * x.sum(1, keepdim=True).numpy()
    expected = nbinom.logpmf(x.numpy(), dispersion, dispersion / (dispersion + mean)).sum(1)
    assert counts().observe(raw).log_prob(x).numpy() == pytest.approx(expected, rel=1e-4)


def test_nothing_at_all_is_certain_given_its_total():
    zero = counts().observe(torch.randn(2, 6)).log_prob(torch.zeros(2, 3))
    assert zero.tolist() == pytest.approx([0, 0], abs=1e-4)


def test_shares_add_up_to_the_total_and_samples_have_their_mean():
    torch.manual_seed(0)
    px = counts(total=50.0).observe(torch.randn(1, 10).expand(20_000, 10))
    assert px.mean.sum(1)[0].item() == pytest.approx(50, rel=1e-5)
    drawn = px.sample()
    assert torch.equal(drawn, drawn.round())
    error = (drawn.mean(0) - px.mean[0]).abs() / (drawn.std(0) / math.sqrt(20_000))
    assert error.max() < 5


def test_the_encoder_sees_logarithms():
    data = untwine.from_arrays(np.random.default_rng(0).poisson(3, (100, 6)))
    model = untwine.build("vae", data, likelihood="counts", network="mlp", width=8)
    x = data.take([0, 1])
    assert torch.equal(model.encoder(x), model.encoder[1](torch.log1p(x)))
    assert math.isfinite(untwine.fit(model, data, steps=20, batch=10, quiet=True)[-1]["loss"])


@pytest.mark.parametrize("values", [[[0.5, 1.0]], [[-1.0, 2.0]]])
def test_what_is_not_counts_is_refused(values):
    data = untwine.from_arrays(np.repeat(values, 5, 0))
    with pytest.raises(IncompatibleError, match="needs whole numbers from 0"):
        untwine.build("vae", data, likelihood="counts")


def simulate_cells(seed, cells=2000, genes=200, types=6):
    """Cells of overlapping types with totals that vary widely."""
    rng = np.random.default_rng(seed)
    base = rng.normal(0, 1, genes)
    profiles = np.exp(base + rng.normal(0, 0.6, (types, genes)))
    profiles /= profiles.sum(1, keepdims=True)
    kind = rng.integers(types, size=cells)
    totals = np.exp(rng.normal(math.log(120), 0.6, cells))
    rate = profiles[kind] * totals[:, None] * rng.gamma(5, 1 / 5, (cells, genes))
    return rng.poisson(rate), kind


def views(x):
    """What each way of training sees of the counts: a likelihood, and the numbers."""
    total = x.sum(1, keepdims=True)
    return {
        "counts": ("counts", x),
        "median": ("gaussian", np.log1p(x / total * np.median(total))),
        "10,000": ("gaussian", np.log1p(x / total * 10_000)),
    }


def judge_codes(likelihood, values, kind, log_total, seed):
    """Agreement of clusters of codes with types, and the correlation of codes with totals."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    data = untwine.from_arrays(values)
    model = untwine.build("vae", data, likelihood=likelihood, network="mlp", seed=seed)
    untwine.fit(model, data, steps=1000, batch=128, lr=1e-3, seed=seed, quiet=True)
    codes = model.encode(data)
    clusters = KMeans(6, n_init=10, random_state=0).fit_predict(codes)
    active = [d for d, one in enumerate(model.card.latents) if one.nats > 0.1]
    correlations = [abs(np.corrcoef(codes[:, d], log_total)[0, 1]) for d in active]
    return adjusted_rand_score(kind, clusters), max(correlations)


@pytest.mark.slow
def test_codes_of_counts_tell_types_and_not_totals():
    """The means of an inactive latent are noise of any correlation, so active ones count."""
    judged = {"counts": [], "median": [], "10,000": []}
    for seed in range(4):
        x, kind = simulate_cells(seed)
        for way, (likelihood, values) in views(x).items():
            judged[way].append(judge_codes(likelihood, values, kind, np.log(x.sum(1)), seed))
    for way, results in judged.items():
        print(way, *(f"{agreement:.3f} {dependence:.2f}" for agreement, dependence in results))
    agreement, dependence = (
        {way: np.mean(results, 0)[k] for way, results in judged.items()} for k in (0, 1)
    )
    assert agreement["counts"] > agreement["median"] - 0.02
    assert agreement["counts"] > agreement["10,000"]
    assert dependence["counts"] < 0.2 < 0.5 < dependence["10,000"]
