"""How many threads a training takes, and that they sleep while the machine is busy."""

import threading

import pytest
import torch

import untwine
from untwine.tools import threads
from untwine.tools.compute import limit_threads


@pytest.mark.parametrize(
    ("network", "batch", "expected"),
    [("mlp(width=128)", 64, 1), ("mlp(width=128)", 4096, 2), ("conv", 1, 2)],
)
def test_small_dense_networks_take_one_thread(network, batch, expected):
    model = untwine.build("vae", untwine.dataset("sprites", size=16), network=network)
    with limit_threads(2):
        assert threads.pick_threads(model, batch) == expected


def test_waiting_threads_sleep_while_the_machine_is_busy(monkeypatch):
    clock, switches = [1.0], [0]
    monkeypatch.setattr(threads.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(threads, "involuntary_switches", lambda: switches[0])
    monkeypatch.setattr(threads.sys, "platform", "linux")

    def pass_a_second(more):
        clock[0] += 1
        switches[0] += more
        watch()
        return threading.active_count() > before

    before = threading.active_count()
    with limit_threads(2), threads.sleep_when_busy() as watch:
        watch()
        assert [pass_a_second(more) for more in (10, 1000, 1000)] == [False, True, True]
        pass_a_second(10)
        for thread in set(threading.enumerate()) - {threading.main_thread()}:
            thread.join(0.5)
        assert threading.active_count() <= before
        assert pass_a_second(1000)
    assert watch.end is None, "at the end nothing is left behind"


def test_one_thread_is_not_watched():
    with limit_threads(1), threads.sleep_when_busy() as watch:
        assert not isinstance(watch, threads._Watch)


def test_sleeping_changes_no_bit(monkeypatch):
    def train():
        data = untwine.dataset("sprites", size=16)
        model = untwine.build("vae", data, network="conv")
        with limit_threads(2):
            untwine.fit(model, data, steps=8, quiet=True)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    plain = train()
    monkeypatch.setattr(threads, "SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(threads, "BUSY_SWITCHES", -1.0)
    assert torch.equal(train(), plain)
