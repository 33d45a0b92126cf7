"""Training beside busy neighbours, as ratios to one thread.

python benchmarks/busy.py [--rounds 10 4] [--neighbours 0 1 4] [--cases conv64 ...]

untwine   as the command trains: its spin count, threads from the specification, sleeping when busy
spinning  all threads with the defaults of torch: every waiting thread spins
one       one thread

A neighbour is a process that computes without end. Without neighbours rates are images per second;
beside them images per CPU second of the training itself, which says what is wasted. Medians of ten
turns without neighbours, of four beside them.

Aims: without neighbours at least 0.96 of spinning in the mean and 0.88 in each case; beside four
0.7 of the work of one thread.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext

from harness import section, table, take_turns

CASES = {
    "conv64": ("sprites(size=64)", "conv-k4", 64),
    "conv32": ("sprites(size=32)", "conv-k4", 64),
    "mlp16": ("sprites(size=16)", "mlp(width=128)", 64),
    "mlp28": ("digits", "mlp(width=256)", 64),
    "toy": ("circle", "mlp-toy", 100),
    "tanh64": ("sprites(size=64)", "mlp-tanh(width=1200)", 64),
}
MODES = ("untwine", "spinning", "one")
SECONDS = 2.0  # of a turn
SETTLING = 0.5  # seconds at the start of a turn that do not count
NEIGHBOUR = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10**6))"


def contend(case, mode, clock):
    """In a process of its own: train in turns and print the rate of each."""
    if mode == "untwine":
        from untwine.cli.main import SPIN_COUNT

        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    import torch

    import untwine
    from untwine import train
    from untwine.tools.threads import pick_threads

    data_name, network, batch = CASES[case]
    data = untwine.dataset(data_name)
    model = untwine.build("vae", data, network=network)
    if mode == "untwine":
        torch.set_num_threads(pick_threads(model, batch))
    elif mode == "one":
        torch.set_num_threads(1)
    else:
        train.sleep_when_busy = lambda: nullcontext(lambda: None)
    now = time.perf_counter if clock == "wall" else time.process_time
    count, began, settled, until = 0, 0.0, 0.0, 0.0

    def pause():
        nonlocal count, began, settled, until
        if time.perf_counter() < settled:
            count, began = 0, now()
            return False
        if time.perf_counter() < until:
            count += 1
            return False
        if until:
            print(count * batch / (now() - began), flush=True)
        if not sys.stdin.readline():
            return True
        settled = time.perf_counter() + SETTLING
        until = settled + SECONDS
        return False

    train.fit(model, data, steps=50, batch=batch, quiet=True)  # warm up
    print("ready", flush=True)
    try:
        train.fit(model, data, steps=10**8, batch=batch, stop=pause, quiet=True)
    except KeyboardInterrupt:
        pass


@contextmanager
def neighbours(count):
    processes = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(cases, count, rounds):
    """Print the table for one number of neighbours."""
    clock, unit = ("wall", "second") if count == 0 else ("cpu", "CPU second")
    rows, ratios = [], []
    for case in cases:
        with neighbours(count):
            results = take_turns(__file__, [f"{case} {mode} {clock}" for mode in MODES], rounds)
        ours, spinning, one = results.values()
        ratios.append((ours.over(spinning), ours.over(one)))
        cells = (one.format(), f"{spinning.over(one):.2f}", f"{ours.over(one):.2f}")
        rows.append((case, *cells, f"{ours.over(spinning):.2f}"))
    means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    print(
        f"{count} busy neighbours, images per {unit} (geometric means: untwine / one thread "
        f"{means[1]:.2f}, untwine / spinning {means[0]:.2f}):\n"
    )
    table(("case", "one thread", "spinning", "untwine", "untwine / spinning"), rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, nargs=2, default=[10, 4], help="quiet, and busy")
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 4])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    options = parser.parse_args()
    section("On a busy machine", *(__doc__ or "").split("\n\n")[2:])
    for count in options.neighbours:
        measure(options.cases, count, options.rounds[count > 0])


if __name__ == "__main__":
    contend(*sys.argv[1:]) if len(sys.argv) == 4 and sys.argv[1] in CASES else main()
