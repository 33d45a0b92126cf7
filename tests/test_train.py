"""The training loop."""

import math

import numpy as np
import pytest
import torch

import untwine
from untwine.errors import DataError, ParameterError, RunError
from untwine.train import compile_pays, loss_function, pick_device


def make(data, **settings):
    return untwine.build("vae", data, latent=3, network="mlp", width=16, **settings)


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


def test_compiled_training_agrees_with_plain_training(tiny):
    plain, compiled = make(tiny), make(tiny)
    x, step = tiny.take(list(range(8))), torch.zeros((), dtype=torch.long)
    results = []
    for model, choice in ((plain, False), (compiled, True)):
        torch.manual_seed(0)
        terms, z = loss_function(model.train(), choice)(x, None, step)
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
    assert not compile_pays(10**15, cpu, "auto") and compile_pays(1, cpu, "yes")
    assert compile_pays(10**15, gpu, "auto") and not compile_pays(10**6, gpu, "auto")
    assert not compile_pays(10**15, gpu, "no")


@pytest.mark.parametrize("name", ["tpu", "gpu", ""])
def test_unknown_devices_are_refused(name):
    with pytest.raises(ParameterError, match="auto, cpu, cuda or mps"):
        pick_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_absent_devices_are_refused():
    with pytest.raises(ParameterError, match="no cuda device"):
        pick_device("cuda")


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
