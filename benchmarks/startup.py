"""Start-up as ratios; every contender is a fresh process, and they take turns.

python benchmarks/startup.py [--rounds 5] [--quick]

python          the interpreter and nothing else
untwine --help  the help of the command
import torch    the cost of every command that computes
import untwine  the package, which loads its names on first use
ready to train  import untwine and everything needed to build and train a model
one step        `untwine train vae` of one step on sprites of 16 pixels
untwine score   MIG of 1,000 codes in a file
untwine runs    a list of 1,000 runs
first page      `untwine explore` of a small run, from its start to its page
first image     the same, to the first decoded PNG

Then, for every dataset that needs no files, the time from its name to its first batch, with torch
and untwine loaded, as a multiple of a later batch of sprites. `first time` fills the cache of the
dataset; `first batch` reads it. About five minutes; one with --quick.
"""

import argparse
import asyncio
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
from explorer import Line, server
from harness import Result, seconds, section, show, table

import untwine
from untwine.registry import datasets

BATCH, LATER = 64, 30
RUNS = 1_000
COMMANDS = {
    "python": ["-c", "pass"],
    "untwine --help": ["-m", "untwine", "--help"],
    "import torch": ["-c", "import torch"],
    "import untwine": ["-c", "import untwine"],
    "ready to train": ["-c", "import untwine; untwine.dataset, untwine.build, untwine.fit"],
}
SMALL = {  # derived datasets of procedural ones, and fewer examples where rendering is slow
    "faces": "faces(count=500)",
    "coloured-mnist": "coloured-mnist(of=digits)",
    "digit-series": "digit-series(of=digits)",
    "mnist-01": "mnist-01(of=digits)",
    "mixed": "mixed(first=sprites, second=sprites)",
}
USER_DATA = ("array", "folder", "memory", "table")
QUICK = ("sprites", "digits", "circle")


def command(words):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, *words], check=True, **quiet)


def answer_of(path, request):
    """Start the explorer of a run and wait for the answer to a request."""

    def work():
        with server(path) as address:
            asyncio.run(Line(address).get(request))

    return work


def one_step(folder):
    """Train one step, in a directory of its own each time."""
    train = ["train", "vae", "sprites", "--set", "size=16", "--network", "mlp", "--steps", "1"]
    turns = itertools.count()
    return lambda: command(["-m", "untwine", *train, "-q", "--out", str(folder / str(next(turns)))])


def many_runs(path, folder):
    """Copies of a run without its weights, which the list does not read."""
    for number in range(RUNS):
        shutil.copytree(
            path, folder / f"{path.name}-{number}", ignore=shutil.ignore_patterns("*.safetensors")
        )
    return folder


def small_arrays(folder):
    """The files of codes and factors of 1,000 examples."""
    rng = np.random.default_rng(0)
    files = [folder / "codes.npy", folder / "factors.npy"]
    np.save(files[0], rng.normal(size=(1_000, 10)))
    np.save(files[1], rng.integers(5, size=(1_000, 5)))
    return list(map(str, files))


def contenders(scratch):
    """{name: what to time}."""
    path = untwine.run(untwine.plan("vae", "sprites", size=32, steps=10), scratch, quiet=True)
    untwine.evaluate_run(path, metrics=["mig", "reconstruction"], n_examples=500, quiet=True)
    origin = ",".join(["0"] * untwine.open_run(path).spec.latent)
    listed = str(many_runs(path, scratch / "many"))
    works = {name: lambda words=words: command(words) for name, words in COMMANDS.items()}
    score = ["-m", "untwine", "score", *small_arrays(scratch), "--metrics", "mig", "-q"]
    return works | {
        "one step": one_step(scratch / "trained"),
        "untwine score": lambda: command(score),
        "untwine runs": lambda: command(["-m", "untwine", "runs", "--out", listed]),
        "first page": answer_of(path, "/"),
        "first image": answer_of(path, f"/api/runs/{quote(path.name)}/decode.png?code={origin}"),
    }


