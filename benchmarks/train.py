"""Training speed as ratios: the trainer against loops written by hand and the machine's peak.

python benchmarks/train.py [--rounds 7] [--size 64 32]

eager     a loop written by hand (benchmarks/loops.py): default layout, default Adam
best      the same with channels_last, fused Adam and a compiled loss
kept      the best loop in a process whose C library keeps freed memory, as untwine's does
trainer   untwine's own loop, with data, history and everything; `compiled` with compilation
steps     untwine's model and optimiser alone: no data drawn, nothing recorded, saved or shown
saving    the trainer with a progress bar and a checkpoint every ten steps, which is a hundred
          times as often as in a run
peak      multiply-adds per second of a large matrix product
"""

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from harness import section, serve, table, take_turns
from loops import BATCH, LATENT, Loop, multiply_adds

import untwine
from untwine.store import save_state
from untwine.train import State, fit, keep_memory, loss_function

SECONDS = 3.0
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
    """Cut a training that cannot return into turns, where it asks whether to stop."""

    def __init__(self):
        self.count, self.began, self.until = 0, 0.0, 0.0

    def pause(self):
        now = time.perf_counter()
        if now < self.until:
            self.count += 1
            return False
        if self.until:
            rate = self.count * BATCH / (now - self.began)
            print(rate, file=sys.__stdout__, flush=True)  # a progress bar holds sys.stdout
        if not sys.stdin.readline():
            return True
        self.began, self.count = time.perf_counter(), 1
        self.until = self.began + SECONDS
        return False


def trainer(data, vae, compile, **options):
    """Calls of `fit` one after another, in turns; a row of history every ten steps."""
    train = partial(fit, vae, data, batch=BATCH, compile=compile)
    train(steps=20, quiet=True)  # warm up: first steps compile and allocate
    print("ready", flush=True)
    stop = Turns().pause
    while True:
        try:
            train(steps=2000, stop=stop, **({"quiet": True} | options))
        except KeyboardInterrupt:
            return


def saving(data, vae):
    """The trainer with all that a run adds."""
    with tempfile.TemporaryDirectory() as scratch, open(os.devnull, "w") as terminal:
        terminal.isatty = lambda: True
        sys.stderr = terminal

        def checkpoint(state):
            save_state(Path(scratch), state.step, *state.pack())

        trainer(data, vae, "no", quiet=False, checkpoint=checkpoint, checkpoint_every=10)


def steps_alone(data, vae):
    """What no trainer can do without: the pass, its gradients and the optimiser."""
    keep_memory()
    vae.train()
    state, losses = State(vae, 1e-4), loss_function(vae, compiled=False)
    x, clock = data.take(list(range(0, BATCH * 1000, 1000))), torch.zeros((), dtype=torch.long)

    def step():
        terms, _ = losses(x, None, clock)
        state.main.zero_grad(set_to_none=True)
        terms["loss"].backward(inputs=state.parameters)
        state.main.step()

    return step


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
            keep_memory()
        step = Loop(name, int(size), best=kind != "eager").step
        serve(lambda: repeat(step))
    elif kind == "steps":
        step = steps_alone(*build(int(size), name))
        serve(lambda: repeat(step))
    elif kind == "saving":
        saving(*build(int(size), name))
    else:
        trainer(*build(int(size), name), "yes" if kind == "compiled" else "no")


def compare(size, models, rounds):
    """A table of trainers against loops by hand, and a line on what surrounds the steps."""
    names = [f"{kind} {size} {model}" for model in models for kind in KINDS]
    extra = [f"{kind} {size} vae" for kind in ("kept", "compiled", "steps", "saving")]
    top = f"peak {size} -"
    found = take_turns(__file__, [*names, *extra, top], rounds)
    work = multiply_adds(size)
    print(f"{size} x {size} pixels, {work / 1e6:.1f} million multiply-adds per image of a VAE:\n")
    rows = []
    for name in [*names, *extra[:2]]:
        kind, _, model = name.split()
        eager, best = found[f"eager {size} {model}"], found[f"best {size} {model}"]
        here = found[name]
        share = here.median * work / found[top].median
        told = f"{share:.2f}" if model != "factor-vae" else ""
        rows.append(
            [model, kind, here.told(), f"{here.over(eager):.2f}", f"{here.over(best):.2f}", told]
        )
    table(["model", "loop", "images/s", "of eager", "of best", "of peak"], rows)
    alone, ours, saved = (found[f"{kind} {size} vae"] for kind in ("steps", "trainer", "saving"))
    around, each = 1 - ours.over(alone), (1 / saved.median - 1 / ours.median) * alone.median / 100
    print(
        f"Drawing data, history and questions take {around:.1%} of the steps alone "
        f"({alone.told()} images/s); checkpoints every thousand steps and a progress bar "
        f"{each:.1%} more (with one every ten steps {saved.told()} images/s). "
        f"The peak is {2 * found[top].median / 1e9:.0f} GFLOP/s.\n",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description="Training speed as ratios.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, nargs="*", default=[64, 32], choices=[64, 32])
    options = parser.parse_args()
    section(
        "Training",
        f"Images per second of training, batch {BATCH}, {LATENT} latents, the network of Higgins "
        "et al. (2017), sprites of one channel, single precision. `eager` and `best` are loops "
        "written by hand (`benchmarks/loops.py`) on one resident batch: plain, and with "
        "channels_last, fused Adam and a compiled loss; `kept` is `best` in a process that keeps "
        "freed memory. `trainer` is `untwine.fit` with data and history, `compiled` the same "
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
