"""Threads of torch: how many pay off, and what they do while they wait on a busy machine."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

SMALL_STEP = 1e8
"""Floating-point operations of a step of a dense network below which one thread is enough."""
SECONDS_BETWEEN_LOOKS = 0.5
BUSY_SWITCHES = 100
"""Involuntary context switches a second of a process whose cores others want too."""


def pick_threads(model: nn.Module, batch: int) -> int:
    """The number of threads for training a model: one for a small dense network, else all.

    It follows from the model and the batch alone, so that a repeated run rounds alike.
    """
    convolutional = any(isinstance(m, nn.modules.conv._ConvNd) for m in model.modules())
    operations = 6 * batch * sum(p.numel() for p in model.parameters())
    return 1 if not convolutional and operations < SMALL_STEP else torch.get_num_threads()


@contextmanager
def sleep_when_busy() -> Iterator[Callable[[], None]]:
    """Let waiting threads sleep while other processes want the cores; call what it yields often.

    The OpenMP library of torch spins at every barrier before it sleeps. On a quiet machine this is
    fastest. On a busy one the thread it waits for has lost its core, and spinning keeps it away.
    The library hardly spins while it manages more threads than there are cores, so other threads
    with teams of their own, which do nothing, make it sleep. Rounding does not depend on this.
    Does nothing with one thread, or on systems other than Linux.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not sys.platform.startswith("linux"):
        yield lambda: None
        return
    watch = _Watch(helpers=(os.cpu_count() or 1) // threads)
    try:
        yield watch
    finally:
        watch.spin()


class _Watch:
    """Looks twice a second at how often the process has lost a core."""

    def __init__(self, helpers: int) -> None:
        self.helpers = max(1, helpers)
        self.end: threading.Event | None = None  # of the helpers, while there are any
        self.next_look, self.last = 0.0, (0.0, 0)

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self.next_look:
            return
        self.next_look = now + SECONDS_BETWEEN_LOOKS
        (before, switches), self.last = self.last, (now, involuntary_switches())
        if not before:  # the first look
            return
        is_busy = (self.last[1] - switches) / (now - before) > BUSY_SWITCHES
        if is_busy and not self.end:
            self.sleep()
        elif not is_busy:
            self.spin()

    def sleep(self) -> None:
        self.end = threading.Event()
        for _ in range(self.helpers):
            threading.Thread(target=_own_a_team, args=(self.end,), daemon=True).start()

    def spin(self) -> None:
        if self.end:
            self.end.set()
            self.end = None


def _own_a_team(end: threading.Event) -> None:
    torch.ones(10**6).add_(1)  # large enough for all threads: from here on they are this one's team
    end.wait()


def involuntary_switches() -> int:
    """How often the threads of this process had to leave a core to others."""
    import resource  # Unix only

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
