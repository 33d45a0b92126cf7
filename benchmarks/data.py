"""Loading batches compared with training on them: the share of a step that data takes.

python benchmarks/data.py [--rounds 5] [--quick]

loaded   random batches, one after the other, without training
trained  a plain VAE on the same data by `untwine.fit`, which loads its batches too

Each dataset has two processes that take turns. About four minutes; a minute with --quick.
"""

import argparse
import sys
import time

import torch
from harness import section, serve, table, take_turns
from train import trainer

import untwine

BATCH, LATENT, SECONDS = 64, 10, 1.0
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
QUICK = SETS[:3]


def loader(data):
    generator = torch.Generator().manual_seed(0)

    def work():
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS:
            data.take(torch.randint(len(data), (BATCH,), generator=generator))
            count += 1
        return count * BATCH / (time.perf_counter() - began)

    return work


def contender(kind, name):
    data = untwine.dataset(name)
    if kind == "loading":
        serve(loader(data))
    else:
        trainer(data, untwine.build("vae", data, latent=LATENT), "no")


def row(name, rounds):
    names = [f"loading {name}", f"trainer {name}"]
    loaded, trained = take_turns(__file__, names, rounds).values()
    share = 100 * trained.median / loaded.median
    return [
        name,
        loaded.format(),
        trained.format(),
        f"{loaded.over(trained):.0f}",
        f"{share:.1f} %",
    ]


def main():
    parser = argparse.ArgumentParser(description="Loading batches compared with training on them.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer datasets, two rounds")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    section(
        "Data",
        f"Images per second in batches of {BATCH}: only loaded, and used to train a plain VAE with "
        f"{LATENT} latents, {rounds} turns each. The ratio is the number of models that one source "
        "could feed; its inverse is the share of a step that loading takes.",
    )
    header = ["data", "loaded, images/s", "trained, images/s", "ratio", "share of a step"]
    table(header, [row(name, rounds) for name in (QUICK if options.quick else SETS)])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        contender(*sys.argv[1:])
    else:
        main()
