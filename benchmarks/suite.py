"""The tests of an earlier commit that remain: their processor time then and now.

python benchmarks/suite.py [--before f4f3e55] [--workers 2] [--one-in 6]

Of each suite one test in six runs, chosen by a hash of its name, in this environment and one suite
after the other. A test is known by its name and parameters, wherever its file lies; time is that of
the process and its children, fixtures included, which a busy machine changes little. Six minutes on
two cores; all tests take half an hour.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import pytest
from harness import section, table

ROOT = Path(__file__).parents[1]


def spent():
    """Seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_collection_modifyitems(items):
    """Keep one test in so many, the same ones in every suite."""
    share = int(os.environ["TEST_SHARE"])
    items[:] = [item for item in items if zlib.crc32(item.name.encode()) % share == 0]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """In a worker: append the name of a test and its seconds to a file."""
    began = spent()
    yield
    with open(os.environ["TEST_TIMES"], "a") as lines:
        lines.write(f"{spent() - began}\t{item.name}\n")


def git(*words):
    return subprocess.check_output([shutil.which("git"), "-C", ROOT, *words], text=True).strip()


def measure(commit, folder, workers, share):
    """{name of a test: seconds}, those of tests with the same name added."""
    clone, times = folder / commit, folder / f"{commit}.txt"
    git("worktree", "add", "--detach", "--quiet", clone, commit)
    places = os.pathsep.join([str(clone / "src"), str(ROOT / "benchmarks")])
    words = ["-m", "pytest", "-q", "-p", "suite", "-n", str(workers), "--dist", "worksteal"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=clone,
        env={
            "UNTWINE_SHARED": str(ROOT.parent / "shared"),
            **os.environ,
            "PYTHONPATH": places,
            "TEST_TIMES": str(times),
            "TEST_SHARE": str(share),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    git("worktree", "remove", "--force", clone)
    print(f"{commit}: {done.stdout.strip().splitlines()[-1]}", file=sys.stderr)
    seconds = Counter()
    for line in times.read_text().splitlines():
        value, _, name = line.partition("\t")
        seconds[name] += float(value)
    return seconds


def main():
    parser = argparse.ArgumentParser(description="The earlier tests that remain, then and now.")
    parser.add_argument("--before", default="f4f3e55")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one-in", type=int, default=6, help="run one test in so many")
    options = parser.parse_args()
    now = git("rev-parse", "--short", "HEAD")
    with tempfile.TemporaryDirectory() as scratch:
        before, after = (
            measure(commit, Path(scratch), options.workers, options.one_in)
            for commit in (options.before, now)
        )
    same = before.keys() & after.keys()
    old, new = (sum(times[name] for name in same) for times in (before, after))
    section(
        "Tests",
        f"One test in {options.one_in} of {options.before} ({len(before):,}) and of {now} "
        f"({len(after):,}). Processor seconds of the {len(same):,} that both have, by name: "
        f"{old:,.0f} and {new:,.0f}, a ratio of {new / old:.2f}. The largest changes:",
    )
    changes = sorted(same, key=lambda name: -abs(before[name] - after[name]))[:12]
    table(
        ["test", f"{options.before}, s", f"{now}, s"],
        [[name[:70], f"{before[name]:.1f}", f"{after[name]:.1f}"] for name in changes],
    )


if __name__ == "__main__":
    main()
