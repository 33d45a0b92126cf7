"""Training speed as ratios: the trainer, hand-written loops and the machine's peak.

python benchmarks/train.py [--rounds 7] [--size 64 32]

eager     a hand-written loop (benchmarks/loops.py): default layout, default Adam
best      the same with channels_last, fused Adam and a compiled loss
kept      the best loop with freed memory retained, as untwine does
trainer   untwine's own loop, with data, history and everything; `compiled` with compilation
peak      multiply-adds per second of a large matrix product

The overhead around the steps is measured in one process: the trainer compared with its bare steps,
and with a progress bar and a checkpoint every ten steps, a hundred times as often as in a run.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from harness import interleaved, section, serve, table, take_turns
from loops import BATCH, LATENT, Loop, multiply_adds

import untwine
from untwine.runs.states import save_state
from untwine.tools.compute import retain_freed_memory
from untwine.train import State, fit, loss_function

SECONDS = 2.0  # of a turn
STEPS = 200  # of the trainer, to measure its overhead
MODELS = ("vae", "beta-tcvae", "dip-vae-ii", "factor-vae")
KINDS = ("eager", "best", "trainer")


def build(size, model="vae"):
    data = untwine.dataset("sprites", size=size)
    return data, untwine.build(model, data, latent=LATENT, network="conv-k4")


def repeat(step):
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        step()
        count += 1
    return count * BATCH / (time.perf_counter() - began)


class Turns:
    """Divide an endless training into turns, where it asks whether to stop."""

    def __init__(self):
        self.count, self.began, self.until = 0, 0.0, 0.0

    def pause(self):
        now = time.perf_counter()
        if now < self.until:
            self.count += 1
            return False
        if self.until:
            print(self.count * BATCH / (now - self.began), flush=True)
        if not sys.stdin.readline():
            return True
        self.began, self.count = time.perf_counter(), 1
        self.until = self.began + SECONDS
        return False


def trainer(data, vae, compile):
    """Calls of `fit` one after another, in turns; a row of history every ten steps."""
    train = partial(fit, vae, data, batch=BATCH, compile=compile)
    train(steps=20, quiet=True)  # warm up: first steps compile and allocate
    print("ready", flush=True)
    stop = Turns().pause
    while True:
        try:
            train(steps=2000, stop=stop, quiet=True)
        except KeyboardInterrupt:
            return


def overhead(size, rounds):
    """A sentence on the overhead around the steps, measured in turns in this process."""
    data, vae = build(size)
    train = partial(fit, vae, data, steps=STEPS, batch=BATCH)
    with tempfile.TemporaryDirectory() as scratch:

        def checkpoint(state):
            save_state(Path(scratch), state.step, *state.pack())

        def saving():
            with open(os.devnull, "w") as terminal, contextlib.redirect_stderr(terminal):
                terminal.isatty = lambda: True
                train(checkpoint=checkpoint, checkpoint_every=10)

        works = {"steps": steps_alone(data, vae), "trainer": partial(train, quiet=True)}
        results = interleaved({**works, "saving": saving}, rounds)
    alone, ours, saved = results.values()
    each = (saved.median - ours.median) / alone.median / 100
    return (
        f"{STEPS} steps of the trainer, its start and a row of history every ten included, take "
        f"{ours.over(alone) - 1:+.1%} of the time of the steps alone ({alone.format('.2f')} and "
        f"{ours.format('.2f')} s); a checkpoint every thousand steps and a progress bar "
        f"{each:+.2%} more (with one every ten {saved.format('.2f')} s)."
    )


def steps_alone(data, vae):
    """The minimum of any trainer: data, forward and backward pass, optimiser."""
    state, losses = State(vae.train(), 1e-4), loss_function(vae, compiled=False)
    order, clock = data.batches(BATCH, 0, torch.device("cpu")), torch.zeros((), dtype=torch.long)

    def work():
        for number in range(STEPS):
            terms, _ = losses(data.batch(order.at(number), clock))
            state.optimiser.zero_grad(set_to_none=True)
            terms["loss"].backward(inputs=state.parameters)
            state.optimiser.step()

    return work


def peak():
    a = torch.rand(1536, 1536)

    def work():
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS / 2:
            a @ a
            count += 1
        return count * len(a) ** 3 / (time.perf_counter() - began)

    return work


def contender(kind, size, name):
    """Serve one contender, named by three words."""
    if kind == "peak":
        serve(peak())
    elif kind in {"eager", "best", "kept"}:
        if kind == "kept":
            retain_freed_memory()
        step = Loop(name, int(size), best=kind != "eager").step
        serve(lambda: repeat(step))
    else:
        trainer(*build(int(size), name), "yes" if kind == "compiled" else "no")


def compare(size, models, rounds):
    """A table of trainers against loops by hand."""
    names = [f"{kind} {size} {model}" for model in models for kind in KINDS]
    extra = [f"{kind} {size} vae" for kind in ("kept", "compiled")]
    top = f"peak {size} -"
    results = take_turns(__file__, [*names, *extra, top], rounds)
    work = multiply_adds(size)
    print(f"{size} x {size} pixels, {work / 1e6:.1f} million multiply-adds per image of a VAE:\n")
    rows = []
    for name in [*names, *extra]:
        kind, _, model = name.split()
        eager, best = results[f"eager {size} {model}"], results[f"best {size} {model}"]
        result = results[name]
        share = result.median * work / results[top].median
        of_peak = f"{share:.2f}" if model != "factor-vae" else ""
        rows.append(
            [
                model,
                kind,
                result.format(),
                f"{result.over(eager):.2f}",
                f"{result.over(best):.2f}",
                of_peak,
            ]
        )
    table(["model", "loop", "images/s", "of eager", "of best", "of peak"], rows)
    around = overhead(size, min(rounds, 5))
    print(f"The peak is {2 * results[top].median / 1e9:.0f} GFLOP/s. {around}\n")


def main():
    parser = argparse.ArgumentParser(description="Training speed as ratios.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, nargs="*", default=[64, 32], choices=[64, 32])
    options = parser.parse_args()
    section(
        "Training",
        f"Images per second of training, batch {BATCH}, {LATENT} latents, the network of Higgins "
        "et al. (2017), sprites of one channel, single precision. `eager` and `best` are loops "
        "written by hand (`benchmarks/loops.py`) on one batch in memory: plain, and with "
        "channels_last, fused Adam and a compiled loss; `kept` is `best` with freed memory "
        "retained. `trainer` is `untwine.fit` with data and history, `compiled` the same "
        "compiled.",
    )
    for size in options.size:
        compare(size, MODELS if size == 64 else MODELS[:2], options.rounds)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in {
        *KINDS,
        "kept",
        "compiled",
        "steps",
        "saving",
        "peak",
    }:
        contender(*sys.argv[1:])
    else:
        main()
