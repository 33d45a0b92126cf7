"""Encoding and decoding for scores and images, compared with a plain loop.

python benchmarks/encode.py [--rounds 7]

plain     the same layers in PyTorch's default layout, batch after batch, images resident
untwine   `Representation.codes`, which also renders the images, and `VAE.decode`
"""

import argparse
import sys
import time

import torch
from harness import section, serve, table, take_turns
from loops import BATCH, LATENT, network

import untwine
from untwine.scoring.representation import Representation

COUNT = 4096
SIZE = 64


def rate(work):
    """Images per second of work on COUNT of them."""
    began = time.perf_counter()
    with torch.no_grad():
        work()
    return COUNT / (time.perf_counter() - began)


def contender(kind, direction):
    data = untwine.dataset("sprites", size=SIZE)
    z = torch.randn(COUNT, LATENT)
    if kind == "plain":
        halves = network(SIZE)
        module, inputs = (
            (halves[0], data.take(list(range(COUNT))))
            if direction == "encoding"
            else (halves[1], z)
        )
        serve(lambda: rate(lambda: [module(part) for part in inputs.split(BATCH)]))
        return
    model = untwine.build("vae", data, latent=LATENT, network="conv-k4")
    if direction == "encoding":
        serve(
            lambda: rate(lambda: Representation(model, data, n_examples=COUNT, chunk=BATCH).codes)
        )
    else:
        Representation(model, data)
        serve(lambda: rate(lambda: [model.decode(part) for part in z.split(BATCH)]))


def main():
    parser = argparse.ArgumentParser(description="Encoding and decoding as ratios.")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    section(
        "Encoding and decoding",
        f"{COUNT:,} sprites of {SIZE} pixels in batches of {BATCH}, as scores and images need "
        "them. `plain` is the same layers in PyTorch's default layout on images in memory; "
        "`untwine` also renders the images.",
    )
    rows = []
    for direction in ("encoding", "decoding"):
        plain, ours = f"plain {direction}", f"untwine {direction}"
        results = take_turns(__file__, [plain, ours], options.rounds)
        ratio = f"{results[ours].over(results[plain]):.2f}"
        rows.append([direction, results[plain].format(), results[ours].format(), ratio])
    table(["", "plain, images/s", "untwine, images/s", "ratio"], rows)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in {"plain", "untwine"}:
        contender(*sys.argv[1:])
    else:
        main()
