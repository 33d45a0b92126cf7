"""Several seeds of one model trained at once, each bit for bit as it would be alone.

Small models spend most of a step on calling operations, which a `Recording` of one model's step
does once for all. The noise of a seed comes from a generator of its own by the call that a single
run makes, its batches likewise, and Adam sees the weights of every seed as tensors of their own.
Before anything is trained a few steps are taken in both ways on copies (`require_same_bits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Adam

from untwine.data import Dataset, mix
from untwine.recording import Recording, Unlike
from untwine.store import Packed
from untwine.train import Single, State, keep_memory
from untwine.vae import VAE, forked

SAME_STEPS = 5  # steps that are taken in both ways


def stacked(
    models: Sequence[VAE],
    data: Dataset,
    seeds: Sequence[int],
    *,
    batch: int,
    lr: float,
    resume: Sequence[Packed] = (),
) -> Stack:
    """Models that differ in weights and seeds alone, to be trained together on a CPU.

    `Unlike` are adversaries, running statistics, buffers that differ, parameters that the loss does
    not need, random numbers that are neither normal nor uniform, and what rounds otherwise. Threads
    change rounding too; only one at a time is meant.

    Args:
        models: left as they are if they are unlike, or else changed in place by every step.
        data: what all are trained on.
        seeds: of each model's order of the data and noise, as for `fit`.
        batch: examples per step and model.
        lr: learning rate.
        resume: what `State.pack` gave of each, to go on from there.
    """
    require_plain(models)
    keep_memory()
    batches = Batches(data, seeds, batch)
    with forked(0):
        recording = recorded(models, batches)
        trial = Stack(deepcopy(models), batches, seeds, lr, recording)
        for _ in range(SAME_STEPS):
            trial.advance()
    for state, model, seed in zip(trial.states, models, seeds, strict=True):
        with forked(seed):
            single = Single(deepcopy(model), data, batch=batch, lr=lr, seed=seed)
            for _ in range(SAME_STEPS):
                single.advance()
            require_same_bits(state, single.state)
    stack = Stack(models, batches, seeds, lr, recording)
    if resume:
        for state, kept in zip(stack.states, resume, strict=True):
            state.unpack(*kept)
            stack.share_moments(state)
    return stack


def recorded(models: Sequence[VAE], batches: Batches) -> Recording:
    try:
        return Recording(models[0], stacked_weights(models), batches.at)
    except Unlike:
        raise
    except Exception as error:  # of PyTorch, which cannot record everything
        raise Unlike(f"a step cannot be recorded: {error}") from error


def require_plain(models: Sequence[VAE]) -> None:
    """Refuse what the recording of one model's step does not hold."""
    first = models[0]
    if first.objective.adversaries():
        raise Unlike("an adversary takes steps of its own")
    if any(isinstance(module, _BatchNorm) for module in first.modules()):
        raise Unlike("running statistics are not stacked")
    if not all(weight.requires_grad for weight in first.parameters()):
        raise Unlike("some weights are not trained")
    for alike in zip(*(model.buffers() for model in models), strict=True):
        if not all(torch.equal(alike[0], other) for other in alike):
            raise Unlike("the models have buffers that differ")


def require_same_bits(one: State, other: State) -> None:
    """Refuse two states that differ in a bit."""
    (mine, _), (theirs, _) = one.pack(), other.pack()
    if mine.keys() != theirs.keys():
        raise Unlike("the states hold different tensors")
    for name, value in mine.items():
        if not torch.equal(value, theirs[name]):
            raise Unlike(f"{name} is not the same after {SAME_STEPS} steps")


class Batches:
    """The batches of several seeds, each taken as a single run takes it."""

    def __init__(self, data: Dataset, seeds: Sequence[int], batch: int) -> None:
        self.data = data
        self.orders = [data.batches(batch, mix(seed, 0), torch.device("cpu")) for seed in seeds]

    def at(self, step: int) -> list[Tensor]:
        """(K, B, *shape), and (K, B) groups where there are any."""
        clock = torch.tensor(step)
        given = [self.data.batch(order.at(step), clock) for order in self.orders]
        groups = [batch.group for batch in given if batch.group is not None]
        return [torch.stack(parts) for parts in ([batch.x for batch in given], groups) if parts]


class Stack:
    """Models that take their steps together; what `loop` wants. Made by `stacked`."""

    def __init__(
        self,
        models: Sequence[VAE],
        batches: Batches,
        seeds: Sequence[int],
        lr: float,
        recording: Recording,
    ) -> None:
        self.batches, self.recording = batches, recording
        self.weights = stacked_weights(models)
        for whole, *alike in zip(self.weights, *_parameters(models), strict=True):
            for weight, part in zip(alike, whole, strict=True):
                weight.data = part
        self.states = [
            State(model.train(), lr, torch.Generator().manual_seed(seed))
            for model, seed in zip(models, seeds, strict=True)
        ]
        self.sums = torch.zeros(len(models), len(self.states[0].names))
        for state, row in zip(self.states, self.sums, strict=True):
            state.pending = row
        self.optimiser = Adam([p for s in self.states for p in s.parameters], lr, fused=True)
        for state in self.states:
            for weight in state.parameters:
                state.main.state[weight] = {
                    "step": torch.zeros(()),
                    "exp_avg": torch.zeros_like(weight),
                    "exp_avg_sq": torch.zeros_like(weight),
                }
            self.share_moments(state)

    def share_moments(self, state: State) -> None:
        """Let all steps be taken by one optimiser, on what the state keeps."""
        self.optimiser.state.update(state.main.state)

    @torch.no_grad()
    def advance(self) -> None:
        """One step of every model."""
        noise = [
            torch.stack([draw(*size, generator=state.generator) for state in self.states])
            for draw, size in self.recording.draws
        ]
        first = self.states[0]
        given = [first.clock, *self.weights, *self.batches.at(first.step), *noise]
        terms, *grads = self.recording.run(*given)
        for state, *parts in zip(self.states, *grads, strict=True):
            for weight, part in zip(state.parameters, parts, strict=True):
                weight.grad = part.contiguous()
        self.optimiser.step()
        self.sums += terms
        for state in self.states:
            state.count()


def _parameters(models: Sequence[VAE]) -> list[list[nn.Parameter]]:
    return [list(model.parameters()) for model in models]


@torch.no_grad()
def stacked_weights(models: Sequence[VAE]) -> list[Tensor]:
    """The weights of all models, each (K, *shape)."""
    return [torch.stack(alike) for alike in zip(*_parameters(models), strict=True)]
