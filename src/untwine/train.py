"""Training: one visible loop."""

from __future__ import annotations

import ctypes
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.optim import Adam

from untwine.data import Dataset, mix
from untwine.errors import ParameterError, RunError
from untwine.parts.nets import frozen_statistics
from untwine.progress import progress
from untwine.records import Batch
from untwine.store import Packed
from untwine.vae import VAE, forked

Row = dict[str, float]
Losses = Callable[[Tensor, Tensor | None, Tensor], tuple[dict[str, Tensor], Tensor]]
Compile = Literal["auto", "yes", "no"]

COMPILE_PAYS = 2e10
"""Pixels seen in a run on a GPU above which compiling is worth its half minute."""


class State:
    """All that training needs to go on exactly where it stopped."""

    def __init__(
        self, model: VAE, lr: float, generator: torch.Generator = torch.default_generator
    ) -> None:
        self.model, self.generator = model, generator
        self.adversaries = model.objective.adversaries()
        owned = {id(p) for adversary in self.adversaries for p in adversary.parameters()}
        self.parameters = [p for p in model.parameters() if p.requires_grad and id(p) not in owned]
        fused = next(model.parameters()).device.type in {"cpu", "cuda"}
        self.main = Adam(self.parameters, lr, fused=fused)
        self.rivals = [
            Adam(a.parameters(), a.lr, betas=a.betas, fused=fused) for a in self.adversaries
        ]
        self.step = 0
        self.history: list[Row] = []
        self.names = ["loss", *model.objective.terms]
        place = self.parameters[0].device
        self.clock = torch.zeros((), dtype=torch.long, device=place)  # the step, for what anneals
        self.pending = torch.zeros(len(self.names), device=place)
        self.pending_steps = 0

    def step_adversaries(self, z: Tensor, other: Tensor) -> None:
        """One step of each adversary on detached codes of this batch and of an independent one."""
        for adversary, optimiser in zip(self.adversaries, self.rivals, strict=True):
            optimiser.zero_grad(set_to_none=True)
            adversary.adversary_loss(z, other).backward()
            optimiser.step()

    def record(self, terms: dict[str, Tensor]) -> None:
        """Add the terms of a step to the row in the making, without waiting for them."""
        self.pending += torch.stack([terms[name].detach() for name in self.names])
        self.count()

    def count(self) -> None:
        """One step more."""
        self.clock += 1
        self.pending_steps += 1
        self.step += 1

    def close_row(self) -> Row:
        """Append the mean of the terms since the last row to the history."""
        self.require_finite()
        means = (self.pending / self.pending_steps).tolist()
        row = {"step": self.step, **dict(zip(self.names, means, strict=True))}
        self.history.append(row)
        self.pending.zero_()
        self.pending_steps = 0
        return row

    def require_finite(self) -> None:
        """Stop at the first sign of NaN or infinity in the terms or the weights."""
        whole = torch.stack([p.isfinite().all() for p in self.parameters]).all()
        *finite, weights = torch.cat([self.pending.isfinite(), whole[None]]).tolist()
        if all(finite) and weights:
            return
        bad = [name for name, good in zip(self.names, finite, strict=True) if not good]
        first = self.step - self.pending_steps + 1
        what = f"{' and '.join(bad)} became NaN or infinite" if bad else "the weights diverged"
        raise RunError(
            f"training stopped: {what} between steps {first} and {self.step}; "
            "lower the learning rate or the weights of the terms"
        )

    def optimisers(self) -> list[Adam]:
        return [self.main, *self.rivals]

    def pack(self) -> Packed:
        """Everything as named tensors and as JSON."""
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for i, optimiser in enumerate(self.optimisers()):
            for p, values in optimiser.state_dict()["state"].items():
                tensors |= {f"optimiser.{i}.{p}.{k}": v for k, v in values.items()}
        tensors["pending"] = self.pending
        tensors["rng.cpu"] = self.generator.get_state()
        if self.pending.device.type != "cpu":
            tensors["rng.device"] = torch.get_device_module(self.pending.device).get_rng_state()
        facts = {
            "step": self.step,
            "pending_steps": self.pending_steps,
            "history": self.history,
        }
        return tensors, facts

    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Take up what `pack` gave; the random numbers go on where they were."""
        groups: list[dict[int, dict[str, Tensor]]] = [{} for _ in self.optimisers()]
        weights: dict[str, Tensor] = {}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = value
            elif kind == "optimiser":
                i, p, key = rest.split(".")
                groups[int(i)].setdefault(int(p), {})[key] = value
        self.model.load_state_dict(weights)
        for optimiser, state in zip(self.optimisers(), groups, strict=True):
            fresh = optimiser.state_dict()
            optimiser.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
            for p, values in optimiser.state.items():  # fused Adam wants one memory layout
                for key in ("exp_avg", "exp_avg_sq"):
                    values[key] = torch.empty_like(p).copy_(values[key])
        self.pending.copy_(tensors["pending"])
        self.generator.set_state(tensors["rng.cpu"].cpu())
        if "rng.device" in tensors:
            torch.get_device_module(self.pending.device).set_rng_state(tensors["rng.device"].cpu())
        self.step, self.pending_steps = facts["step"], facts["pending_steps"]
        self.clock.fill_(self.step)
        self.history = list(facts["history"])


def fit(
    model: VAE,
    data: Dataset,
    *,
    steps: int,
    batch: int = 64,
    lr: float = 1e-4,
    seed: int = 0,
    device: str = "auto",
    compile: Compile = "auto",
    resume: Packed | None = None,
    checkpoint: Callable[[State], None] | None = None,
    checkpoint_every: int = 1000,
    stop: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> list[Row]:
    """Train a model on data with Adam; the history of its terms comes back.

    On Linux the C library is told to keep freed memory, for this process as a whole.

    Args:
        model: changed in place, and left on the device.
        data: what to train on.
        steps: optimiser steps.
        batch: examples per step.
        lr: learning rate.
        seed: of the order of the data and of all noise.
        device: `cpu`, `cuda`, `mps`, or `auto` for the best there is.
        compile: whether to compile the model; `auto` does for long runs on a GPU.
        resume: what `State.pack` gave, to go on from there.
        checkpoint: called with the state every `checkpoint_every` steps and when stopped.
        checkpoint_every: steps between two calls.
        stop: asked before every step; once true, the state is given to `checkpoint` and
            `KeyboardInterrupt` is raised.
        quiet: no progress bar.

    >>> import untwine
    >>> data = untwine.dataset("sprites", size=16)
    >>> model = untwine.build("vae", data)
    >>> untwine.fit(model, data, steps=20, quiet=True)[-1]["step"]
    20
    """
    place = pick_device(device)
    if steps < 1 or compile not in ("auto", "yes", "no"):
        raise ParameterError(
            "fit needs steps of at least 1 and compile 'auto', 'yes' or 'no', "
            f"not {steps} and {compile!r}"
        )
    keep_memory()
    model.to(place)
    compiled = compile_pays(steps * batch * data.shape.numel(), place, compile)
    with forked(seed), progress(steps, "training", quiet=quiet) as show:
        work = Single(model, data.to(place), batch=batch, lr=lr, seed=seed, compiled=compiled)
        if resume:
            work.state.unpack(*resume)
        loop(
            work,
            steps,
            show=lambda step, row, rate: show(step, describe(row, rate * batch)),
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            stop=stop,
        )
    return work.state.history


class Steps(Protocol):
    """One model, or several that take their steps together."""

    @property
    def states(self) -> Sequence[State]: ...

    def advance(self) -> None:
        """One step of every model, which its state has counted afterwards."""
        ...


def loop(
    work: Steps,
    steps: int,
    *,
    show: Callable[[int, Row, float], None] = lambda step, row, rate: None,
    checkpoint: Callable[[State], None] | None = None,
    checkpoint_every: int = 1000,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Take steps until there are so many.

    Args:
        work: what takes the steps.
        steps: all of them, those before an interruption included.
        show: told the step, the newest row of the first model and steps per second.
        checkpoint: see `fit`, and so the rest.
    """
    first, began = work.states[0], time.monotonic()
    start, log_every = first.step, max(10, steps // 200)

    def keep() -> None:
        if checkpoint:
            for state in work.states:
                state.require_finite()
            for state in work.states:
                checkpoint(state)

    while first.step < steps:
        if stop():
            keep()
            raise KeyboardInterrupt
        work.advance()
        if first.step % log_every == 0 or first.step == steps:
            rows = [state.close_row() for state in work.states]
            show(first.step, rows[0], (first.step - start) / (time.monotonic() - began))
        if first.step % checkpoint_every == 0 and first.step < steps:
            keep()


class Single:
    """One model on its own; its noise comes from the generator of the process."""

    def __init__(
        self, model: VAE, data: Dataset, *, batch: int, lr: float, seed: int, compiled: bool = False
    ) -> None:
        self.model, self.data, self.seed = model.train(), data, seed
        self.state = State(model, lr)
        self.states = [self.state]
        place = self.state.clock.device
        self.order = data.batches(batch, mix(seed, 0), place)
        self.second = data.batches(batch, mix(seed, 1), place)
        self.losses = loss_function(model, compiled)

    def advance(self) -> None:
        state = self.state
        given = self.data.batch(self.order.at(state.step), state.clock)
        terms, z = self.losses(given.x, given.group, given.step)
        state.main.zero_grad(set_to_none=True)
        terms["loss"].backward(inputs=state.parameters)
        state.main.step()
        if state.adversaries:
            with forked(mix(self.seed, 2, state.step)):  # draws nothing from the model's stream
                another = self.data.batch(self.second.at(state.step), state.clock)
                state.step_adversaries(z, independent_codes(self.model, another))
        state.record(terms)


@torch.no_grad()
def independent_codes(model: VAE, batch: Batch) -> Tensor:
    """(B, D) codes of another batch; running statistics stay as they are."""
    with frozen_statistics(model):
        return model.infer(batch)[2]


def describe(row: Row, rate: float) -> str:
    """One row as a short text: `loss 85.1  nll 67.2  kl 12.9  3,120 images/s`."""
    terms = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name != "step")
    return f"{terms}  {rate:,.0f} images/s"


