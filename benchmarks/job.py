"""The whole job: fifteen models trained, scored and compared, next to a peer that does the same.

python benchmarks/job.py [--rounds 3] [--quick]

untwine   `untwine study run` with two workers, from start to report: three models, five seeds,
          sprites of 64 pixels, the scores of the 2019 study on 10,000 codes, the comparison figure
pythae    its trainer in a loop, in an environment of its own, and the scores as the 2019 study's
          library computes them (`metrics.py`)

Nobody waits for 15 models of 100,000 steps here. A study of two seeds is run with two numbers of
steps; their difference gives the cost of a step, the rest is what surrounds training. The peer's
steps a second are those of `peers.py`, its scores are computed once, DCI on 1,000 rows, a tenth of
them, and counted ten times, which favours the peer. Both are scaled to the whole job.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import peers
from harness import Result, seconds, section, show, table

import metrics as usual

MODELS = ("vae", "beta-tcvae", "factor-vae")
SEEDS, STEPS, BATCH = 5, 100_000, 64
TRIED_SEEDS, SHORT, LONG = 2, 20, 120  # of the studies that are run
DCI_SHARE = 10  # of the rows of the others

STUDY = """
study: job-{steps}
models: {{vae: , beta-tcvae: {{beta: 6}}, factor-vae: {{gamma: 10}}}}
data: [sprites(size=64)]
seeds: {seeds}
training: {{network: conv-k4, latent: 10, batch: {batch}, steps: {steps}, lr: 0.0001}}
metrics: [beta-vae-score, factor-vae-score, mig, "sap[svm]", dci, modularity]
examples: {examples}
"""


def run_study(folder: Path, steps: int, examples: int) -> float:
    """The seconds from a study file to its report."""
    file = folder / f"job-{steps}.yaml"
    file.write_text(STUDY.format(steps=steps, seeds=TRIED_SEEDS, batch=BATCH, examples=examples))
    untwine = [sys.executable, "-m", "untwine", "study"]
    out = ["--out", str(folder)]

    def work() -> None:
        run = [*untwine, "run", str(file), "--workers", "2", "--quiet", *out]
        report = [*untwine, "report", f"job-{steps}", "--quiet", *out]
        for words in (run, report):
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return seconds(work)


def our_hours(rounds: int, examples: int) -> Result:
    """Hours of the whole job, by studies of a few steps."""
    hours: list[float] = []
    for turn in range(rounds):
        show(f"untwine, round {turn + 1} of {rounds}")
        with tempfile.TemporaryDirectory() as scratch:
            short, long = (run_study(Path(scratch), n, examples) for n in (SHORT, LONG))
        step = (long - short) / (LONG - SHORT)  # of all models and seeds that were tried
        hours.append((short + step * (STEPS - SHORT)) * SEEDS / TRIED_SEEDS / 3600)
    return Result.of(hours)


def peer_training_hours(rounds: int) -> Result | None:
    """Hours in which the peer trains all models; None where it cannot be installed."""
    peer = next(peer for peer in peers.PEERS if peer.name == "pythae")
    if reason := peer.install():
        print(f"pythae could not be installed: {reason}", file=sys.stderr)
        return None
    peers.write_images()
    names = [f"{peer.name} {model}" for model in MODELS]
    rates = peers.measure(dict.fromkeys(names, peer.python), rounds)
    each = [
        [SEEDS * STEPS * BATCH / getattr(r, end) / 3600 for r in rates.values()]
        for end in ("median", "high", "low")
    ]  # fast steps make few hours
    return Result(*(float(np.sum(hours)) for hours in each))


def usual_scoring_hours(rows: int) -> float:
    """Hours of the scores of all models, computed as the 2019 study's library does."""
    many, few = usual.Codes(rows), usual.Codes(rows // DCI_SHARE)
    ways = (
        usual.mig_by_pairs,
        usual.modularity_by_pairs,
        usual.explicitness_by_classes,
        usual.sap_by_classifiers,
        usual.beta_vae_by_loop,
        usual.factor_vae_by_loop,
    )
    spent = sum(seconds(lambda way=way: way(many)) for way in ways)
    spent += DCI_SHARE * seconds(lambda: usual.dci_by_boosting(few))
    return spent * SEEDS * len(MODELS) / 3600


def main() -> None:
    parser = argparse.ArgumentParser(description="The whole job against a peer.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, 2,000 codes")
    options = parser.parse_args()
    rounds, rows = (1, 2_000) if options.quick else (options.rounds, 10_000)
    ours, training = our_hours(rounds, rows), peer_training_hours(rounds)
    scoring = usual_scoring_hours(rows)
    section(
        "The whole job",
        f"{len(MODELS)} models, {SEEDS} seeds, {STEPS:,} steps of {BATCH} sprites of 64 pixels, "
        f"the six scores of the 2019 study on {rows:,} codes, and the figure that compares them. "
        "Measured on a part "
        "and scaled, as the head of the script says.",
    )
    rows_of_table = [["untwine study", ours.format(".1f"), "", "1.0"]]
    if training is not None:
        whole = training.median + scoring
        rows_of_table.append(
            [
                "pythae and the usual metrics",
                f"{whole:.1f}",
                f"{scoring:.1f}",
                f"{whole / ours.median:.1f}",
            ]
        )
    table(["", "hours", "of which scores", "times untwine"], rows_of_table)


if __name__ == "__main__":
    main()
