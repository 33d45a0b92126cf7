"""How cost grows with rows, latents, factors, pixels, batches and runs, as slopes.

python benchmarks/growth.py [--rounds 5] [--quick]

Every piece of work is done at several sizes that take turns. The slope is that of a straight line
through the logarithms of time against those of size, over the upper half of the sizes, where fixed
costs weigh least: 0 costs the same at every size, 1 grows in proportion, 2 with the square. There
is a slope for every round; their median is given, with the least and the most of them. A slope that
is above 1 in every round by more than a tenth is marked with its reason. Times are those of the
processor with one thread, which other work on the machine disturbs least.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from harness import Result, section, show, table
from study import chores, filled
from threadpoolctl import threadpool_limits

import untwine
from untwine.registry import metrics
from untwine.representation import Representation, Rows
from untwine.scoring import compute, needs
from untwine.train import fit

LEAST = 0.02  # seconds of a measurement; what takes less is repeated
BUDGET = 6.0  # seconds, after which a work has no more rounds than two
CLEARLY = 1.1
LEVELS = (3, 6, 40, 32, 32, 4, 8, 5, 10, 3, 6, 4, 8, 5, 10, 3)
ROWS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
LATENTS = (2, 4, 8, 16, 32, 64)
FACTORS = (2, 4, 8, 16)
SIDES = (16, 32, 64, 128)
BATCHES = (16, 32, 64, 128, 256, 512)
SETTINGS, SEEDS = 24, (4, 12, 40, 120)  # of studies
SCORES = (
    *("mig", "modularity", "sap", "sap[svm]", "irs", "factor-vae-score", "beta-vae-score"),
    *("total-correlation", "latent-information", "udr", "dci", "explicitness"),
)
REASONS = {
    "beta-tcvae": "every sample under every posterior of the batch: B x B x D",
    "dd-sparse": "every two codes of the batch: B x B x D",
    "nested-vae": "every two codes of the batch: B x B x D",
    "latent-information": "every two latents",
    "udr": "every latent regressed on all of another model: D x D",
    "UDR": "every two models",
    "explicitness": "a weaker penalty on more rows: the solver takes more steps",
    "dci": "rows are sorted: n log n",
}


@dataclass(frozen=True)
class Work:
    """Something that can be done at several sizes; `make` gives what takes the time."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    make: Callable  # of a size: a function that returns the seconds it took

    @property
    def fitted(self):
        """The sizes whose times the slope is of."""
        return self.sizes[len(self.sizes) // 2 :]


def timed(work):
    """A function that does the work, often enough to be timed, and returns its seconds."""
    work()  # what is imported or compiled once
    began = time.process_time()
    work()
    spent = time.process_time() - began
    count = max(1, round(LEAST / max(spent, 1e-9)))

    def run():
        began = time.process_time()
        for _ in range(count):
            work()
        return (time.process_time() - began) / count

    return run


def rows(n=2_000, latents=10, factors=5):
    """Codes of so many latents, of which the first are noisy factors and two of them mixed."""
    rng = np.random.default_rng(0)
    levels = np.array(LEVELS[:factors])

    def some(count):
        f = np.stack([rng.integers(size, size=count) for size in levels], 1)
        z = 0.01 * rng.standard_normal((count, latents))
        shared = min(latents, factors)
        z[:, :shared] += ((f + 0.5) / levels)[:, :shared]
        z[:, :2] = z[:, :2] @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        return z.astype(np.float32), f

    return Rows(*some(n), *some(n // 2), others=(some(n)[0],))


def scored(name, **sizes):
    subject, choice = rows(**sizes), metrics.read(name)
    return timed(lambda: compute(subject, choice))


def scores():
    """Scores against rows, latents and factors."""
    for name in SCORES:
        yield Work(name, "rows", ROWS, lambda n, m=name: scored(m, n=n))
    for name in SCORES[:-1]:  # the steps of explicitness depend on what the latents hold
        yield Work(name, "latents", LATENTS, lambda n, m=name: scored(m, latents=n))
    for name in SCORES:
        if "factors" in needs(metrics[metrics.read(name).name]):
            yield Work(name, "factors", FACTORS, lambda n, m=name: scored(m, latents=20, factors=n))


def encoding(n):
    data = untwine.dataset("sprites(size=32)")
    model = untwine.build("vae", data)
    return timed(lambda: Representation(model, data, n=n).codes)


def trained(name, data, *, batch=64, steps=4, **numbers):
    """Seconds of a step, from the second on."""
    data = untwine.dataset(data)
    model = untwine.build(name, data, **numbers)

    def run():
        times = []

        def stop():
            times.append(time.process_time())
            return len(times) > steps + 1

        try:
            fit(model, data, steps=10**9, batch=batch, device="cpu", quiet=True, stop=stop)
        except KeyboardInterrupt:
            return (times[-1] - times[1]) / steps

    run()
    return run


def sprites(pixels):
    return f"sprites(size={round(pixels**0.5)})"


def on_sprites(pixels, *, network):
    return trained("vae", sprites(pixels), network=network, batch=16)


def drawn(pixels):
    data = untwine.dataset(sprites(pixels))
    index = np.random.default_rng(0).integers(len(data), size=64)
    return timed(lambda: data.take(index))


def training():
    """Steps against latents, batch and pixels; drawing and encoding."""
    small = {"data": "sprites(size=16)", "network": "mlp"}
    for name in ("vae", "beta-tcvae", "dip-vae-i", "sylvester"):
        yield Work(
            f"{name}: step", "latents", LATENTS, lambda n, m=name: trained(m, latent=n, **small)
        )
    for name in ("vae", "beta-tcvae", "dip-vae-i", "factor-vae", "dd-sparse", "nested-vae"):
        yield Work(
            f"{name}: step", "batch", BATCHES, lambda n, m=name: trained(m, batch=n, **small)
        )
    pixels = tuple(side**2 for side in SIDES)
    for network in ("conv", "conv-k4"):
        make = partial(on_sprites, network=network)
        yield Work(f"vae, {network}: step", "pixels", pixels, make)
    yield Work("sprites: drawing", "pixels", pixels, drawn)
    yield Work("vae: encoding", "rows", ROWS[:-1], encoding)


def studies(folder):
    """What is done with a whole study against its runs."""
    opened = {SETTINGS * seeds: filled(folder, seeds) for seeds in SEEDS}
    for chore in chores(opened[min(opened)], min(SEEDS)):
        yield Work(chore, "runs", tuple(opened), partial(done, opened=opened, chore=chore))
    yield Work("UDR", "models", (4, 8, 16, 32), agreement)


def done(runs, *, opened, chore):
    return timed(chores(opened[runs], runs // SETTINGS)[chore])


def agreement(count):
    rng = np.random.default_rng(0)
    codes = [rng.standard_normal((1_000, 10)) for _ in range(count)]
    return timed(lambda: untwine.metrics.udr(codes))


def measured(work, rounds):
    """(rounds, sizes) seconds; fewer rounds where they would take long."""
    runs = [work.make(size) for size in work.sizes]
    found, began = [], time.perf_counter()
    with threadpool_limits(1):  # of all libraries, which the first call has loaded
        while len(found) < rounds and (len(found) < 2 or time.perf_counter() - began < BUDGET):
            show(f"{work.name} against {work.unit}: round {len(found) + 1}")
            found.append([run() for run in runs])
    show("")
    return np.array(found)


def slopes(work, spent):
    """(rounds,) slopes of log time against log size over the upper half of the sizes."""
    half = len(work.fitted)
    return np.polyfit(np.log(work.fitted), np.log(spent[:, -half:]).T, 1)[0]


def row(work, rounds):
    spent = measured(work, rounds)
    slope = Result.of(slopes(work, spent).tolist())
    first, last = np.median(spent[:, [0, -1]], 0) * 1000
    name = work.name.partition(":")[0]
    reason = REASONS.get(name, "not known") if slope.low > CLEARLY else ""
    return [
        work.name,
        f"{work.unit}, {work.sizes[0]:,} to {work.sizes[-1]:,}",
        f"from {work.fitted[0]:,}",
        f"{first:.3g} to {last:.3g}",
        slope.told(".2f"),
        reason,
    ]


def main():
    parser = argparse.ArgumentParser(description="Cost against size, as slopes.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    torch.set_num_threads(1)
    os.environ["NUMBA_NUM_THREADS"] = "1"  # read when it is first imported
    section(
        "Growth",
        "Slopes of log time against log size over the upper half of the sizes: 1 grows in "
        "proportion to the size, 2 with its square. Brackets hold the least and the most of "
        f"several rounds; a slope above {CLEARLY} in all of them has its reason beside it. Images "
        "count by their pixels.",
    )
    with tempfile.TemporaryDirectory() as scratch:
        works = [*scores(), *training(), *studies(Path(scratch))]
        found = [row(work, rounds) for work in works]
    table(["work", "against", "fitted", "ms, least to most", "slope", "why above 1"], found)


if __name__ == "__main__":
    main()