def pick_device(name: str) -> torch.device:
    """The device of this name, or the best there is for `auto`."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    if name.partition(":")[0] not in available:
        raise ParameterError(f"device must be auto, cpu, cuda or mps, not {name!r}")
    if not available[name.partition(":")[0]]:
        raise ParameterError(f"there is no {name} device on this machine; use --device cpu")
    return torch.device(name)


def compile_pays(pixels: int, device: torch.device, choice: Compile) -> bool:
    """Whether to compile, for a run that sees so many pixels.

    Never decided by a clock, so that the same run decides alike each time. On a CPU compiling gains
    little or nothing (`benchmarks/train.py`), so it is done there only when asked for.
    """
    if choice != "auto":
        return choice == "yes"
    return device.type == "cuda" and pixels >= COMPILE_PAYS


def loss_function(model: VAE, compiled: bool) -> Losses:
    """The terms of a batch and its detached codes."""

    def losses(x: Tensor, group: Tensor | None, step: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        trace = model.trace(Batch(x, group, step))
        return model.objective(trace), trace.z.detach()

    return _compiled(losses) if compiled else losses


def _compiled(losses: Losses) -> Losses:
    """The compiled function, or the plain one with a warning where it cannot be compiled."""
    chosen = fast = torch.compile(losses, dynamic=False)

    def attempt(x: Tensor, group: Tensor | None, step: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        nonlocal chosen
        before = torch.get_rng_state()
        try:
            return chosen(x, group, step)
        except Exception as error:  # an error of the model itself comes again below
            if chosen is not fast:
                raise
            torch.set_rng_state(before)
            chosen = losses
            result = losses(x, group, step)
            warnings.warn(f"not compiled, which is slower: {error}", RuntimeWarning, stacklevel=2)
            return result

    return attempt


def keep_memory() -> None:
    """Tell the C library to keep freed memory for the next step, or the next batch to encode.

    glibc gives large blocks back to the system after every step and faults them in again in the
    next: thousands of page faults a step, a quarter of the time. Does nothing elsewhere.
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
