"""Drawing batches against training on them, as ratios measured in one interleaved run.

python benchmarks/data.py
"""

import sys
import time

import torch
from harness import machine, serve, take_turns
from train import BATCH, LATENT, trainer

import untwine

SECONDS = 1.0
SETS = (
    "sprites(size=32)",
    "sprites",
    "colour-dsprites",
    "noisy-dsprites",
    "scream-dsprites",
    "shapes3d-render",
    "faces(count=500)",
    "coloured-mnist(of=digits)",
)


def drawing(data):
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
    print(f"{'batches of ' + str(BATCH):28}{'drawn, images/s':>18}{'trained':>10}{'ratio':>8}")
    for name in SETS:
        names = [f"drawing {name}", f"trainer {name}"]
        found = take_turns(__file__, names, rounds=3)
        draw, train = (found[name] for name in names)
        print(
            f"{name:28}{draw.median:18,.0f}{train.median:10,.0f}{draw.over(train):8.0f}", flush=True
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        kind, name = sys.argv[1:]
        data = untwine.dataset(name)
        if kind == "drawing":
            serve(drawing(data))
        else:
            trainer(data, untwine.build("vae", data, latent=LATENT), "no")
    else:
        main()
