"""What a study costs beside its training, how it scales, and how fast a large one is read.

python benchmarks/study.py
"""

import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from harness import machine

from untwine.jobs import Job, complete, is_complete
from untwine.launch import launch
from untwine.results import make_folder, open_folder, results, states
from untwine.spec import plan
from untwine.study import Study, parse, resolve
from untwine.study_report import write_study_report

LARGE = 10_800
STEPS = 1500
STUDY = """
models: {beta-vae: {beta: [1, 2, 4, 6, 8, 16]}, beta-tcvae: {beta: [1, 2, 4, 6, 8, 10]}}
data: [sprites(size=16), sprites(size=20)]
seeds: 450
training: {network: mlp, steps: 10}
metrics: [mig]
"""


def timed(work):
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def scaling(folder):
    """Six runs alone, then in one and in two workers; a first launch warms the disk cache."""
    runs = [
        plan("vae", "sprites(size=32)", network="mlp", steps=STEPS, seed=seed) for seed in range(6)
    ]
    launch([Job(replace(runs[0], steps=5), str(folder / "warm"))])
    alone = timed(lambda: [complete(Job(run, str(folder / "alone"))) for run in runs])[1]
    one = timed(lambda: launch([Job(run, str(folder / "one")) for run in runs]))[1]
    two = timed(lambda: launch([Job(run, str(folder / "two")) for run in runs], workers=2))[1]
    print(f"6 runs of {STEPS} steps: {alone:.1f} s in a loop, {one:.1f} s in one worker process")
    print(f"one worker takes {one / alone:.2f} times the loop; two are {one / two:.2f} times one")


def reading(folder):
    """A study of 10,800 runs whose directories are copies of one."""
    study, planning = timed(lambda: resolve(parse(STUDY, "large.yaml")))
    assert len(study.runs) == LARGE
    where = make_folder(Study("large", study.runs, study.metrics, examples=60), folder)
    first = where.jobs()[0]
    complete(first)
    copies(first, where.jobs()[1:])
    _, skipping = timed(lambda: sum(map(is_complete, where.jobs())))
    opened, opening = timed(lambda: open_folder(where.path))
    _, status = timed(lambda: states(opened))
    table, collecting = timed(lambda: results(opened))
    _, reporting = timed(lambda: write_study_report(opened))
    print(
        f"{len(table):,} runs: planned and built in {planning:.1f} s, skipped in {skipping:.1f} s,"
    )
    print(f"opened in {opening:.1f} s, status in {status:.1f} s, collected in {collecting:.1f} s,")
    print(f"reported in {reporting:.1f} s")


def copies(first, others):
    """The small files of a run for every other run, with scores of their own."""
    kept = json.loads((first.path / "scores.json").read_text())
    for number, job in enumerate(others):
        job.path.mkdir()
        shutil.copy(first.path / "done.json", job.path / "done.json")
        kept["mig"]["values"]["mig"] = number % 97 / 97
        (job.path / "scores.json").write_text(json.dumps(kept))


def main():
    print(machine())
    with tempfile.TemporaryDirectory() as scratch:
        scaling(Path(scratch))
        reading(Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