def start_times(rounds):
    """{contender: Result} in seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        works = contenders(Path(scratch))
        spent = {name: [] for name in works}
        for turn in range(rounds + 1):
            for name, work in works.items():
                show(f"round {turn} of {rounds}: {name}")
                spent[name].append(seconds(work))
    return {
        name: Result.of(values[1:]) for name, values in spent.items()
    }  # the first round fills caches


def first_batch(name):
    """In a contender: print the seconds of the first batch, and of a later one of sprites."""
    import torch

    _ = untwine.build, untwine.fit
    sprites = []

    def first():
        data = untwine.dataset(name)
        data.take(torch.arange(min(BATCH, len(data))))

    def later():
        sprites[0].take(torch.randint(len(sprites[0]), (BATCH,)))

    began = seconds(first)
    sprites.append(untwine.dataset("sprites"))
    print(began, statistics.median(seconds(later) for _ in range(LATER)))


def measure_first_batch(name, cache):
    """Seconds of the first batch, and of a later one of sprites, in a process of their own."""
    done = subprocess.run(
        [sys.executable, __file__, "first-batch", name],
        env={**os.environ, "UNTWINE_DATA": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return map(float, done.stdout.split())


def first_batches(names, rounds):
    """{dataset: seconds with an empty and with a filled cache}, and seconds of later batches."""
    results, unit = {name: ([], []) for name in names}, []
    for turn in range(rounds):
        for name, (empty, filled) in results.items():
            show(f"round {turn + 1} of {rounds}: first batch of {name}")
            with tempfile.TemporaryDirectory() as cache:
                spent, later = measure_first_batch(name, cache)
                if any(Path(cache).iterdir()):
                    empty.append(spent)
                    spent, later = measure_first_batch(name, cache)
            filled.append(spent)
            unit.append(later)
    show("")
    return results, Result.of(unit)


def procedural_datasets():
    """The datasets that need no files."""
    names = [name for name in datasets if not datasets[name].metadata.get("files")]
    return [SMALL.get(name, name) for name in names if name not in USER_DATA]


def print_start_times(rounds):
    results = start_times(rounds)
    python, torch = results["python"], results["import torch"]
    rows = [
        [name, spent.format(".3f"), f"{spent.over(python):.1f}", f"{spent.over(torch):.2f}"]
        for name, spent in results.items()
    ]
    table(["process", "seconds", "of python", "of import torch"], rows)


def print_first_batches(names, rounds):
    results, unit = first_batches(names, rounds)
    rows = []
    for name, (empty, filled) in results.items():
        first, again = (Result.of(spent) if spent else None for spent in (empty, filled))
        times = [f"{spent.over(unit):,.0f}" if spent else "" for spent in (again, first)]
        rows.append([name, again.format(".2f"), *times])
    table(["data", "seconds", "first batch", "first time"], rows)


def main():
    parser = argparse.ArgumentParser(description="Start-up as ratios.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds, three datasets")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    section(
        "Start-up",
        f"Fresh processes that take turns, {rounds} rounds after one that fills the system's "
        "caches. `one step` is `untwine train` of one step, `untwine score` MIG of 1,000 codes, "
        f"`untwine runs` a list of {RUNS:,} runs; `first page` and `first image` are from the "
        "start of the explorer to its page and to the first decoded picture.",
        f"Below, from a dataset's name to its first batch of {BATCH} in a process that has loaded "
        "torch and untwine: in seconds, and as a multiple of the median later batch of 64-pixel "
        "sprites in those processes. The first name that is looked up loads the declarations of "
        "all datasets. `first time` is the multiple where an empty cache has to be filled first.",
    )
    print_start_times(rounds)
    print_first_batches(QUICK if options.quick else procedural_datasets(), max(2, rounds - 2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["first-batch"]:
        first_batch(sys.argv[2])
    else:
        main()
