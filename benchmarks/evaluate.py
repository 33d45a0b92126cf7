"""Scoring a model for the first time, and another one on the same data: references are kept.

python benchmarks/evaluate.py [--rounds 3] [--quick]

first   `untwine evaluate` with an empty cache: the scores of the reference codes are computed too
second  the same command once they are kept, as for every further model on this data

A beta-tcvae on sprites of 32 pixels, all metrics that take seconds, 10,000 examples and 5,000 to
test on. Processor seconds of fresh processes with one thread, which other load changes little.
"""

import argparse
import os
import subprocess
import sys
import tempfile

from harness import Result, section, show, table

import untwine

STEPS = 500


def processor_seconds(path, cache, examples):
    """What `untwine evaluate` of a run without scores takes."""
    (path / "scores.json").unlink(missing_ok=True)
    words = ["-m", "untwine", "evaluate", str(path), "--examples", str(examples), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", "UNTWINE_DATA": cache},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("untwine evaluate failed")
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description="Scoring with and without kept references.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, 1,000 examples")
    options = parser.parse_args()
    rounds, examples = (1, 1_000) if options.quick else (options.rounds, 10_000)
    spent = {"first": [], "second": []}
    with tempfile.TemporaryDirectory() as scratch:
        plan = untwine.plan("beta-tcvae", "sprites", size=32, steps=STEPS)
        path = untwine.run(plan, scratch, quiet=True)
        processor_seconds(path, scratch, 100)  # compiles what is not compiled yet
        for turn in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                for name, values in spent.items():
                    show(f"round {turn + 1} of {rounds}: {name}")
                    values.append(processor_seconds(path, cache, examples))
    first, second = map(Result.of, spent.values())
    section(
        "Scoring a model",
        f"Processor seconds of `untwine evaluate` of a beta-tcvae on sprites of 32 pixels, "
        f"{examples:,} examples, one thread: with an empty cache, and once the scores of the "
        "reference codes are kept.",
    )
    rows = [
        [name, result.format(".1f"), f"{first.over(result):.2f}"]
        for name, result in (("first", first), ("second", second))
    ]
    table(["", "processor seconds", "times as fast as the first"], rows)


if __name__ == "__main__":
    main()
