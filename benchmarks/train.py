"""Training speed as ratios: the trainer against a bare loop and the machine's arithmetic peak.

python benchmarks/train.py [--rounds 7] [--size 64]

bare      an eager PyTorch loop of the same network and batch: one resident batch, default layout,
          default Adam, loss written out by hand; nothing is drawn, logged or saved
trainer   untwine's own loop, with data, history and everything
compiled  the same with compilation
peak      multiply-adds per second of a large matrix product
"""

import argparse
import sys
import time

import torch
from harness import machine, serve, take_turns

import untwine
from untwine.train import fit

BATCH, LATENT, SECONDS = 64, 10, 3.0
MODELS = ("vae", "beta-tcvae")


def build(size, model="vae"):
    data = untwine.dataset("sprites", size=size)
    return data, untwine.build(model, data, latent=LATENT, network="conv-k4")


def bare(size):
    """The same layers in the plainest loop one would write."""
    data, model = build(size)
    encoder = torch.nn.Sequential(model.encoder, model.latents.posterior.head)
    decoder = model.decoder
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-4)
    x = data.take(list(range(0, BATCH * 1000, 1000)))

    def step():
        mean, logvar = encoder(x).chunk(2, -1)
        z = mean + (logvar / 2).exp() * torch.randn_like(mean)
        nll = torch.nn.functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
        kl = (mean.square() + logvar.exp() - 1 - logvar).sum() / 2
        loss = (nll + kl) / BATCH
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return lambda: repeat(step)


def repeat(step):
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        step()
        count += 1
    return count * BATCH / (time.perf_counter() - began)


def trainer(data, vae, compile):
    """One long call of `fit`, cut into turns where it asks whether to stop."""
    state = {"count": 0, "began": time.perf_counter(), "until": 0.0}

    def turn():
        state.update(count=0, began=time.perf_counter())
        state["until"] = state["began"] + SECONDS

    def pause():
        now = time.perf_counter()
        if now < state["until"]:
            state["count"] += 1
            return False
        if state["until"]:
            print(state["count"] * BATCH / (now - state["began"]), flush=True)
        if not sys.stdin.readline():
            return True
        turn()
        state["count"] = 1
        return False

    for _ in range(2):  # warm up: first steps compile and allocate
        fit(vae, data, steps=10, batch=BATCH, compile=compile, quiet=True)
    print("ready", flush=True)
    try:
        fit(vae, data, steps=10**9, batch=BATCH, compile=compile, quiet=True, stop=pause)
    except KeyboardInterrupt:
        pass


def peak():
    a = torch.rand(1536, 1536)

    def work():
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS / 2:
            a @ a
            count += 1
        return count * len(a) ** 3 / (time.perf_counter() - began)

    return work


def multiply_adds(size):
    """Per image of a training step, counted by PyTorch."""
    from torch.utils.flop_counter import FlopCounterMode

    data, model = build(size)
    x = data.take(list(range(BATCH)))
    with FlopCounterMode(display=False) as counter:
        model.objective(model.trace(untwine.Batch(x)))["loss"].backward()
    return counter.get_total_flops() / 2 / BATCH


def contender(words):
    kind, *rest = words
    if kind == "peak":
        serve(peak())
    elif kind == "bare":
        serve(bare(int(rest[0])))
    else:
        trainer(*build(int(rest[0]), rest[1]), "yes" if kind == "compiled" else "no")


def report(size, rounds):
    base = f"bare {size}"
    names = [base, *(f"trainer {size} {m}" for m in MODELS), f"compiled {size} vae", "peak"]
    found = take_turns(__file__, names, rounds)
    work = multiply_adds(size)
    print(f"\n{size}x{size}x1, batch {BATCH}, conv-k4, {work / 1e6:.1f} M multiply-adds per image")
    print(f"{'':28}{'images/s':>10}{'range':>16}{'of bare':>9}{'of peak':>9}")
    for name in names[:-1]:
        r = found[name]
        share = r.median * work / found["peak"].median
        print(
            f"{name:28}{r.median:10,.0f}{f'{r.low:,.0f} to {r.high:,.0f}':>16}"
            f"{r.over(found[base]):9.2f}{share:9.2f}"
        )
    print(f"peak: {2 * found['peak'].median / 1e9:.0f} GFLOP/s")


def main():
    parser = argparse.ArgumentParser(description="Training speed as ratios.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, nargs="*", default=[64, 32])
    options = parser.parse_args()
    print(machine())
    for size in options.size:
        report(size, options.rounds)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        contender(sys.argv[1:])
    else:
        main()
