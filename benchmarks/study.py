"""What a study costs beside its training, how it scales, and how fast a large one is read.

python benchmarks/study.py [--rounds 3] [--quick]

in a loop     runs one after the other in this process, with all its threads
one worker    `launch` with one worker process of one thread
two workers   the same with two
two, grouped  the same with two, each of which trains several seeds at a time, as studies do

A study of many runs is planned, opened, read and reported at two sizes; the time per run at the
larger over that at the smaller says whether any of it grows faster than the number of runs. About
five minutes; half a minute with --quick.
"""

import argparse
import json
import shutil
import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path

from harness import Result, seconds, section, show, table

from untwine.jobs import Job, complete, grouped, is_complete
from untwine.launch import launch
from untwine.results import make_folder, open_folder, results, states
from untwine.spec import plan
from untwine.study import Study, parse, resolve
from untwine.study_report import write_study_report

RUNS, STEPS = 8, 2000
TIMES = 10  # how much larger the larger study is
SEEDS = 450  # of the larger study, which makes 10,800 runs
STUDY = """
models: {beta-vae: {beta: [1, 2, 4, 6, 8, 16]}, beta-tcvae: {beta: [1, 2, 4, 6, 8, 10]}}
data: [sprites(size=16), sprites(size=20)]
seeds: SEEDS
training: {network: mlp, steps: 10}
metrics: [mig]
"""


def take_turns(works, rounds):
    """{name: Result} in seconds; nothing is warmed up, which would cost a round."""
    spent = {name: [] for name in works}
    for turn in range(rounds):
        for name, work in works.items():
            show(f"round {turn + 1} of {rounds}: {name}")
            spent[name].append(seconds(work))
    show("")
    return {name: Result.of(values) for name, values in spent.items()}


def scaling(folder, steps, rounds):
    """The same runs alone, in one and in two workers; a first launch warms the disk cache."""
    specs = [
        plan("vae", "sprites(size=16)", network="mlp", steps=steps, seed=k) for k in range(RUNS)
    ]
    launch([Job(replace(specs[0], steps=5), str(folder / "warm"))])
    fresh = count()  # each turn in a folder of its own: finished runs are skipped

    def jobs():
        where = str(folder / f"turn-{next(fresh)}")
        return [Job(spec, where) for spec in specs]

    works = {
        "in a loop": lambda: [complete(job) for job in jobs()],
        "one worker": lambda: launch(jobs()),
        "two workers": lambda: launch(jobs(), workers=2),
        "two, grouped": lambda: launch(grouped(jobs(), 2), workers=2),
    }
    found = take_turns(works, rounds)
    one = found["one worker"]
    rows = [
        [name, spent.told(".1f"), f"{spent.over(found['in a loop']):.2f}", f"{spent.over(one):.2f}"]
        for name, spent in found.items()
    ]
    table([f"{RUNS} runs of {steps:,} steps", "seconds", "of the loop", "of one worker"], rows)


def text(seeds):
    return STUDY.replace("SEEDS", str(seeds))


def filled(folder, seeds):
    """The folder of a study whose runs are copies of one."""
    study = resolve(parse(text(seeds), "large.yaml"))
    where = make_folder(Study(f"of-{seeds}", study.runs, study.metrics, examples=60), folder)
    first = where.jobs()[0]
    complete(first)
    copies(first, where.jobs()[1:])
    return open_folder(where.path)


def chores(opened, seeds):
    """What is done with a whole study, by name."""
    return {
        "plan and check": lambda: resolve(parse(text(seeds), "large.yaml")),
        "see what is done": lambda: sum(map(is_complete, opened.jobs())),
        "open": lambda: open_folder(opened.path),
        "status": lambda: states(opened),
        "collect the scores": lambda: results(opened),
        "write the report": lambda: write_study_report(opened),
    }


def reading(folder, seeds, rounds):
    """Time per run of a small and of a large study."""
    sizes = (seeds // TIMES, seeds)
    opened = [filled(folder, n) for n in sizes]
    runs = [len(one.jobs()) for one in opened]
    works = [chores(one, n) for one, n in zip(opened, sizes, strict=True)]
    rows = []
    for name, small in works[0].items():
        small()  # what is imported only once
        found = take_turns({n: work[name] for n, work in zip(runs, works, strict=True)}, rounds)
        few, many = (each(found[n], 1000 / n) for n in runs)
        rows.append([name, few.told(".2f"), many.told(".2f"), f"{many.over(few):.2f}"])
    table(["ms per run", *(f"{n:,} runs" for n in runs), "ratio"], rows)


def each(spent, share):
    return Result(spent.median * share, spent.low * share, spent.high * share)


def copies(first, others):
    """The small files of a run for every other run, with scores of their own."""
    kept = json.loads((first.path / "scores.json").read_text())
    for number, job in enumerate(others):
        job.path.mkdir()
        shutil.copy(first.path / "done.json", job.path / "done.json")
        kept["mig"]["values"]["mig"] = number % 97 / 97
        (job.path / "scores.json").write_text(json.dumps(kept))


def main():
    parser = argparse.ArgumentParser(description="What a study costs beside its training.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="short runs, few of them, two rounds")
    options = parser.parse_args()
    rounds, steps, seeds = (2, 100, 20) if options.quick else (options.rounds, STEPS, SEEDS)
    section(
        "Study",
        f"The same runs in one process, in a worker and in two, start of the workers included, and "
        "with several seeds of them at a time; "
        f"then what is done with a study of many runs, per run, at two sizes. {rounds} turns each. "
        "A ratio of 1 in the second table means that the time grows as the number of runs; what is "
        "done once for all of them makes it smaller.",
    )
    with tempfile.TemporaryDirectory() as scratch:
        scaling(Path(scratch), steps, rounds)
        reading(Path(scratch), seeds, rounds)


if __name__ == "__main__":
    main()
