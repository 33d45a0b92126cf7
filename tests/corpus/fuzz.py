"""Mutate good and bad files of every door, and count what is neither read nor refused.

    python tests/corpus/fuzz.py 10000 [SEED]

Prints a table: inputs, tracebacks, hangs and refusals for want of memory, per door. `make fuzz`
and the slow tests run it. Memory is limited for the whole process and time for each input.
"""

import random
import resource
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from untwine.errors import UntwineError

HERE = Path(__file__).parent
MADE = runpy.run_path(str(HERE / "make.py"))
DOORS = runpy.run_path(str(HERE / "doors.py"))["DOORS"]
MAX_SECONDS = 20
MAX_GROWTH = 2**30  # bytes above what the process has when it begins
MAX_SEED_FILE = 2**17  # larger files of the corpus take long to mutate
OUTCOMES = ("traceback", "hang", "over 1 GB")
TOKENS = (
    *(b"vae", b"[", b"]", b"{", b": ", b"- ", b"&a ", b"*a", b"<<: ", b"null", b"1", b"0.5", b"\n"),
    *(b",", b"'", b'"', b"~", b"models", b"seeds", b"scales", b"!!int ", b"2001-01-01", b"x" * 300),
)
NUMBERS = (b"0", b"-1", b"9" * 19, b"9" * 400, b"1e400", b"nan", b"2147483648", b"True")


class Hang(BaseException):
    pass


def ring(*_):
    raise Hang


def mutate(content: bytes, other: bytes, rng: random.Random, text: bool = False) -> bytes:
    """One to four changes: bits, bytes, numbers, cuts, repeats and pieces of another file."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.choice((2, 3, 4, 5, 7, 7, 7)) if text else rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind == 2:
            del data[at : at + rng.randint(1, 16)]
        elif kind == 3:
            data[at:at] = data[at : at + 32] * rng.randint(1, 8)
        elif kind == 4:
            data[at : at + rng.randint(0, 4)] = rng.choice(NUMBERS)
        elif kind == 5:
            start = rng.randrange(len(other) + 1)
            data[at : at + 8] = other[start : start + rng.randint(1, 64)]
        elif kind == 7:
            data[at : at + rng.randint(0, 4)] = rng.choice(TOKENS)
        else:
            data[at : at + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"))
    return bytes(data)


def try_file(door, path: Path) -> str:
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        door(path)
    except UntwineError as error:
        return "over 1 GB" if "more memory than there is" in str(error) else "refused"
    except Hang:
        return "hang"
    except MemoryError:
        return "over 1 GB"
    except Exception:
        traceback.print_exc(limit=-4)
        return "traceback"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "read"


def fuzz(n: int, seed: int) -> dict[str, Counter[str]]:
    rng, counts = random.Random(seed), {door: Counter() for door in DOORS}
    files = {
        door: [
            (name, content)
            for name, content in (*MADE["VALID"][door].items(), *MADE["CASES"][door].items())
            if len(content) <= MAX_SEED_FILE
        ]
        for door in DOORS
    }
    slowest = 0.0
    with tempfile.TemporaryDirectory() as place:
        for i in range(n):
            door = list(DOORS)[i % len(DOORS)]
            good = list(MADE["VALID"][door].items())
            name, content = rng.choice(good if rng.random() < 0.5 else files[door])
            other = rng.choice(files[door])[1]
            path = Path(place) / name
            path.write_bytes(mutate(content, other, rng, name.endswith((".yaml", ".csv"))))
            start = time.monotonic()
            outcome = try_file(DOORS[door], path)
            slowest = max(slowest, time.monotonic() - start)
            counts[door][outcome] += 1
            if outcome in OUTCOMES:
                print(f"input {i} of seed {seed}: {door} {name}: {outcome}", file=sys.stderr)
            path.unlink()
    print(f"slowest input: {slowest:.1f} s")
    return counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, content in MADE["VALID"].items():  # what is loaded on first use counts as there
        with tempfile.TemporaryDirectory() as warm:
            for file, good in content.items():
                (Path(warm) / file).write_bytes(good)
                DOORS[name](Path(warm) / file)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_GROWTH,) * 2)
    signal.signal(signal.SIGALRM, ring)
    counts = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"| door | inputs | {' | '.join(OUTCOMES)} | refused | read |")
    print("|---" * (len(OUTCOMES) + 4) + "|")
    for door, count in counts.items():
        cells = [count.total(), *(count[kind] for kind in (*OUTCOMES, "refused", "read"))]
        print(f"| {door} | {' | '.join(map(str, cells))} |")
    sys.exit(any(count[kind] for count in counts.values() for kind in OUTCOMES))
