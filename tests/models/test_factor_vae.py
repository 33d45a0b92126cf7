"""Facts special to FactorVAE."""

import math
import sys
from types import SimpleNamespace

import pytest
import torch

import untwine
from untwine.models.factor_vae import DensityRatio, permute_dims
from untwine.records import Batch, Sizes

SHALLOW = {"factor-vae.depth": 1}


def term(latent=2):
    return DensityRatio(Sizes(torch.Size((1, 8, 8)), latent=latent), 16, 2, 1e-4)


def test_no_weight_is_the_vae_bit_for_bit(tiny):
    factor = untwine.build("factor-vae", tiny, network="mlp", gamma=0, **SHALLOW)
    plain = untwine.build("vae", tiny, network="mlp")
    plain.load_state_dict({k: v for k, v in factor.state_dict().items() if "tc" not in k})
    options = {"steps": 4, "batch": 8, "quiet": True}
    a, b = (untwine.fit(model, tiny, **options)[0] for model in (factor, plain))
    assert (a["nll"], a["kl"]) == (b["nll"], b["kl"])
    for name, value in plain.state_dict().items():
        assert torch.equal(value, factor.state_dict()[name])


def test_permuting_shuffles_each_latent_on_its_own():
    z = torch.arange(40.0).view(10, 4)
    shuffled = permute_dims(z)
    assert torch.equal(shuffled.sort(0).values, z)
    assert not torch.equal(shuffled, z)
    columns = (shuffled - torch.arange(4)) / 4
    assert not torch.equal(columns[:, 0], columns[:, 1])


def test_true_log_densities_give_the_total_correlation():
    """A bivariate normal with correlation 0.6 has TC = −½ log(1 − 0.36) = 0.22314."""
    rho = 0.6
    covariance = torch.tensor([[1, rho], [rho, 1]]).double()
    joint = torch.distributions.MultivariateNormal(torch.zeros(2).double(), covariance)
    torch.manual_seed(0)
    z = joint.sample((400_000,))
    alone = torch.distributions.Normal(0.0, 1.0)
    ratio = term()
    ratio.net.forward = lambda z: torch.stack([joint.log_prob(z), alone.log_prob(z).sum(-1)], -1)
    assert ratio(SimpleNamespace(z=z)).mean().item() == pytest.approx(
        -math.log(1 - rho**2) / 2, abs=0.005
    )


def test_the_classifier_has_six_hidden_layers_of_a_thousand(tiny):
    ratio = untwine.build("factor-vae", tiny, network="mlp").objective.terms["tc"]
    widths = [m.out_features for m in ratio.net if isinstance(m, torch.nn.Linear)]
    assert widths == [1000] * 6 + [2]
    assert ratio.betas == (0.5, 0.9) and ratio.lr == 1e-4


def test_the_second_batch_is_another_one(tiny, monkeypatch):
    seen = []
    take = type(tiny.source).take
    monkeypatch.setattr(
        type(tiny.source),
        "take",
        lambda self, index: seen.append(index.clone()) or take(self, index),
    )
    model = untwine.build("factor-vae", tiny, network="mlp", **SHALLOW)
    model.card = None  # its latents are profiled after the last step
    untwine.fit(model, tiny, steps=3, batch=8, quiet=True)
    batches = [index for index in seen if len(index) == 8]
    assert len(batches) == 6
    assert all(not torch.equal(a, b) for a, b in zip(batches[::2], batches[1::2], strict=True))


def test_a_single_example_cannot_be_permuted():
    with pytest.raises(untwine.IncompatibleError, match="batch of at least 2"):
        term().adversary_loss(torch.randn(1, 2), torch.randn(1, 2))


@pytest.mark.parametrize("settings", [{"width": 0}, {"depth": 0}, {"adversary_lr": 0}])
def test_impossible_numbers_are_refused(tiny, settings):
    named = {f"factor-vae.{key}": value for key, value in settings.items()}
    with pytest.raises(untwine.ParameterError, match="factor-vae"):
        untwine.build("factor-vae", tiny, **named)


def test_the_whole_loss_written_out(tiny):
    model = untwine.build("factor-vae", tiny, network="mlp", gamma=5, **SHALLOW).double()
    trace = model.trace(Batch(tiny.take(list(range(8))).double()))
    terms = model.objective(trace)
    logits = model.objective.terms["tc"].net(trace.z)
    expected = terms["nll"] + terms["kl"] + 5 * (logits[:, 0] - logits[:, 1]).mean()
    assert torch.allclose(terms["loss"], expected)


def test_the_adversary_calls_codes_class_zero_and_permuted_codes_class_one(monkeypatch):
    ratio = term()
    z, other = torch.randn(6, 2), torch.randn(6, 2)
    module = sys.modules[DensityRatio.__module__]
    monkeypatch.setattr(module, "permute_dims", lambda z: z.flip(0) + 1)
    real, fake = ratio.net(z).log_softmax(-1), ratio.net(other.flip(0) + 1).log_softmax(-1)
    expected = -(real[:, 0].mean() + fake[:, 1].mean()) / 2
    assert torch.allclose(ratio.adversary_loss(z, other), expected)


def test_the_adversary_receives_codes_of_two_batches_without_gradient(tiny, monkeypatch):
    seen = []
    loss = DensityRatio.adversary_loss

    def recorded(self, z, other):
        seen.append((z, other))
        return loss(self, z, other)

    model = untwine.build("factor-vae", tiny, network="mlp", **SHALLOW)
    monkeypatch.setattr(DensityRatio, "adversary_loss", recorded)
    untwine.fit(model, tiny, steps=3, batch=8, quiet=True)
    assert len(seen) == 3
    for z, other in seen:
        assert not torch.equal(z, other) and not z.requires_grad and not other.requires_grad


@pytest.mark.slow
def test_one_latent_cannot_be_told_from_its_permutation():
    """Joint and permuted codes have one law, so the best loss is log 2."""
    torch.manual_seed(0)
    ratio = DensityRatio(Sizes(torch.Size((1, 8, 8)), latent=1), 64, 2, 1e-3)
    optimiser = torch.optim.Adam(ratio.parameters(), 1e-3)
    losses = []
    for _ in range(1500):
        z, other = torch.randn(2, 256, 1)
        optimiser.zero_grad()
        loss = ratio.adversary_loss(z, other)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-300:]) / 300 == pytest.approx(math.log(2), abs=0.01)
