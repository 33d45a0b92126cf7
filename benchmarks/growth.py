"""How cost grows with rows, latents, factors, pixels, batches and runs, as slopes.

python benchmarks/growth.py [--rounds 5] [--quick]

Work is timed at several sizes, in turns. The slope is that of a straight line through log time
against log size over the upper half of the sizes, where fixed costs matter least: 0 is constant, 1
is linear, 2 is quadratic. Each round gives a slope; the table shows median, minimum and maximum. A
slope above 1.1 in every round is given a reason. Times are CPU times with one thread, which other
work on the machine disturbs least.
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
from threadpoolctl import threadpool_limits

import untwine
from study import chores, fill_folder
from untwine.registry import metrics
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.representation import Representation
from untwine.scoring.scores import compute, metric_needs
from untwine.train import fit

MIN_SECONDS = 0.02  # of a measurement; shorter work is repeated
BUDGET = 6.0  # seconds, after which work has at most two rounds
STEEP = 1.1
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
    """Work that can be done at several sizes; `make` prepares it for a size."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    make: Callable  # from a size to a function that returns seconds

    @property
    def fitted(self):
        """The sizes used for the slope."""
        return self.sizes[len(self.sizes) // 2 :]


def timer(work):
    """Return a function that repeats the work and returns the seconds of one repetition."""
    work()  # import and compile
    began = time.process_time()
    work()
    spent = time.process_time() - began
    count = max(1, round(MIN_SECONDS / max(spent, 1e-9)))

    def run():
        began = time.process_time()
        for _ in range(count):
            work()
        return (time.process_time() - began) / count

    return run


def rows(n=2_000, latents=10, factors=5):
    """Codes whose first latents are noisy factors, two of them mixed."""
    rng = np.random.default_rng(0)
    levels = np.array(LEVELS[:factors])

    def sample(count):
        f = np.stack([rng.integers(size, size=count) for size in levels], 1)
        z = 0.01 * rng.standard_normal((count, latents))
        shared = min(latents, factors)
        z[:, :shared] += ((f + 0.5) / levels)[:, :shared]
        z[:, :2] = z[:, :2] @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        return z.astype(np.float32), f

    return CodeArrays(*sample(n), *sample(n // 2), others=(sample(n)[0],))


def score_timer(name, **sizes):
    subject, choice = rows(**sizes), metrics.read(name)
    return timer(lambda: compute(subject, choice))


def scores():
    """Scores against rows, latents and factors."""
    for name in SCORES:
        yield Work(name, "rows", ROWS, lambda n, m=name: score_timer(m, n=n))
    for name in SCORES[:-1]:  # the steps of explicitness depend on the latents
        yield Work(name, "latents", LATENTS, lambda n, m=name: score_timer(m, latents=n))
    for name in SCORES:
        if "factors" in metric_needs(metrics[metrics.read(name).name]):
            yield Work(
                name, "factors", FACTORS, lambda n, m=name: score_timer(m, latents=20, factors=n)
            )


def encoding_timer(n):
    data = untwine.dataset("sprites(size=32)")
    model = untwine.build("vae", data)
    return timer(lambda: Representation(model, data, n_examples=n).codes)


def step_timer(name, data, *, batch=64, steps=4, **numbers):
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
    return step_timer("vae", sprites(pixels), network=network, batch=16)


def loading_timer(pixels):
    data = untwine.dataset(sprites(pixels))
    index = np.random.default_rng(0).integers(len(data), size=64)
    return timer(lambda: data.take(index))


def training():
    """Steps against latents, batch and pixels; loading and encoding."""
    small = {"data": "sprites(size=16)", "network": "mlp"}
    for name in ("vae", "beta-tcvae", "dip-vae-i", "sylvester"):
        yield Work(
            f"{name}: step", "latents", LATENTS, lambda n, m=name: step_timer(m, latent=n, **small)
        )
    for name in ("vae", "beta-tcvae", "dip-vae-i", "factor-vae", "dd-sparse", "nested-vae"):
        yield Work(
            f"{name}: step", "batch", BATCHES, lambda n, m=name: step_timer(m, batch=n, **small)
        )
    pixels = tuple(side**2 for side in SIDES)
    for network in ("conv", "conv-k4"):
        make = partial(on_sprites, network=network)
        yield Work(f"vae, {network}: step", "pixels", pixels, make)
    yield Work("sprites: loading", "pixels", pixels, loading_timer)
    yield Work("vae: encoding", "rows", ROWS[:-1], encoding_timer)


def studies(folder):
    """Work on a whole study against its number of runs."""
    folders = {SETTINGS * seeds: fill_folder(folder, seeds) for seeds in SEEDS}
    for chore in chores(folders[min(folders)], min(SEEDS)):
        yield Work(
            chore, "runs", tuple(folders), partial(chore_timer, folders=folders, chore=chore)
        )
    yield Work("UDR", "models", (4, 8, 16, 32), udr_timer)


def chore_timer(runs, *, folders, chore):
    return timer(chores(folders[runs], runs // SETTINGS)[chore])


def udr_timer(count):
    rng = np.random.default_rng(0)
    codes = [rng.standard_normal((1_000, 10)) for _ in range(count)]
    return timer(lambda: untwine.metrics.udr(codes))


def measure(work, rounds):
    """(rounds, sizes) seconds; fewer rounds if they take long."""
    runs = [work.make(size) for size in work.sizes]
    rows, began = [], time.perf_counter()
    with threadpool_limits(1):  # of all libraries, which the first call has loaded
        while len(rows) < rounds and (len(rows) < 2 or time.perf_counter() - began < BUDGET):
            show(f"{work.name} against {work.unit}: round {len(rows) + 1}")
            rows.append([run() for run in runs])
    show("")
    return np.array(rows)


def slopes(work, spent):
    """(rounds,) slopes of log time against log size over the upper half of the sizes."""
    half = len(work.fitted)
    return np.polyfit(np.log(work.fitted), np.log(spent[:, -half:]).T, 1)[0]


def row(work, rounds):
    spent = measure(work, rounds)
    slope = Result.of(slopes(work, spent).tolist())
    first, last = np.median(spent[:, [0, -1]], 0) * 1000
    name = work.name.partition(":")[0]
    reason = REASONS.get(name, "unknown") if slope.low > STEEP else ""
    return [
        work.name,
        f"{work.unit}, {work.sizes[0]:,} to {work.sizes[-1]:,}",
        f"from {work.fitted[0]:,}",
        f"{first:.3g} to {last:.3g}",
        slope.format(".2f"),
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
        "Slopes of log time against log size over the upper half of the sizes: 1 is linear, 2 is "
        "quadratic. Brackets hold the minimum and maximum over rounds; a slope above "
        f"{STEEP} in all of them is given a reason. The size of an image is its number of pixels.",
    )
    with tempfile.TemporaryDirectory() as scratch:
        works = [*scores(), *training(), *studies(Path(scratch))]
        lines = [row(work, rounds) for work in works]
    table(["work", "against", "fitted", "ms, smallest to largest", "slope", "why above 1"], lines)


if __name__ == "__main__":
    main()
