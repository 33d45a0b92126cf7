"""Seeds, devices, threads, and the modes of modules."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._python_dispatch import TorchDispatchMode

from untwine.errors import ParameterError

BYTES_PER_NUMBER = 4


def derive_seed(*numbers: int) -> int:
    """Derive one seed from several numbers; different numbers give unrelated seeds.

    Zeros at the end make no difference.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def limit_threads(count: int) -> Iterator[None]:
    """Compute with this many threads inside a `with` block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Freeze the running statistics of batch norms inside a `with` block."""
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum


def pick_device(name: str) -> torch.device:
    """Return the device of this name, or the best available one for `auto`."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, usable in available.items() if usable))
    kind, _, number = name.partition(":")
    if kind not in available or len(number) > 9:
        raise ParameterError(f"device must be auto, cpu, cuda or mps, not {name[:40]!r}")
    count = torch.cuda.device_count() if kind == "cuda" else int(available[kind])
    if not available[kind] or (number.isdecimal() and int(number) >= count):
        instead = f"{kind}:0 to {kind}:{count - 1}" if count > 1 else "cpu"
        raise ParameterError(f"this machine has no {name} device; use --device {instead}")
    if ":" in name and not number.isdecimal():
        raise ParameterError(f"the number of a device is written {kind}:0, not {name!r}")
    return torch.device(name)


def retain_freed_memory() -> None:
    """Let the C library reuse freed memory in the next step or batch.

    By default glibc returns large blocks to the system after every step and faults them in again
    in the next: thousands of page faults, a quarter of the time. Does nothing on other systems.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        trim_threshold, top_pad, mmap_threshold = -1, -2, -3
        for setting, size in {
            mmap_threshold: 2**30,
            trim_threshold: 2**31 - 1,
            top_pad: 2**27,
        }.items():
            mallopt(setting, size)


RANDOM_FILLS = (torch.ops.aten.uniform_.default, torch.ops.aten.normal_.default)


class AllocationLimit(TorchDispatchMode):
    """Refuse new tensors of more than `most` bytes in all, before memory is taken.

    Around the construction of a model this knows its size whatever its numbers say. Tensors are not
    filled with random numbers, which would take seconds for the largest.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = self.left = most

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch calls this. Its compiler would be loaded only to be told to skip this class."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        sizes = args[0] if args and isinstance(args[0], list | tuple) else ()
        if sizes and all(isinstance(size, int) for size in sizes):
            self.left -= BYTES_PER_NUMBER * math.prod(sizes)
            if self.left < 0:
                raise ParameterError(
                    f"the model would take more than {self.most:,} bytes; make it smaller"
                )
        if func in RANDOM_FILLS:
            return args[0]
        return func(*args, **(kwargs or {}))


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode for the duration of a `with` block."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed the random numbers inside a `with` block and restore them after it.

    `None` leaves them alone, so that the block draws from the stream outside.
    """
    if seed is None:
        yield
        return
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:  # which does the same, without a note for every device that is not there
            torch.default_generator.manual_seed(seed)
        yield
