"""Interleaved measurement: every contender in a process of its own, a turn each, several rounds.

A shared machine drifts; contenders that take turns drift together, so ratios of medians hold.
"""

import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    median: float
    low: float
    high: float

    def over(self, other):
        return self.median / other.median


def serve(work):
    """In a contender: do the work each time a line arrives, and print its rate."""
    work()  # warm up
    print("ready", flush=True)
    for _ in sys.stdin:
        print(work(), flush=True)


def take_turns(script, contenders, rounds=7):
    """Run `script CONTENDER` for each and let them take turns; {contender: Result}."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, script, *name.split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in contenders
    }
    for name, process in processes.items():
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{name} did not start")
    rates = {name: [] for name in contenders}
    for turn in range(rounds):
        for name, process in processes.items():
            show(f"round {turn + 1} of {rounds}: {name}")
            process.stdin.write("go\n")
            process.stdin.flush()
            rates[name].append(float(process.stdout.readline()))
    show("")
    for process in processes.values():
        process.stdin.close()
        process.wait()
    return {name: Result(statistics.median(v), min(v), max(v)) for name, v in rates.items()}


def show(text):
    if sys.stderr.isatty():
        print(f"\r{text:60}\r", end="", file=sys.stderr, flush=True)


def machine():
    import os

    import torch

    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    )
