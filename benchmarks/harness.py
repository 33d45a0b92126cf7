"""Interleaved measurement, and the tables that every benchmark prints.

A shared machine drifts; contenders that take turns drift together, so ratios of medians hold.
Every script here prints one section in Markdown; `page.py` collects them in RESULTS.md.
"""

import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """The median of several turns, with their minimum and maximum."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values):
        return cls(statistics.median(values), min(values), max(values))

    def over(self, other):
        return self.median / other.median

    def format(self, spec=",.0f"):
        """`531 (512 to 540)`, with each number in this format."""
        return f"{self.median:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


def serve(work):
    """In a contender process: do the work whenever a line arrives, and print its rate."""
    work()  # warm up
    print("ready", flush=True)
    for _ in sys.stdin:
        print(work(), flush=True)


def take_turns(script, contenders, rounds=7, python=None):
    """Run `script CONTENDER` for each contender, in turns; {contender: Result}.

    `python` names another interpreter for some contenders: {contender: path}.
    """
    processes = {
        name: subprocess.Popen(
            [(python or {}).get(name, sys.executable), script, *name.split()],
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
    return {name: Result.of(values) for name, values in rates.items()}


def interleaved(works, rounds=7, *, warm_up=True):
    """Time functions of this process, in turns; {name: Result} in seconds."""
    for work in works.values() if warm_up else ():
        work()
    spent = {name: [] for name in works}
    for turn in range(rounds):
        for name, work in works.items():
            show(f"round {turn + 1} of {rounds}: {name}")
            spent[name].append(seconds(work))
    show("")
    return {name: Result.of(values) for name, values in spent.items()}


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(text):
    """Show a line of progress if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text:70}\r", end="", file=sys.stderr, flush=True)


def section(title, *paragraphs):
    """Print the heading of a section, and what its figures mean."""
    print(f"## {title}\n")
    for paragraph in paragraphs:
        print(f"{paragraph}\n")


def table(header, rows):
    """Print a Markdown table: first column left-aligned, others right-aligned."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells):
        first, *rest = zip(cells, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
        print(f"| {' | '.join(padded)} |")

    line(header)
    marks = ["-" * width for width in widths]
    line([marks[0], *(mark[:-1] + ":" for mark in marks[1:])])
    for row in rows:
        line(row)
    print(flush=True)


def machine():
    """The hardware and software of the measurement, in one line."""
    import torch

    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; Python "
        f"{platform.python_version()}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    )


def processor():
    """The name of the processor, if the system reports one."""
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()
