"""The overhead of a study, how it scales with workers, and how fast a large one is read.

python benchmarks/study.py [--rounds 3] [--quick]

in a loop    runs one after the other in this process, with all its threads
one worker   `launch` with one worker process of one thread
two workers  the same with two

A study of many runs is planned, opened, read and reported at two sizes. The ratio of the times per
run shows whether any of this grows faster than the number of runs. Then one of 100,000 runs is
planned, which nobody trains here, and finished runs are given to Ray, to see how many it takes in a
second. About five minutes; half a minute with --quick.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path

from harness import Result, interleaved, seconds, section, table

from untwine.report.study import write_study_report
from untwine.spec import plan
from untwine.study.document import parse
from untwine.study.file import Study, expand
from untwine.study.folder import make_folder, open_folder, runs_by_state
from untwine.study.job import Job, finish_job, is_complete
from untwine.study.local import launch
from untwine.study.table import results_table
from untwine.tools.sealed import read_json, write_json

RUNS, STEPS = 8, 2000
SIZE_RATIO = 10  # of the larger and the smaller study
SEEDS = 450  # of the larger study, which has 10,800 runs
HUGE_SEEDS = (
    4_166  # of a study of nearly 100,000 runs, the most that a file may ask for; only planned
)
STUDY = """
models: {beta-vae: {beta: [1, 2, 4, 6, 8, 16]}, beta-tcvae: {beta: [1, 2, 4, 6, 8, 10]}}
data: [sprites(size=16), sprites(size=20)]
seeds: SEEDS
training: {network: mlp, steps: 10}
metrics: [mig]
"""


def scaling(folder, steps, rounds):
    """The same runs alone, in one and in two workers; a first launch warms the disk cache."""
    specs = [
        plan("vae", "sprites(size=16)", network="mlp", steps=steps, seed=k) for k in range(RUNS)
    ]
    launch([Job(replace(specs[0], steps=5), str(folder / "warm"))])
    turns = count()  # a new folder for each turn, because finished runs are skipped

    def jobs():
        storage = str(folder / f"turn-{next(turns)}")
        return [Job(spec, storage) for spec in specs]

    works = {
        "in a loop": lambda: [finish_job(job) for job in jobs()],
        "one worker": lambda: launch(jobs()),
        "two workers": lambda: launch(jobs(), workers=2),
    }
    results = interleaved(works, rounds, warm_up=False)
    one = results["one worker"]
    rows = [
        [
            name,
            spent.format(".1f"),
            f"{spent.over(results['in a loop']):.2f}",
            f"{spent.over(one):.2f}",
        ]
        for name, spent in results.items()
    ]
    table([f"{RUNS} runs of {steps:,} steps", "seconds", "of the loop", "of one worker"], rows)


def study_text(seeds):
    return STUDY.replace("SEEDS", str(seeds))


def fill_folder(folder, seeds):
    """The folder of a study whose runs are copies of the first."""
    study = expand(parse(study_text(seeds), "large.yaml"))
    study_folder = make_folder(Study(f"of-{seeds}", study.runs, study.metrics, examples=60), folder)
    first = study_folder.jobs()[0]
    finish_job(first)
    copy_run(first, study_folder.jobs()[1:])
    return open_folder(study_folder.path)


def chores(folder, seeds):
    """Work on a whole study, by name."""
    return {
        "plan and check": lambda: expand(parse(study_text(seeds), "large.yaml")),
        "count complete runs": lambda: sum(map(is_complete, folder.jobs())),
        "open": lambda: open_folder(folder.path),
        "status": lambda: runs_by_state(folder),
        "collect the scores": lambda: results_table(folder),
        "write the report": lambda: write_study_report(folder),
    }


def reading(folder, seeds, rounds):
    """Time per run of a small and of a large study."""
    sizes = (seeds // SIZE_RATIO, seeds)
    folders = [fill_folder(folder, n) for n in sizes]
    runs = [len(one.jobs()) for one in folders]
    works = [chores(one, n) for one, n in zip(folders, sizes, strict=True)]
    rows = []
    for name, small in works[0].items():
        small()  # import
        turns = {n: work[name] for n, work in zip(runs, works, strict=True)}
        results = interleaved(turns, rounds, warm_up=False)
        few, many = (scale(results[n], 1000 / n) for n in runs)
        rows.append([name, few.format(".2f"), many.format(".2f"), f"{many.over(few):.2f}"])
    table(["ms per run", *(f"{n:,} runs" for n in runs), "ratio"], rows)


def on_cluster(folder, seeds):
    """How many tasks a second a driver can hand out and take back, of runs that are finished."""
    from untwine.study import on_ray

    jobs = fill_folder(folder, seeds).jobs()
    on_ray.launch(jobs[:20])  # starts Ray and its workers
    spent = seconds(lambda: on_ray.launch(jobs))
    print(
        f"Ray, started on this machine, took {len(jobs):,} runs that were finished already in "
        f"{spent:.1f} s: {len(jobs) / spent:,.0f} a second, driver and workers together.\n"
    )


def scale(spent, share):
    return Result(spent.median * share, spent.low * share, spent.high * share)


def copy_run(first, others):
    """Copy the small files of a run to every other run, with different scores."""
    record, done = read_json(first.path / "run.json"), read_json(first.path / "done.json")
    scores = read_json(first.path / "scores.json")
    for number, job in enumerate(others):
        job.path.mkdir()
        scores["scores"]["mig"]["values"]["mig"] = number % 97 / 97
        files = {
            "run.json": {**record, "spec": job.spec.to_json()},
            "done.json": {**done, "hash": job.spec.hash},
            "scores.json": scores,
        }
        for name, content in files.items():
            content = {
                key: value for key, value in content.items() if key not in ("seal", "format")
            }
            write_json(job.path / name, content, durable=False)


def huge(folder):
    """What a study of 100,000 runs costs its driver, in a process of its own for the memory."""
    done = subprocess.run(
        [sys.executable, __file__, "huge", str(folder)], stdout=subprocess.PIPE, check=True
    )
    spent = json.loads(done.stdout)
    runs, peak = spent.pop("runs"), spent.pop("peak")
    table([f"{runs:,} runs", "seconds"], [[name, f"{value:.1f}"] for name, value in spent.items()])
    print(f"The process that did this had at most {peak / 1e9:.1f} GB.\n")


def print_huge(folder):
    """In a process of its own: print the seconds of each chore as JSON."""
    spent, seeds = {}, HUGE_SEEDS
    work = expand(parse(study_text(seeds), "large.yaml"))
    spent["plan and check"] = seconds(lambda: expand(parse(study_text(seeds), "large.yaml")))
    spent["write study.json"] = seconds(lambda: make_folder(replace(work, name="huge"), folder))
    spent["open"] = seconds(lambda: open_folder(folder / "huge"))
    spent["status, nothing run"] = seconds(lambda: runs_by_state(open_folder(folder / "huge")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**spent, "runs": len(work.runs), "peak": peak}))


def main():
    parser = argparse.ArgumentParser(description="The overhead of a study.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="short runs, few of them, two rounds")
    options = parser.parse_args()
    rounds, steps, seeds = (2, 100, 20) if options.quick else (options.rounds, STEPS, SEEDS)
    section(
        "Study",
        "The same runs in one process, in one worker and in two, including the start of the "
        "workers; then work on a study of many runs, per run, at two sizes. "
        f"{rounds} turns each. A ratio of 1 in the second table means that time is proportional to "
        "the number of runs; fixed costs make it smaller.",
    )
    with tempfile.TemporaryDirectory() as scratch:
        scaling(Path(scratch), steps, rounds)
        reading(Path(scratch), seeds, rounds)
        on_cluster(Path(scratch), seeds // SIZE_RATIO + 1)
        if not options.quick:
            huge(Path(scratch))


if __name__ == "__main__":
    print_huge(Path(sys.argv[2])) if sys.argv[1:2] == ["huge"] else main()
