"""Training: one visible loop."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.data.derived import split_randomly
from untwine.errors import ParameterError
from untwine.latents import profile_latents
from untwine.optimisers import Training
from untwine.records import Batch
from untwine.state import History, PackedState, Row, State
from untwine.tools.compute import (
    derive_seed,
    eval_mode,
    frozen_statistics,
    pick_device,
    retain_freed_memory,
    seeded,
)
from untwine.tools.progress import progress
from untwine.tools.threads import sleep_when_busy
from untwine.vae import VAE

Losses = Callable[[Batch], tuple[dict[str, Tensor], Tensor]]
OnRow = Callable[[Row], object]
Compile = Literal["auto", "yes", "no"]
MIN_PIXELS_TO_COMPILE = 2e10
"""Pixels that a run on a GPU must see before compiling repays its half minute."""
MAX_VALIDATION_EXAMPLES = 4096
"""Held-out examples that each validation looks at; scores use all of them."""
STEPS_PER_VALIDATION_BATCH = 4
"""Steps for every batch of a validation, so that validating costs about a tenth of the time."""


def fit(
    model: VAE,
    data: Any,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    batch: int = 64,
    lr: float = 1e-4,
    seed: int = 0,
    validation: float | Dataset = 0.0,
    patience: int = 0,
    optimiser: str = "adam",
    weight_decay: float = 0.0,
    clip: float = 0.0,
    schedule: str = "constant",
    warm_up: int = 0,
    on_row: OnRow | None = None,
    device: str = "auto",
    compile: Compile = "auto",
    resume: PackedState | None = None,
    checkpoint: Callable[[State], None] | None = None,
    checkpoint_every: int = 1000,
    stop: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> History:
    """Train a model on data and return the history of its terms.

    On Linux this makes the C library retain freed memory, for the whole process.

    Args:
        model: changed in place, and left on the device.
        data: the training data: a dataset or anything that `as_dataset` takes.
        steps: optimiser steps.
        epochs: passes through the data, instead of steps.
        batch: examples per step.
        lr: learning rate.
        seed: seed of the order of the data, of the held-out examples and of all noise.
        validation: held-out data, or the share of the data to hold out.
        patience: rows of the history without a lower validation loss after which training stops;
            the model is left with the best weights. 0 trains to the end.
        optimiser: adam, adamax, adamw, nadam, radam, rmsprop or sgd, as in torch.
        weight_decay: of the optimiser.
        clip: largest norm of the gradient of all weights; 0 does not clip.
        schedule: of the learning rate: constant, cosine or linear to 0, or plateau, which halves it
            after five rows without a lower (validation) loss.
        warm_up: steps over which the learning rate rises from 0.
        on_row: called with every new row of the history. What it raises becomes a warning.
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
    name = "other data" if isinstance(validation, Dataset) else validation
    options = Training(name, patience, optimiser, weight_decay, clip, schedule, warm_up)
    data = as_dataset(data, like=model.columns)
    data, held_out = hold_out(data, validation, seed)
    steps = count_steps(steps, epochs, len(data), batch)
    if compile not in ("auto", "yes", "no"):
        raise ParameterError(f"compile must be 'auto', 'yes' or 'no', not {compile!r}")
    retain_freed_memory()
    model.to(target).train()
    data = model.add_labels(data).to(target)
    pixels = steps * batch * data.shape.numel()
    losses = loss_function(model, should_compile(pixels, target, compile))
    validate = Validation(model, held_out, batch, steps, seed) if held_out else None
    log_every = max(10, steps // 200, validate.steps_between if validate else 0)
    bar = progress(steps, "training", quiet=quiet)
    with seeded(seed), bar as show, sleep_when_busy() as watch_load:
        state = State(model, lr, steps=steps, options=options)
        if resume:
            state.restore(*resume)
        order = data.batches(batch, derive_seed(seed, 0), target)
        second = data.batches(batch, derive_seed(seed, 1), target) if state.adversaries else order
        first_step, start_time = state.step, time.monotonic()
        while state.step < steps and not state.is_out_of_patience():
            if stop():
                state.save_checkpoint(checkpoint)
                raise KeyboardInterrupt
            watch_load()
            terms, z = losses(data.batch(order.at(state.step), state.step_tensor))
            state.optimiser.zero_grad(set_to_none=True)
            terms["loss"].backward(inputs=state.parameters)
            state.update_weights()
            if state.adversaries:
                with seeded(derive_seed(seed, 2, state.step)):  # leaves the model's stream alone
                    other = data.batch(second.at(state.step), state.step_tensor)
                    state.step_adversaries(z, independent_codes(model, other))
            state.record(terms)
            if state.step % log_every == 0 or state.step == steps:
                row = state.close_row(validate() if validate else None)
                rate = batch * (state.step - first_step) / (time.monotonic() - start_time)
                show(state.step, format_row(model, row, rate))
                if on_row:
                    hand_over(on_row, row)
            if state.step % checkpoint_every == 0 and state.step < steps:
                state.save_checkpoint(checkpoint)
        state.restore_best()
    if model.card:
        model.card = replace(model.card, latents=profile_latents(model, data, batch=batch))
    return History(state.history)


def count_steps(steps: int | None, epochs: int | None, n: int, batch: int) -> int:
    """The steps of a training, given as such or as passes through n examples."""
    if (steps is None) == (epochs is None):
        raise ParameterError("a training needs steps or epochs; give one of them")
    number, name = (steps, "steps") if epochs is None else (epochs, "epochs")
    if type(number) is not int or number < 1:
        raise ParameterError(f"a training needs at least 1 of {name}, not {number!r}")
    return number if epochs is None else number * max(1, n // batch)


def hold_out(
    data: Dataset, validation: float | Dataset, seed: int
) -> tuple[Dataset, Dataset | None]:
    """The data to train on and the data to validate on, if any."""
    if isinstance(validation, Dataset):
        return data, validation
    if isinstance(validation, str):
        raise ParameterError(
            f"fit holds out a share or takes other data, not {validation!r}; plan, train_run and "
            "the command line know the splits of a dataset by name"
        )
    return split_randomly(data, validation, seed=seed) if validation else (data, None)


class Validation:
    """The terms on held-out examples: always the same ones, with the same noise.

    Weights of terms that change during training count as at its end, so that losses compare.
    """

    def __init__(self, model: VAE, data: Dataset, batch: int, steps: int, seed: int) -> None:
        n = min(len(data), MAX_VALIDATION_EXAMPLES)
        count = math.ceil(n / batch)
        device = next(model.parameters()).device
        size = n // count if data.batch_order is None else batch  # groups may need their size
        order = data.batches(size, derive_seed(seed, 3), device)
        self.model, self.seed = model, derive_seed(seed, 4)
        self.data = model.add_labels(data).to(device)
        self.batches = [order.at(number) for number in range(count)]
        self.step = torch.tensor(steps, device=device)

    @property
    def steps_between(self) -> int:
        """The fewest steps between two validations."""
        return STEPS_PER_VALIDATION_BATCH * len(self.batches)

    @torch.no_grad()
    def __call__(self) -> Row:
        parts: dict[str, list[Tensor]] = {}
        with eval_mode(self.model), seeded(self.seed):
            for index in self.batches:
                trace = self.model.trace(self.data.batch(index, self.step))
                elbo = {"elbo": self.model.elbo_of(trace)} if self.model.has_elbo else {}
                for name, value in {**elbo, **self.model.objective(trace)}.items():
                    parts.setdefault(f"validation_{name}", []).append(value)
        return {name: torch.stack(values).mean().item() for name, values in parts.items()}


def hand_over(on_row: OnRow, row: Row) -> None:
    """Call `on_row`, which can neither stop the training nor change its random numbers."""
    try:
        with seeded(0):
            on_row(dict(row))
    except Exception as error:
        text = f"on_row failed at step {row['step']:,}: {type(error).__name__}: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


@torch.no_grad()
def independent_codes(model: VAE, batch: Batch) -> Tensor:
    """(B, D) codes of another batch, without updating running statistics."""
    with frozen_statistics(model):
        return model.infer(batch).z


def format_row(model: VAE, row: Row, rate: float) -> str:
    """A row as a short text: `loss 85.1  nll 67.2  kl 12.9  3,120 images/s`."""
    prefix, texts = "validation_", dict[bool, list[str]]({False: [], True: []})
    for name, value in model.objective.without_constants(row).items():
        if name != "step":
            texts[name.startswith(prefix)].append(f"{name.removeprefix(prefix)} {value:.4g}")
    held_out = ["validation:", *texts[True]] if texts[True] else []
    return "  ".join([*texts[False], *held_out, f"{rate:,.0f} images/s"])


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
