"""Training: one visible loop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.optim import Adam

from untwine.data.dataset import Dataset
from untwine.errors import ParameterError, RunError
from untwine.latents import profile_latents
from untwine.records import Batch
from untwine.tools.compute import (
    derive_seed,
    frozen_statistics,
    pick_device,
    retain_freed_memory,
    seeded,
)
from untwine.tools.progress import progress
from untwine.vae import VAE

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, float]
PackedState = tuple[dict[str, Tensor], dict[str, Any]]  # a training state as tensors and as JSON
Losses = Callable[[Batch], tuple[dict[str, Tensor], Tensor]]
Compile = Literal["auto", "yes", "no"]
MIN_PIXELS_TO_COMPILE = 2e10
"""Pixels that a run on a GPU must see before compiling repays its half minute."""


class History(list[Row]):
    """Rows of step and mean value of each term since the previous row."""

    def to_frame(self) -> DataFrame:
        """Return a table with one column per term."""
        import pandas as pd

        return pd.DataFrame(list(self))


class State:
    """Everything needed to resume training bit for bit."""

    def __init__(self, model: VAE, lr: float) -> None:
        self.model = model
        self.adversaries = model.objective.adversaries()
        adversarial = {id(p) for adversary in self.adversaries for p in adversary.parameters()}
        self.parameters = [
            p for p in model.parameters() if p.requires_grad and id(p) not in adversarial
        ]
        fused = next(model.parameters()).device.type in {"cpu", "cuda"}
        self.optimiser = Adam(self.parameters, lr, fused=fused)
        self.adversary_optimisers = [
            Adam(a.parameters(), a.lr, betas=a.betas, fused=fused) for a in self.adversaries
        ]
        self.step = 0
        self.history: list[Row] = []
        self.names = ["loss", *model.objective.terms]
        device = self.parameters[0].device
        self.step_tensor = torch.zeros((), dtype=torch.long, device=device)  # for schedules
        self.pending = torch.zeros(len(self.names), device=device)  # sums since the last row
        self.pending_steps = 0

    def step_adversaries(self, z: Tensor, other: Tensor) -> None:
        """Update each adversary on detached codes of this batch and of an independent one."""
        for adversary, optimiser in zip(self.adversaries, self.adversary_optimisers, strict=True):
            optimiser.zero_grad(set_to_none=True)
            adversary.adversary_loss(z, other).backward()
            optimiser.step()

    def record(self, terms: dict[str, Tensor]) -> None:
        """Add the terms of a step to the pending row, without synchronising with the device."""
        self.pending += torch.stack([terms[name].detach() for name in self.names])
        self.step_tensor += 1
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
        """Raise `RunError` if a term or a weight is NaN or infinite."""
        all_weights = torch.stack([p.isfinite().all() for p in self.parameters]).all()
        *finite, weights = torch.cat([self.pending.isfinite(), all_weights[None]]).tolist()
        if all(finite) and weights:
            return
        bad = [name for name, good in zip(self.names, finite, strict=True) if not good]
        first = self.step - self.pending_steps + 1
        what = f"{' and '.join(bad)} became NaN or infinite" if bad else "the weights diverged"
        raise RunError(
            f"training stopped: {what} between steps {first} and {self.step}; "
            "lower the learning rate or the weights of the terms"
        )

    def save_checkpoint(self, checkpoint: Callable[[State], None] | None) -> None:
        """Pass the state to `checkpoint`, if any, after checking that it is finite."""
        if checkpoint:
            self.require_finite()
            checkpoint(self)

    def optimisers(self) -> list[Adam]:
        return [self.optimiser, *self.adversary_optimisers]

    def pack(self) -> PackedState:
        """Return the state as named tensors and as values for JSON."""
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for i, optimiser in enumerate(self.optimisers()):
            for p, moments in optimiser.state_dict()["state"].items():
                tensors |= {f"optimiser.{i}.{p}.{k}": v for k, v in moments.items()}
        tensors["pending"] = self.pending
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.pending.device.type != "cpu":
            tensors["rng.device"] = torch.get_device_module(self.pending.device).get_rng_state()
        values = {
            "step": self.step,
            "pending_steps": self.pending_steps,
            "history": self.history,
        }
        return tensors, values

    def unpack(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore what `pack` returned, random number generators included."""
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
            for p, moments in optimiser.state.items():  # fused Adam needs one memory layout
                for key in ("exp_avg", "exp_avg_sq"):
                    moments[key] = torch.empty_like(p).copy_(moments[key])
        self.pending.copy_(tensors["pending"])
        torch.set_rng_state(tensors["rng.cpu"].cpu())
        if "rng.device" in tensors:
            torch.get_device_module(self.pending.device).set_rng_state(tensors["rng.device"].cpu())
        self.step, self.pending_steps = values["step"], values["pending_steps"]
        self.step_tensor.fill_(self.step)
        self.history = list(values["history"])


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
    resume: PackedState | None = None,
    checkpoint: Callable[[State], None] | None = None,
    checkpoint_every: int = 1000,
    stop: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> History:
    """Train a model on data with Adam and return the history of its terms.

    On Linux this makes the C library retain freed memory, for the whole process.

    Args:
        model: changed in place, and left on the device.
        data: the training data.
        steps: optimiser steps.
        batch: examples per step.
        lr: learning rate.
        seed: seed of the order of the data and of all noise.
        device: `cpu`, `cuda`, `mps`, or `auto` for the best available.
        compile: whether to compile the model; `auto` does for long runs on a GPU.
        resume: a state from `State.pack` to resume from.
        checkpoint: called with the state every `checkpoint_every` steps and when stopped.
        checkpoint_every: steps between two calls.
        stop: called before every step; once it returns true, the state is passed to `checkpoint`
            and `KeyboardInterrupt` is raised.
        quiet: hide the progress bar.

    >>> import untwine
    >>> data = untwine.dataset("sprites", size=16)
    >>> model = untwine.build("vae", data)
    >>> untwine.fit(model, data, steps=20, quiet=True)[-1]["step"]
    20
    """
    target = pick_device(device)
    if steps < 1 or compile not in ("auto", "yes", "no"):
        raise ParameterError(
            "fit needs steps of at least 1 and compile 'auto', 'yes' or 'no', "
            f"not {steps} and {compile!r}"
        )
    retain_freed_memory()
    model.to(target).train()
    data = data.to(target)
    pixels = steps * batch * data.shape.numel()
    losses = loss_function(model, should_compile(pixels, target, compile))
    log_every = max(10, steps // 200)
    with seeded(seed), progress(steps, "training", quiet=quiet) as show:
        state = State(model, lr)
        if resume:
            state.unpack(*resume)
        order = data.batches(batch, derive_seed(seed, 0), target)
        second = data.batches(batch, derive_seed(seed, 1), target) if state.adversaries else order
        first_step, start_time = state.step, time.monotonic()
        while state.step < steps:
            if stop():
                state.save_checkpoint(checkpoint)
                raise KeyboardInterrupt
            terms, z = losses(data.batch(order.at(state.step), state.step_tensor))
            state.optimiser.zero_grad(set_to_none=True)
            terms["loss"].backward(inputs=state.parameters)
            state.optimiser.step()
            if state.adversaries:
                with seeded(derive_seed(seed, 2, state.step)):  # leaves the model's stream alone
                    other = data.batch(second.at(state.step), state.step_tensor)
                    state.step_adversaries(z, independent_codes(model, other))
            state.record(terms)
            if state.step % log_every == 0 or state.step == steps:
                rate = batch * (state.step - first_step) / (time.monotonic() - start_time)
                show(state.step, format_row(state.close_row(), rate))
            if state.step % checkpoint_every == 0 and state.step < steps:
                state.save_checkpoint(checkpoint)
    if model.card:
        model.card = replace(model.card, latents=profile_latents(model, data, batch=batch))
    return History(state.history)


@torch.no_grad()
def independent_codes(model: VAE, batch: Batch) -> Tensor:
    """(B, D) codes of another batch, without updating running statistics."""
    with frozen_statistics(model):
        return model.infer(batch).z


def format_row(row: Row, rate: float) -> str:
    """A row as a short text: `loss 85.1  nll 67.2  kl 12.9  3,120 images/s`."""
    terms = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name != "step")
    return f"{terms}  {rate:,.0f} images/s"


