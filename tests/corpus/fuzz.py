"""Mutate what every door takes, and count what is neither right nor refused in a sentence.

    python tests/corpus/fuzz.py 10000 [SEED]           all doors, a table
    python tests/corpus/fuzz.py 1 SEED DOOR FIRST      one input again, with its traceback

Each door has a process of its own, which may crash. Every input is made from the seed, the door and
its number alone. Columns of the table:

    traceback  an error that is no sentence        memory   more than allowed (`Trial.max_bytes`)
    hang       a minute of computing               outside  files, network or programs outside
    crash      the process died                    silent   a damaged file, another answer, no word
    slow       a refusal that took more than a second of the processor
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

FAILURES = ("traceback", "hang", "crash", "memory", "outside", "silent", "slow")
MAX_SECONDS = 60  # of the processor
MAX_REFUSAL = 1.0  # seconds of the processor
WARM_UP = 12  # inputs that load what is loaded on first use


def judge(trial, watch) -> tuple[str, object, str]:
    """How a trial ended, with its cost and the text of what went wrong."""
    from watch import Hang

    from untwine.errors import UntwineError

    outcome, note, answer = "read", "", None
    with watch.measure(MAX_SECONDS) as cost:
        try:
            answer = trial.work()
        except (UntwineError, SystemExit) as error:
            outcome, note = "refused", str(error)
        except Hang:
            outcome, note = "hang", traceback.format_exc(limit=-6)
        except MemoryError:
            outcome, note = "memory", traceback.format_exc(limit=-6)
        except Exception:
            outcome, note = "traceback", traceback.format_exc(limit=-8)
    if cost.effects:
        return "outside", cost, "\n".join(cost.effects)
    if outcome == "read" and trial.expected is not None and answer != trial.expected:
        told = bool(cost.messages.strip()) or trial.is_told(answer)
        outcome, note = ("refused", cost.messages) if told else ("silent", f"{answer!r:.2000}")
    if outcome in ("read", "refused") and cost.bytes > trial.max_bytes:
        outcome = "memory"
    if outcome == "refused" and cost.seconds > MAX_REFUSAL:
        outcome = "slow"
    return outcome, cost, note


def run_door(name: str, first: int, count: int, seed: int, report) -> None:
    """Try inputs of one door, writing a line of JSON for each."""
    warnings.simplefilter("ignore")
    from trials import DOORS

    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as private:
        os.environ |= {
            "UNTWINE_DATA": f"{place}/cache",
            "UNTWINE_CONFIG": f"{place}/config",
            "MPLCONFIGDIR": f"{place}/matplotlib",
            "TMPDIR": place,
        }
        tempfile.tempdir = place
        os.chdir(place)
        import joblib
        import matplotlib.font_manager  # noqa: F401 - asks a program for fonts when first loaded
        from watch import Watch

        joblib.cpu_count(only_physical_cores=True)  # so t-SNE does not ask a program for cores

        door = DOORS[name](Path(place), Path(private))
        watch = Watch(Path(place), Path(private))
        for i in range(-WARM_UP, 0):
            judge(door(random.Random(f"warm {i}")), watch)
        for i in range(first, first + count):
            print(json.dumps({"start": i}), file=report, flush=True)
            trial = door(random.Random(f"{seed} {name} {i}"))
            outcome, cost, note = judge(trial, watch)
            line = {"input": i, "outcome": outcome, "seconds": cost.seconds, "bytes": cost.bytes}
            if outcome in FAILURES or count == 1:
                line |= {"what": trial.what, "note": note}
            print(json.dumps(line), file=report, flush=True)


def drive(name: str, count: int, seed: int) -> list[dict]:
    """The lines of all inputs of a door; the process is started again after one that crashed."""
    lines, first = [], 0
    while first < count:
        with tempfile.NamedTemporaryFile("r") as report:
            command = [sys.executable, __file__, str(count - first), str(seed), name, str(first)]
            ended = subprocess.run([*command, report.name], stdout=subprocess.DEVNULL, check=False)
            new = [json.loads(line) for line in report]
        lines += [line for line in new if "outcome" in line]
        if ended.returncode == 0:
            break
        crashed = max((line["start"] for line in new if "start" in line), default=None)
        if crashed is None or ended.returncode > 0:  # the fuzzer itself failed
            raise SystemExit(f"{name} cannot be tried: exit {ended.returncode}")
        lines.append({"input": crashed, "outcome": "crash", "note": f"exit {ended.returncode}"})
        first = crashed + 1
    return lines


def show(name: str, lines: list[dict], seed: int) -> str:
    """A row of the table; failures are described on stderr."""
    for line in lines:
        if line["outcome"] in FAILURES:
            print(
                f"--- {name!r} input {line['input']} of seed {seed}: {line['outcome']} "
                f"{line.get('what', '')} ({line.get('seconds', 0):.2f} s, "
                f"{line.get('bytes', 0) / 2**20:.0f} MiB)\n{line.get('note', '')}",
                file=sys.stderr,
                flush=True,
            )
    count = Counter(line["outcome"] for line in lines)
    seconds = max(
        (line.get("seconds", 0) for line in lines if line["outcome"] == "refused"), default=0
    )
    peak = max((line.get("bytes", 0) for line in lines), default=0)
    cells = [len(lines), *(count[kind] for kind in (*FAILURES, "refused", "read"))]
    return f"| {name} | {' | '.join(map(str, cells))} | {seconds:.2f} | {peak / 2**20:.0f} |"


def main() -> int:
    from trials import DOORS

    n, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if len(sys.argv) > 5:
        with open(sys.argv[5], "w") as report:
            run_door(sys.argv[3], int(sys.argv[4]), n, seed, report)
        return 0
    if len(sys.argv) > 4:
        run_door(sys.argv[3], int(sys.argv[4]), n, seed, sys.stdout)
        return 0
    names = sys.argv[3:4] or list(DOORS)
    print(f"| door | inputs | {' | '.join(FAILURES)} | refused | read | s at most | MiB at most |")
    print("|---" * (len(FAILURES) + 6) + "|", flush=True)
    failed = False
    for k, name in enumerate(names):
        share = n // len(names) + (k < n % len(names))
        lines = drive(name, share, seed)
        failed |= any(line["outcome"] in FAILURES for line in lines)
        print(show(name, lines, seed), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
