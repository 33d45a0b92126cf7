"""Facts special to tGM-VAE, in double precision."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine.distributions import categorical_kl
from untwine.errors import ParameterError
from untwine.models.tgm_vae import log_mean
from untwine.records import Batch

N = 12


def make(data, name="tgm-vae", latent=4, **settings):
    return untwine.build(name, data, network="mlp", width=16, latent=latent, **settings).double()


def batch(data, n=N):
    return Batch(data.take(list(range(0, 700_000, 1000))[:n]).double())


def evaluate(model, data, seed=0):
    torch.manual_seed(seed)
    trace = model.trace(batch(data))
    return trace, model.objective(trace)


@torch.no_grad()
def constant(layer, values):
    """Make a linear layer give these numbers whatever it sees."""
    layer.weight.zero_()
    layer.bias.copy_(torch.tensor(values))


@dataclass
class Given:
    """p(x|w) with a known log-density."""

    log_density: torch.Tensor

    def log_prob(self, x):
        return self.log_density


def test_one_cluster_at_zero_without_outliers_is_the_vae_plus_a_constant(tiny):
    model = make(tiny, clusters=1, alpha=0.05, lambda2=200)
    constant(model.latents.inlier[-1], [1000.0, 0.0])
    torch.nn.init.zeros_(model.latents.means)
    trace, terms = evaluate(model, tiny)
    elbo = trace.px.log_prob(trace.target) - trace.latents["z"].draw.q.kl()
    assert terms["loss"].item() == pytest.approx(10.2586589 - elbo.mean().item(), abs=1e-7)


def test_if_all_are_outliers_the_loss_knows_neither_decoder_nor_means(tiny):
    model = make(tiny)
    constant(model.latents.inlier[-1], [-1000.0, 0.0])
    evaluate(model, tiny)[1]["loss"].backward()
    unused = [*model.decoder.parameters(), model.latents.means]
    assert all(p.grad.abs().max() == 0 for p in unused)
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_certain_cluster_gives_the_kl_to_its_component_alone(tiny):
    model = make(tiny, clusters=3)
    constant(model.latents.inlier[-1], [1000.0, 0.0])
    constant(model.latents.cluster, [0.0, 2000.0, 0.0])
    trace, _ = evaluate(model, tiny)
    q, m = trace.latents["z"].draw.q, model.latents.means[1]
    truth = (q.variance + (q.mean - m).square() - 1 - q.logvar).sum(-1) / 2
    assert torch.allclose(trace.latents["z"].kl, truth)


@pytest.mark.parametrize("per_sample", [False, True])
def test_the_order_of_the_clusters_does_not_matter(tiny, per_sample):
    model, order = make(tiny, clusters=4, per_sample=per_sample), torch.tensor([2, 0, 3, 1])
    torch.nn.init.normal_(model.latents.logits)
    before = evaluate(model, tiny)[1]["loss"]
    latents = model.latents
    for p in (latents.cluster.weight, latents.cluster.bias, latents.means, latents.logits):
        p.data = p.data[order]
    assert torch.allclose(evaluate(model, tiny)[1]["loss"], before)


def test_the_reconstruction_of_an_example_weighs_as_much_as_it_is_an_inlier(tiny):
    model = make(tiny)
    trace, _ = evaluate(model, tiny)
    density = torch.randn(N, dtype=torch.float64, requires_grad=True)
    model.objective(replace(trace, px=Given(density)))["loss"].backward()
    r = 1 - trace.latents["cluster"].draw.mean[:, -1]
    assert torch.allclose(-density.grad, r / N)


def test_the_weights_of_clusters_and_outliers_sum_to_one(tiny):
    weights = evaluate(make(tiny), tiny)[0].latents["cluster"].draw.mean
    assert weights.shape == (N, 11)
    assert torch.allclose(weights.sum(-1), torch.ones(N).double())


@pytest.mark.parametrize(("inlier", "label"), [(2.0, 1), (-2.0, 3)])
def test_assign_gives_the_cluster_or_the_number_of_clusters_for_an_outlier(tiny, inlier, label):
    model = make(tiny, clusters=3)
    constant(model.latents.inlier[-1], [inlier, 0.0])
    constant(model.latents.cluster, [0.0, 5.0, 0.0])
    assert model.assign(batch(tiny).x).tolist() == [label] * N


def test_a_likely_inlier_without_a_clear_cluster_is_still_an_outlier(tiny):
    model = make(tiny, clusters=3)
    constant(model.latents.inlier[-1], [math.log(1.5), 0.0])  # r = 0.6, r c = 0.2 < 0.4
    constant(model.latents.cluster, [0.0, 0.0, 0.0])
    assert model.assign(batch(tiny).x).tolist() == [3] * N


def test_batch_terms_compare_the_means_of_the_batch(tiny):
    model = make(tiny, clusters=3, alpha=0.1)
    torch.nn.init.normal_(model.latents.logits)
    trace, terms = evaluate(model, tiny)
    w, log_pi = trace.latents["cluster"].draw.mean, model.latents.logits.log_softmax(-1)
    r = w[:, :-1].sum(-1, keepdim=True)
    rate = torch.cat([r, 1 - r], -1).mean(0)
    prior = torch.tensor([0.9, 0.1]).double().log()
    assert torch.allclose(terms["clusters"], categorical_kl((w[:, :-1] / r).mean(0).log(), log_pi))
    assert torch.allclose(terms["outliers"], categorical_kl(rate.log(), prior))
    assert torch.allclose(terms["proportions"], -log_pi.sum())


def test_per_sample_terms_are_those_of_the_exact_bound(tiny):
    model = make(tiny, clusters=3, alpha=0.1, per_sample=True)
    trace, terms = evaluate(model, tiny)
    w = trace.latents["cluster"].draw.mean
    r = w[:, :-1].sum(-1)
    c = w[:, :-1] / r[:, None]
    by_cluster = r * (c * (c * 3).log()).sum(-1)
    by_rate = r * (r / 0.9).log() + (1 - r) * ((1 - r) / 0.1).log()
    assert torch.allclose(terms["clusters"], by_cluster.mean())
    assert torch.allclose(terms["outliers"], by_rate.mean())


@given(st.integers(0, 10_000))
def test_the_batch_kl_leaves_out_what_single_assignments_tell(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(9, 5, generator=generator, dtype=torch.float64)
    log_c, log_pi = (3 * scores[1:]).log_softmax(-1), scores[0].log_softmax(-1)
    each = categorical_kl(log_c, log_pi).mean()
    information = categorical_kl(log_c, log_mean(log_c)).mean()
    assert torch.allclose(each, categorical_kl(log_mean(log_c), log_pi) + information)


def test_beta_vae_multiplies_the_divergence_of_z_alone(tiny):
    low, high = (
        evaluate(make(tiny, "tgm-vae+beta-vae", beta=beta), tiny)[1] for beta in (1.0, 3.0)
    )
    assert torch.allclose(high["loss"] - low["loss"], 2 * low["kl"])
    assert {k: v for k, v in low.items() if k != "loss"} == {
        k: v for k, v in high.items() if k != "loss"
    }


@pytest.mark.parametrize("other", ["jigsaw", "denoising", "mixup"])
def test_it_trains_with_corruptions_and_beta(tiny, other):
    model = untwine.build(f"tgm-vae+{other}+beta-vae", tiny, network="mlp", width=16, latent=4)
    history = untwine.fit(model, tiny, steps=5, batch=8, quiet=True)
    assert math.isfinite(history[-1]["loss"])


def test_all_heads_see_the_corrupted_input(tiny, monkeypatch):
    model = make(tiny)
    monkeypatch.setattr(model.corruption, "corrupt", lambda x: (torch.zeros_like(x), x))
    weights = model.trace(batch(tiny)).latents["cluster"].draw.mean
    assert torch.equal(weights, weights[:1].expand_as(weights))
    assert not torch.equal(*model.eval().trace(batch(tiny, 2)).latents["cluster"].draw.mean)


def test_gradients_stay_finite_when_assignments_are_certain(tiny):
    model = make(tiny, clusters=3, per_sample=True).float()
    constant(model.latents.cluster, [0.0, 500.0, 0.0])
    constant(model.latents.inlier[-1], [500.0, 0.0])
    model.objective(model.trace(Batch(batch(tiny).x.float())))["loss"].backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@torch.no_grad()
def test_samples_come_from_the_mixture(tiny):
    model = make(tiny, clusters=2, latent=2)
    model.latents.means.copy_(torch.tensor([[50.0, 0.0], [-50.0, 0.0]]))
    model.latents.logits.copy_(torch.tensor([0.75, 0.25]).log())
    torch.manual_seed(0)
    z = model.latents.sample(20_000, model.encoder)
    right = z[:, 0] > 0
    assert right.double().mean().item() == pytest.approx(0.75, abs=0.02)
    assert z[right].mean(0).tolist() == pytest.approx([50, 0], abs=0.05)
    assert z[right].std(0).tolist() == pytest.approx([1, 1], abs=0.05)


@pytest.mark.parametrize(
    "bad", [{"clusters": 0}, {"alpha": 0.0}, {"alpha": 1.0}, {"lambda2": -1.0}, {"branch": 0}]
)
def test_impossible_numbers_are_refused(tiny, bad):
    with pytest.raises(ParameterError, match=f"tgm-vae.{next(iter(bad))} must"):
        make(tiny, **bad)


@pytest.mark.slow
def test_it_finds_separate_clusters_in_its_best_of_three_runs():
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=3000)
    centres = 4 * rng.standard_normal((3, 10))
    data = untwine.from_arrays(centres[label] + 0.5 * rng.standard_normal((3000, 10)))
    accuracies = []
    for seed in range(3):
        model = untwine.build("tgm-vae", data, latent=3, width=64, clusters=3, seed=seed)
        untwine.fit(model, data, steps=1500, batch=256, lr=1e-3, seed=seed, quiet=True)
        table = np.zeros((4, 3))
        np.add.at(table, (model.assign(data.take(np.arange(3000))).numpy(), label), 1)
        accuracies.append(table.max(1).sum() / 3000)
    assert max(accuracies) > 0.9


def test_every_term_has_its_weight(tiny):
    model = make(tiny, clusters=3, lambda1=2, lambda2=30, dirichlet=0.5)
    expected = {"nll": 1, "kl": 1, "proportions": 0.5, "clusters": 2, "outliers": 30}
    assert model.objective.weights == expected
    with pytest.raises(untwine.IncompatibleError, match="not defined here"):
        model.elbo(tiny.take([0]).double())
