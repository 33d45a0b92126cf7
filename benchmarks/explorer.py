"""Response times of the explorer, as ratios to a bare decode of one code in the same run.

python benchmarks/explorer.py [RUN] [--rounds 5] [--seconds 2]

bare         model.decode of one code, in a process that does nothing else
one user     moves a slider: one decode.png at a time over one connection
fifty users  the same, fifty at a time; sixty moves a second at most, as a hand on a screen
first paint  what the page requests before it shows something: itself, its files, the runs, one run

The server is a separate process, started by `untwine explore` and warmed up. Without RUN, a small
one is trained, which takes a few seconds.
"""

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import torch
from harness import Result, section, show, table

import untwine
from untwine.runs.directory import open_run
from untwine.runs.finding import find_run

MANY = 50
TICK = 1 / 60  # seconds between two moves of a hand


class Line:
    """A minimal client with one persistent connection, as in a browser."""

    def __init__(self, address):
        self.host, self.port = urlsplit(address).hostname, urlsplit(address).port

    async def get(self, path):
        """The body of a response, which must have status 200."""
        if not hasattr(self, "reader"):
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if " 200 " not in head.partition("\r\n")[0]:
            raise SystemExit(f"{path[:80]}: {head.partition(chr(13))[0]}")
        length = int(re.search(r"content-length: (\d+)", head, re.I)[1])
        return await self.reader.readexactly(length)

    async def timed(self, path):
        began = time.perf_counter()
        await self.get(path)
        return time.perf_counter() - began


async def user(address, base, latents, seconds, seed):
    """Seconds until the response to each move of a slider."""
    line, rng, times = Line(address), np.random.default_rng(seed), []
    code = rng.standard_normal(latents).round(4)
    moved = rng.integers(latents)
    ends = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ends:
        code[moved] = round(3 * np.sin(len(times) / 20 + seed), 4)
        times.append(await line.timed(f"{base}/decode.png?code={','.join(f'{v:g}' for v in code)}"))
        await asyncio.sleep(max(0, began + TICK - time.perf_counter()))
    line.writer.close()
    return times


async def users(count, address, base, latents, seconds):
    moves = [user(address, base, latents, seconds, seed) for seed in range(count)]
    return [spent for one in await asyncio.gather(*moves) for spent in one]


async def first_paint(address, base):
    """The page, then its files at once over six connections, then the runs and the run."""
    lines = [Line(address) for _ in range(6)]
    began = time.perf_counter()
    page = (await lines[0].get("/")).decode()
    files = re.findall(r'(?:src|href)="(page/[^"]+)"', page)
    shares = [files[k :: len(lines)] for k in range(len(lines))]

    async def fetch(line, share):
        for file in share:
            await line.get(f"/{file}")

    await asyncio.gather(*map(fetch, lines, shares))
    await lines[0].get("/api/runs")
    await lines[0].get(base)
    spent = time.perf_counter() - began
    for line in lines:
        if hasattr(line, "writer"):
            line.writer.close()
    return spent


def bare(model, latents, seconds):
    """Seconds of each decoding of one code, mapping included."""
    rng, times, ends = np.random.default_rng(0), [], time.perf_counter() + seconds
    while time.perf_counter() < ends:
        code = torch.from_numpy(rng.standard_normal((1, latents)).astype(np.float32))
        began = time.perf_counter()
        with torch.no_grad():
            model.decode_latents(code)
        times.append(time.perf_counter() - began)
    return times


@contextmanager
def server(path):
    """Start a server of this run; yields its address."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "untwine",
            "explore",
            str(path),
            "--port",
            "0",
            "--no-browser",
            "--no-token",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def measure(path, rounds, seconds):
    """The summary of the run, and the seconds of every request by contender and round."""
    model = open_run(path).model
    times = {"bare": [], "one user": [], f"{MANY} users": [], "first paint": []}
    with server(path) as address:
        base = f"/api/runs/{quote(Path(path).name)}"
        summary = json.loads(asyncio.run(Line(address).get(base)))
        latents = len(summary["latents"])
        asyncio.run(users(2, address, base, latents, 0.5))  # warm up
        bare(model, latents, 0.5)
        for turn in range(rounds):
            show(f"round {turn + 1} of {rounds}")
            times["bare"].append(bare(model, latents, seconds / 4))
            times["one user"].append(asyncio.run(users(1, address, base, latents, seconds)))
            times[f"{MANY} users"].append(asyncio.run(users(MANY, address, base, latents, seconds)))
            times["first paint"].append([asyncio.run(first_paint(address, base)) for _ in range(3)])
        show("")
    return summary, times


def row(name, rounds, unit):
    """The percentiles of one contender; the median also over rounds, and to the bare decode's."""
    middle = [np.median(spent) for spent in rounds]
    ratios = Result.of([mine / bare for mine, bare in zip(middle, unit, strict=True)])
    every = np.concatenate(rounds)
    tail = [f"{1000 * np.percentile(every, p):.1f}" for p in (95, 99)]
    halfway = Result.of([1000 * spent for spent in middle])
    return [name, f"{len(every):,}", halfway.format(".1f"), *tail, ratios.format(".1f")]


def report(summary, times, seconds):
    rounds = len(times["bare"])
    shape = " x ".join(map(str, summary["shape"]))
    section(
        "Explorer",
        f"Milliseconds until the response, of {summary['title']} on {summary['data']} with "
        f"{len(summary['latents'])} latents and images of {shape}. Contenders took turns of "
        f"{seconds:g} s, {rounds} rounds; the median has its spread over rounds, and the last "
        "column is the median as a multiple of the bare decode's in the same round.",
        f"`bare` decodes one code in a process of its own; `one user` and `{MANY} users` move "
        "sliders, each with one connection and at most sixty moves a second; `first paint` is "
        "everything the page requests before it shows something.",
    )
    unit = [np.median(spent) for spent in times["bare"]]
    header = ["", "requests", "median", "95th percentile", "99th percentile", "times bare"]
    table(header, [row(name, spent, unit) for name, spent in times.items()])


def main():
    parser = argparse.ArgumentParser(description="Latencies of the explorer as ratios.")
    parser.add_argument("run", nargs="?", default="", help="a run, or a part of its name")
    parser.add_argument("--out", default="runs", help="the directory that holds the runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if options.run:
            path = find_run(options.run, options.out)
        else:
            spec = untwine.plan("beta-tcvae", "sprites", size=32, beta=6, steps=100, lr=1e-3)
            path = untwine.run(spec, scratch, quiet=True)
        report(*measure(path, options.rounds, options.seconds), options.seconds)


if __name__ == "__main__":
    main()
