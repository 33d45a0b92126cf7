"""The cost of one step of every model: relative to a VAE, to the peak, and by kind of work.

python benchmarks/models.py [--rounds 5] [--size 64]

Sprites, the network of Higgins et al. (2017), default parameters, data and history as in training.
PyTorch's profiler measures in extra steps where the time goes: convolutions and matrix products,
optimisers, all other operators, and the rest, which is Python and PyTorch's own bookkeeping.
"""

import argparse
import os
from contextlib import contextmanager

import torch
from harness import interleaved, section, show, table
from loops import BATCH, LATENT
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import untwine
from untwine.registry import models
from untwine.train import fit

STEPS = 20
GROUPS = {
    "arithmetic": ("convolution", "mm", "bmm", "matmul", "addmm", "linear"),
    "optimiser": ("adam",),
}


def training_steps(name, size):
    data = untwine.dataset("sprites", size=size)
    model = untwine.build(name, data, latent=LATENT, network="conv-k4")

    def work(steps=STEPS):
        fit(model, data, steps=steps, batch=BATCH, quiet=True)

    return work


def multiply_adds(work):
    """Multiply-adds per image of a training step, counted by PyTorch."""
    with FlopCounterMode(display=False) as counter:
        work(steps=1)
    return counter.get_total_flops() / 2 / BATCH


@contextmanager
def silence_stderr():
    """Discard what the profiler writes to standard error."""
    original, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
        os.close(nowhere)


def shares(work):
    """{group: share of the time}, from extra steps under the profiler."""
    with silence_stderr(), profile(activities=[ProfilerActivity.CPU]) as trace:
        work()
    spent = dict.fromkeys([*GROUPS, "other operators", "outside"], 0.0)
    for event in trace.key_averages():
        operator = event.key.startswith("aten::")
        words = event.key.removeprefix("aten::").lower()
        groups = [name for name, marks in GROUPS.items() if any(mark in words for mark in marks)]
        group = groups[0] if operator and groups else "other operators" if operator else "outside"
        spent[group] += event.self_cpu_time_total
    total = sum(spent.values())
    return {name: value / total for name, value in spent.items()}


def peak(rounds):
    a = torch.rand(1536, 1536)
    return len(a) ** 3 / interleaved({"peak": lambda: a @ a}, 10 * rounds)["peak"].median


def main():
    parser = argparse.ArgumentParser(description="The cost of one step of every model.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()
    section(
        "Every model",
        f"Sprites of {options.size} pixels, batch {BATCH}, {LATENT} latents, the network of "
        "Higgins et al. (2017), the defaults of each model. `time` and `work` are the seconds and "
        "the multiply-adds of a step as multiples of a VAE's; `of peak` is the share of the "
        "machine's matrix-multiply peak. The last four columns show where the time goes: "
        "convolutions and matrix products, optimisers, all other operators, and Python with "
        "PyTorch's bookkeeping (measured by a profiler, which adds to the last).",
    )
    names = ["vae", *(name for name in models if name != "vae")]
    works = {name: training_steps(name, options.size) for name in names}
    results = interleaved(works, options.rounds)
    best = peak(options.rounds)
    work = {name: multiply_adds(works[name]) for name in names}
    rows = []
    for name in names:
        show(f"profiling {name}")
        where = shares(works[name])
        rate = STEPS * BATCH / results[name].median
        spread = results[name].high / results[name].low - 1
        rows.append(
            [
                name,
                f"{rate:,.0f} ±{50 * spread:.0f} %",
                f"{results[name].over(results['vae']):.2f}",
                f"{work[name] / work['vae']:.2f}",
                f"{rate * work[name] / best:.2f}",
                *(f"{share:.0%}" for share in where.values()),
            ]
        )
    show("")
    table(["model", "images/s", "time", "work", "of peak", *where], rows)


if __name__ == "__main__":
    main()
