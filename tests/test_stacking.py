"""Several seeds at once: every bit as it would be alone, or a refusal that leaves all as it was."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

import untwine
from untwine import recording, stacking
from untwine.recording import Unlike
from untwine.registry import models
from untwine.stacking import Stack, stacked
from untwine.train import fit, loop

SEEDS = (3, 5, 6)
UNLIKE = {  # and why
    "dd-sparse": "multinomial",
    "factor-vae": "adversary",
    "mixup": "dirichlet",
}
LONG = {"sylvester"}  # to record
NAMES = [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in sorted(models)]


def build(name, data, **settings):
    numbers = {"latent": 4, "network": "mlp-toy", **settings}
    return [untwine.build(name, data, seed=seed, **numbers) for seed in SEEDS]


def stack_of(made, data, batch=24, **numbers):
    return stacked(made, data, SEEDS, batch=batch, lr=3e-3, **numbers)


def require_as_alone(made, data, steps=25, batch=24):
    """Train the models at once and copies of them one by one; nothing may differ."""
    alone = deepcopy(made)
    stack = stack_of(made, data, batch)
    loop(stack, steps)
    for seed, single, state in zip(SEEDS, alone, stack.states, strict=True):
        history = fit(single, data, steps=steps, batch=batch, lr=3e-3, seed=seed, quiet=True)
        assert history == state.history
        for name, value in single.state_dict().items():
            assert torch.equal(value, state.model.state_dict()[name]), name
    return stack


@pytest.mark.parametrize("name", NAMES)
def test_every_model_ends_as_alone_or_is_refused(name):
    data = untwine.dataset("digits" if name == "jigsaw" else "circle")
    made = build(name, data)
    if name in UNLIKE:
        with pytest.raises(Unlike, match=UNLIKE[name]):
            stack_of(made, data)
        return
    require_as_alone(made, data)


@pytest.mark.parametrize("batch", [7, 64, 100])
def test_batches_of_any_size(batch):
    data = untwine.dataset("circle")
    require_as_alone(build("vae", data, latent=2), data, batch=batch)


@pytest.mark.parametrize(
    ("model", "network", "data"),
    [
        ("vae", "mlp", "sprites(size=16)"),
        ("nested-vae", "mlp", "grouped(of=digits, by=digit, members=4)"),
        ("iwae", "mlp-gated", "digits"),
    ],
)
def test_other_networks_and_data(model, network, data):
    data = untwine.dataset(data)
    require_as_alone(build(model, data, network=network), data, steps=12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vae", "beta-tcvae", "intel-clusters", "gm-vae", "vsc", "ug-vae"])
@pytest.mark.parametrize(("data", "batch"), [("circle", 30), ("digits", 64)])
def test_a_long_training_ends_as_alone(name, data, batch):
    """What differs once in a million values would show here."""
    data = untwine.dataset(data)
    require_as_alone(build(name, data), data, steps=4000, batch=batch)


def test_compositions_are_stacked_too():
    data = untwine.dataset("digits")
    require_as_alone(build("dip-vae-i+intel-sparse", data), data)


def test_what_is_refused_is_left_as_it_was():
    data = untwine.dataset("circle")
    made = build("dd-sparse", data)
    before = [deepcopy(model.state_dict()) for model in made]
    state = torch.get_rng_state()
    with pytest.raises(Unlike):
        stack_of(made, data)
    assert torch.equal(state, torch.get_rng_state())
    for model, old in zip(made, before, strict=True):
        assert all(torch.equal(value, old[name]) for name, value in model.state_dict().items())


def test_setting_up_trains_nothing_and_draws_nothing():
    data = untwine.dataset("circle")
    made = build("vae", data)
    before, state = deepcopy(made), torch.get_rng_state()
    stack = stack_of(made, data)
    assert torch.equal(state, torch.get_rng_state()) and stack.states[0].step == 0
    for model, old in zip(made, before, strict=True):
        pairs = zip(model.parameters(), old.parameters(), strict=True)
        assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_a_stack_goes_on_from_what_it_packed():
    data = untwine.dataset("circle")
    whole = stack_of(build("vae", data), data)
    loop(whole, 30)
    first = stack_of(build("vae", data), data)
    kept = []
    with pytest.raises(KeyboardInterrupt):
        loop(
            first,
            30,
            checkpoint=lambda state: kept.append(deepcopy(state.pack())),
            stop=lambda: first.states[0].step == 17,
        )
    second = stack_of(build("vae", data), data, resume=kept)
    loop(second, 30)
    for one, other in zip(whole.states, second.states, strict=True):
        assert one.history == other.history
        stacking.require_same_bits(one, other)


def test_running_statistics_buffers_and_idle_weights_are_refused():
    data = untwine.dataset("circle")
    made = build("vae", data)
    made[0].register_buffer("own", torch.zeros(1))
    made[1].register_buffer("own", torch.ones(1))
    made[2].register_buffer("own", torch.ones(1))
    with pytest.raises(Unlike, match="buffers"):
        stack_of(made, data)
    made = build("vae", data)
    for model in made:
        model.idle = nn.Linear(1, 1)
    with pytest.raises(Unlike, match="recorded"):
        stack_of(made, data)
    for model in made:
        model.idle.requires_grad_(False)
    with pytest.raises(Unlike, match="not trained"):
        stack_of(made, data)
    for model in made:
        model.idle = nn.BatchNorm1d(3)
    with pytest.raises(Unlike, match="statistics"):
        stack_of(made, data)


def test_shapes_that_depend_on_values_are_refused():
    data = untwine.dataset("grouped(of=digits, by=digit, members=4)")
    with pytest.raises(Unlike, match="depends on values"):
        stack_of(build("ml-vae", data), data)


def test_a_way_that_rounds_otherwise_is_not_gone(monkeypatch):
    """A rule with the right values and the wrong bits costs speed and nothing else."""
    addmm = torch.ops.aten.addmm.default
    seen = []

    def precise(bias, a, b):
        seen.append(1)
        return torch.baddbmm(bias[:, None].double(), a.double(), b.double()).float()

    monkeypatch.setitem(recording.RULES, addmm, precise)
    data = untwine.dataset("circle")
    stack = require_as_alone(build("vae", data), data)
    left = [ways for node, ways in stack.recording.ways.items() if node.target is addmm]
    assert seen and all(stack.recording.by_rule not in ways for ways in left)


def test_a_difference_that_no_operation_showed_is_found(monkeypatch):
    """The steps that are taken both ways catch what a recording does not hold."""
    advance = Stack.advance

    def inexact(self):
        advance(self)
        self.weights[0].mul_(1 + 2**-23)

    monkeypatch.setattr(Stack, "advance", inexact)
    data = untwine.dataset("circle")
    with pytest.raises(Unlike, match="is not the same after"):
        stack_of(build("vae", data), data)


@pytest.mark.parametrize("components", [5, 7])
def test_a_term_whose_time_comes_late(components):
    """Its gradients are zero at first, which says nothing about how they are rounded later."""
    data = untwine.dataset("circle")
    made = build("vamp-prior", data, latent=3, components=components)
    for model in made:
        model.objective.weights["kl"] = lambda step: (step >= 40).float()
    require_as_alone(made, data, steps=200, batch=64)


def test_data_that_draws_noise_is_refused_and_no_numbers_are_lost():
    data = untwine.dataset("circle")
    noisy = replace(data, source=Noisy(data.source))
    state = torch.get_rng_state()
    with pytest.raises(Unlike):
        stack_of(build("vae", data), noisy)
    assert torch.equal(state, torch.get_rng_state())


class Noisy:
    """A source whose examples are drawn with noise."""

    def __init__(self, source):
        self.source, self.shape = source, source.shape

    def __len__(self):
        return len(self.source)

    def take(self, index):
        taken = self.source.take(index)
        return taken + torch.randn_like(taken)


@pytest.mark.parametrize(("batch", "apart"), [(64, False), (50, True)])
def test_tails_of_vectors_are_done_per_seed(batch, apart):
    data = untwine.dataset("circle")
    recording = stack_of(build("vae", data), data, batch=batch).recording
    of_exp = [node for node in recording.differing if node.target is torch.ops.aten.exp.default]
    ways = [recording.ways[node][0] for node in of_exp]
    assert ways and all((way == recording.by_seed) == apart for way in ways)
