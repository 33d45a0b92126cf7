"""Run every benchmark and write one page of what it printed.

python benchmarks/page.py [SCRIPT ...] [--out benchmarks/RESULTS.md]

With names of scripts only their sections are measured anew; the others stay as the page has them.
Takes most of an hour on two cores, which nothing else should use meanwhile.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from harness import machine

HERE = Path(__file__).parent
SCRIPTS = (
    *("train", "models", "peers", "many", "data", "encode"),
    *("metrics", "study", "growth", "startup", "explorer"),
)
HEAD = """# How fast it is

Ratios, each of contenders that took turns in one run: medians of several turns, with the least and
the most of them in brackets. Seconds and rates are of the machine named under each heading; the
ratios are what to compare. `make bench` measures everything anew and writes this page, and
`python benchmarks/NAME.py` one section of it; nothing else should use the machine meanwhile.
"""


def sections(text):
    """{name of script: its section} of a page."""
    parts = re.split(r"<!-- (\w+) -->\n", text)[1:]
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


def measured(name):
    """What a script prints, with the machine under its heading."""
    print(f"benchmarks/{name}.py", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, HERE / f"{name}.py"], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"benchmarks/{name}.py ended with {done.returncode}; its section is kept")
    title, _, rest = done.stdout.strip().partition("\n")
    return f"{title}\n\n`python benchmarks/{name}.py` on {machine()}\n{rest}"


def main():
    parser = argparse.ArgumentParser(description="Every benchmark on one page.")
    parser.add_argument("scripts", nargs="*", choices=[*SCRIPTS, []], help="default: all of them")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    found = sections(options.out.read_text()) if options.out.exists() else {}
    for name in options.scripts or SCRIPTS:
        found[name] = measured(name)
        kept = [f"<!-- {name} -->\n{found[name]}\n" for name in SCRIPTS if name in found]
        options.out.write_text("\n".join([HEAD, *kept]))


if __name__ == "__main__":
    main()
