"""The training loop."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import untwine
from untwine import Recipe, Sizes
from untwine.errors import DataError, RunError, UntwineError
from untwine.likelihoods.basic import bernoulli
from untwine.models.factor_vae import DensityRatio
from untwine.networks.mlp import mlp
from untwine.records import Network
from untwine.runs.states import latest_state, save_state
from untwine.train import loss_function, should_compile


def make(data, name="vae", **settings):
    return untwine.build(name, data, latent=3, network="mlp", width=16, **settings)


def test_same_seed_same_result_other_seed_other_result(tiny):
    a, b, c = (
        untwine.fit(make(tiny), tiny, steps=12, batch=8, seed=seed, quiet=True)
        for seed in (1, 1, 2)
    )
    assert a == b and a != c


def test_training_leaves_the_random_numbers_outside_alone(tiny):
    before = torch.get_rng_state()
    untwine.fit(make(tiny), tiny, steps=3, batch=8, quiet=True)
    assert torch.equal(before, torch.get_rng_state())


def test_history_averages_the_steps_since_the_last_row(tiny):
    history = untwine.fit(make(tiny), tiny, steps=25, batch=8, quiet=True)
    assert [row["step"] for row in history] == [10, 20, 25]
    assert all(row["loss"] == pytest.approx(row["nll"] + row["kl"], rel=1e-5) for row in history)


def test_divergence_stops_with_a_sentence_and_is_never_checkpointed(tiny):
    saved = []

    def keep(state):
        saved.extend(v.clone() for k, v in state.pack()[0].items() if k.startswith("model."))

    with pytest.raises(RunError, match=r"NaN or infinite between steps .* lower the learning rate"):
        untwine.fit(
            make(tiny),
            tiny,
            steps=400,
            batch=8,
            lr=1e25,
            checkpoint=keep,
            checkpoint_every=1,
            quiet=True,
        )
    assert all(weights.isfinite().all() for weights in saved)


def test_asking_to_stop_hands_over_the_state_first(tiny):
    seen = []
    with pytest.raises(KeyboardInterrupt):
        untwine.fit(
            make(tiny),
            tiny,
            steps=100,
            batch=8,
            quiet=True,
            checkpoint=lambda state: seen.append(state.step),
            stop=iter([False] * 5 + [True]).__next__,
        )
    assert seen == [5]


def test_losses_are_fetched_only_when_logged(tiny, monkeypatch):
    model = make(tiny)
    fetches = []
    for name in ("item", "tolist", "__float__", "__bool__"):
        original = getattr(torch.Tensor, name)

        def counted(self, *args, original=original, name=name):
            fetches.append(name)
            return original(self, *args)

        monkeypatch.setattr(torch.Tensor, name, counted)
    untwine.fit(model, tiny, steps=40, batch=8, quiet=True)
    rows = 4
    assert len(fetches) <= 4 * rows


@pytest.mark.parametrize("settings", [{}, {"name": "conditional", "on": "shape"}])
def test_compiled_training_agrees_with_plain_training(tiny, settings):
    plain, compiled = make(tiny, **settings), make(tiny, **settings)
    batch = plain.add_labels(tiny).batch(torch.arange(8), torch.tensor(0))
    results = []
    for model, choice in ((plain, False), (compiled, True)):
        torch.manual_seed(0)
        terms, z = loss_function(model.train(), choice)(batch)
        terms["loss"].backward()
        results.append((z.shape, sorted(terms)))
        assert all(p.grad is not None for p in model.parameters())
    assert results[0] == results[1]


def test_a_model_that_cannot_be_compiled_trains_plainly_with_a_warning(tiny, monkeypatch):
    def broken(function, **options):
        def fail(*args):
            raise RuntimeError("no compiler")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    options = {"steps": 10, "batch": 8, "quiet": True}
    with pytest.warns(RuntimeWarning, match="no compiler"):
        slow = untwine.fit(make(tiny), tiny, compile="yes", **options)
    assert slow == untwine.fit(make(tiny), tiny, compile="no", **options)


def test_compiling_is_decided_by_the_run_and_the_device():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert not should_compile(10**15, cpu, "auto") and should_compile(1, cpu, "yes")
    assert should_compile(10**15, gpu, "auto") and not should_compile(10**6, gpu, "auto")
    assert not should_compile(10**15, gpu, "no")


def test_more_examples_in_a_batch_than_there_are_is_refused():
    data = untwine.from_arrays(np.zeros((5, 8, 8)))
    with pytest.raises(DataError, match="choose 1 to 5"):
        untwine.fit(make(data), data, steps=1, batch=6, quiet=True)


def test_vectors_train(tiny):
    rng = np.random.default_rng(0)
    data = untwine.from_arrays(rng.standard_normal((500, 4)))
    model = untwine.build("beta-tcvae", data, latent=2)
    history = untwine.fit(model, data, steps=50, batch=32, lr=1e-3, quiet=True)
    assert math.isfinite(history[-1]["loss"])
    assert model.sample(3).shape == (3, 4)


class Tied(nn.Module):
    """Registers one layer twice, beside a frozen parameter."""

    def __init__(self, size):
        super().__init__()
        self.first = self.second = nn.Linear(size, size)
        self.frozen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, x):
        return self.second(self.first(x.flatten(1)).relu()) + self.frozen


def test_frozen_and_shared_weights_train_and_are_saved(tiny, tmp_path):
    size = tiny.shape.numel()
    network = Network(size, lambda shape: Tied(size), mlp(width=8).decoder)
    model = Recipe().build(Sizes(tiny.shape, latent=2), network, bernoulli())
    saved = []

    def keep(state):
        tensors, values = state.pack()
        saved.append(save_state(tmp_path / "s", state.step, tensors, values))

    untwine.fit(model, tiny, steps=4, batch=8, checkpoint=keep, checkpoint_every=2, quiet=True)
    assert len(saved) == 1 and latest_state(tmp_path / "s", print)


def test_the_second_batch_of_an_adversary_leaves_running_statistics_alone(tiny):
    def encoder(shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(shape.numel(), 4), nn.BatchNorm1d(4))

    statistics = []
    for terms in ({}, {"tc": (0.0, partial(DensityRatio, width=4, depth=1, lr=1e-4))}):
        torch.manual_seed(0)
        network = Network(4, encoder, mlp(width=8).decoder)
        model = Recipe(terms=terms).build(Sizes(tiny.shape, latent=2), network, bernoulli())
        untwine.fit(model, tiny, steps=3, batch=8, quiet=True)
        statistics.append(model.encoder[2].running_mean)
    assert torch.equal(*statistics)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, "at least 1 of steps"),
        ({"epochs": 0}, "at least 1 of epochs"),
        ({}, "steps or epochs; give one"),
        ({"steps": 3, "epochs": 1}, "steps or epochs; give one"),
        ({"steps": 3, "compile": "maybe"}, "compile must be"),
        ({"steps": 3, "patience": 2}, "patience needs held-out data"),
        ({"steps": 3, "validation": 1.5}, "validation must be a share"),
        ({"steps": 3, "validation": "test"}, "fit holds out a share or takes other data"),
        ({"steps": 3, "clip": -1}, "clip must be a number of at least 0"),
        ({"steps": 3, "weight_decay": float("nan")}, "weight_decay must be a number"),
        ({"steps": 3, "warm_up": 1.5}, "warm_up must be a whole number"),
        ({"steps": 3, "optimiser": "rmspropp"}, "did you mean 'rmsprop'"),
        ({"steps": 3, "schedule": "cosin"}, "did you mean 'cosine'"),
    ],
)
def test_impossible_options_are_refused(tiny, options, sentence):
    with pytest.raises(UntwineError, match=sentence):
        untwine.fit(make(tiny), tiny, quiet=True, **options)