def should_compile(pixels: int, device: torch.device, choice: Compile) -> bool:
    """Whether compiling pays off for a run of this many pixels.

    The answer never depends on a clock, so that a repeated run decides alike. On a CPU compiling
    gains little or nothing (`benchmarks/train.py`), so it is done only on request.
    """
    if choice != "auto":
        return choice == "yes"
    return device.type == "cuda" and pixels >= MIN_PIXELS_TO_COMPILE


def loss_function(model: VAE, compiled: bool) -> Losses:
    """A function from a batch to its terms and its detached codes."""

    def losses(batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        trace = model.trace(batch)
        return model.objective(trace), trace.z.detach()

    return _compile(losses) if compiled else losses


def _compile(losses: Losses) -> Losses:
    """The compiled function; falls back to the plain one, with a warning, if compiling fails."""
    current = compiled = torch.compile(losses, dynamic=False)

    def attempt(batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        nonlocal current
        before = torch.get_rng_state()
        try:
            return current(batch)
        except Exception as error:  # an error of the model itself recurs below
            if current is not compiled:
                raise
            torch.set_rng_state(before)
            current = losses
            result = losses(batch)
            warnings.warn(f"not compiled, which is slower: {error}", RuntimeWarning, stacklevel=2)
            return result

    return attempt
