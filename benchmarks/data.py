"""Drawing batches against training on them, as a ratio measured in one interleaved run.

python benchmarks/data.py
"""

import sys
import time

import torch
from harness import machine, serve, take_turns
from train import BATCH, trainer

import untwine

SECONDS = 1.0
SIZES = (32, 64)


def drawing(size):
    data = untwine.dataset("sprites", size=size)
    generator = torch.Generator().manual_seed(0)

    def work():
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS:
            data.take(torch.randint(len(data), (BATCH,), generator=generator))
            count += 1
        return count * BATCH / (time.perf_counter() - began)

    return work


def main():
    print(machine())
    for size in SIZES:
        names = [f"drawing {size}", f"trainer {size}"]
        found = take_turns(__file__, names, rounds=5)
        draw, train = (found[name] for name in names)
        print(
            f"sprites {size}x{size}, batches of {BATCH}: drawn {draw.median:,.0f} images/s, "
            f"trained {train.median:,.0f} images/s, ratio {draw.over(train):.0f}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        kind, size = sys.argv[1:]
        serve(drawing(int(size))) if kind == "drawing" else trainer(int(size), "vae", "no")
    else:
        main()
