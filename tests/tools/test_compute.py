"""Seeds, devices, threads, and the modes of modules."""

import pytest
import torch
from torch import nn

from untwine.errors import ParameterError
from untwine.tools.compute import (
    AllocationLimit,
    derive_seed,
    eval_mode,
    frozen_statistics,
    limit_threads,
    pick_device,
    seeded,
)


@pytest.mark.parametrize("name", ["tpu", "gpu", ""])
def test_unknown_devices_are_refused(name):
    with pytest.raises(ParameterError, match="auto, cpu, cuda or mps"):
        pick_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_absent_devices_are_refused():
    with pytest.raises(ParameterError, match="no cuda device"):
        pick_device("cuda")


@pytest.mark.parametrize("name", ["cpu:7", "cpu:1", "cpu:x", "cpu:"])
def test_devices_of_a_number_that_is_not_there_are_refused(name):
    with pytest.raises(ParameterError, match=r"no cpu:. device; use --device cpu|written cpu:0"):
        pick_device(name)
    assert pick_device("cpu:0").type == pick_device("cpu").type == "cpu"


def test_derived_seeds_depend_on_every_number_and_their_order():
    seeds = [derive_seed(0, 1), derive_seed(1, 0), derive_seed(0, 2), derive_seed(0, 1, 3)]
    assert len(set(seeds)) == 4 and all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(0, 1) == seeds[0]


def test_seeded_repeats_and_leaves_the_stream_outside_alone():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first = torch.rand(1)
    with seeded(1):
        a = torch.rand(3)
    with seeded(1):
        assert torch.equal(torch.rand(3), a)
    assert torch.equal(torch.cat([first, torch.rand(1)]), expected)


def test_without_a_seed_the_stream_outside_is_used():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    with seeded(None):
        assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize("training", [True, False])
def test_eval_mode_is_undone_even_after_an_error(training):
    module = nn.Dropout().train(training)
    with pytest.raises(ZeroDivisionError), eval_mode(module):
        assert not module.training
        1 / 0  # noqa: B018
    assert module.training == training


def test_threads_are_limited_inside_a_block_only():
    before = torch.get_num_threads()
    with limit_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_frozen_statistics_do_not_move():
    norm = nn.BatchNorm1d(2)
    x = torch.randn(8, 2) + 3
    with frozen_statistics(norm):
        norm(x)
    assert not norm.running_mean.any() and norm.momentum == 0.1
    norm(x)
    assert norm.running_mean.any()


def test_a_model_is_counted_before_its_weights_are_drawn():
    before = torch.get_rng_state()
    with AllocationLimit(10**6):
        torch.nn.Linear(100, 100)
        with pytest.raises(ParameterError, match="more than 1,000,000 bytes"):
            torch.nn.Linear(1_000, 1_000)
    assert torch.equal(before, torch.get_rng_state())
