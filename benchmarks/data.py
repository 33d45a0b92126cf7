"""Drawing batches against training on them: what share of a step the data takes.

python benchmarks/data.py [--rounds 5] [--quick]

drawn    batches of random examples, one after the other, and nothing else
trained  a plain VAE on the same data by untwine's own loop, whose steps draw their batches too

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


def drawing(data):
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
    if kind == "drawing":
        serve(drawing(data))
    else:
        trainer(data, untwine.build("vae", data, latent=LATENT), "no")


def row(name, rounds):
    names = [f"drawing {name}", f"trainer {name}"]
    drawn, trained = take_turns(__file__, names, rounds).values()
    share = 100 * trained.median / drawn.median
    return [name, drawn.told(), trained.told(), f"{drawn.over(trained):.0f}", f"{share:.1f} %"]


def main():
    parser = argparse.ArgumentParser(description="Drawing batches against training on them.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer datasets, two rounds")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    section(
        "Data",
        f"Images per second of batches of {BATCH}: drawn and nothing else, and trained on by a "
        f"plain VAE with {LATENT} latents, {rounds} turns each. The ratio of the two is how many "
        "models one source could feed; its inverse is the share of a step that drawing takes.",
    )
    header = ["data", "drawn, images/s", "trained, images/s", "ratio", "share of a step"]
    table(header, [row(name, rounds) for name in (QUICK if options.quick else SETS)])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        contender(*sys.argv[1:])
    else:
        main()
