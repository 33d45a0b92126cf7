"""Run every benchmark and collect their sections on one page.

python benchmarks/page.py [SCRIPT ...] [--out benchmarks/RESULTS.md]

With names of scripts, only their sections are measured again; the others stay as they are. All of
them take most of an hour on two cores; nothing else should run meanwhile.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from harness import machine
from picture import draw

HERE = Path(__file__).parent
SCRIPTS = (
    *("job", "peers", "train", "busy", "models", "data", "encode"),
    *("metrics", "evaluate", "fid", "study", "growth", "startup", "explorer", "suite"),
)
HEAD = """# Benchmarks

Ratios between contenders that took turns in one run: medians of several turns, with minimum and
maximum in brackets. Times and rates hold for the machine named under each heading; compare the
ratios. `make bench` repeats all measurements and writes this page; `python benchmarks/NAME.py`
prints one section. Nothing else should run on the machine meanwhile.
"""


def sections(text):
    """{script: its section} of a page."""
    parts = re.split(r"<!-- (\w+) -->\n", text)[1:]
    texts = (re.sub(r"!\[.*\]\(.*\)\n+", "", part).strip() for part in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


def with_picture(name, text, folder):
    """A section with its picture below the line that names the machine."""
    title, machine_line, rest = re.split(r"\n+", text, maxsplit=2)
    picture = draw(name, text, folder)
    return "\n\n".join(filter(None, (title, machine_line, picture, rest)))


def write_page(texts, out):
    blocks = [
        f"<!-- {name} -->\n{with_picture(name, texts[name], out.parent / 'figures')}\n"
        for name in SCRIPTS
        if name in texts
    ]
    out.write_text("\n".join([HEAD, *blocks]))


def run_script(name):
    """The section that a script prints, with the machine under its heading."""
    print(f"benchmarks/{name}.py", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, HERE / f"{name}.py"], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"benchmarks/{name}.py ended with {done.returncode}; its section is unchanged"
        )
    title, _, rest = done.stdout.strip().partition("\n")
    return f"{title}\n\n`python benchmarks/{name}.py` on {machine()}\n{rest}"


def main():
    parser = argparse.ArgumentParser(description="Every benchmark on one page.")
    parser.add_argument("scripts", nargs="*", choices=[*SCRIPTS, []], help="default: all of them")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    texts = sections(options.out.read_text()) if options.out.exists() else {}
    for name in options.scripts or SCRIPTS:
        texts[name] = run_script(name)
        write_page(texts, options.out)


if __name__ == "__main__":
    main()
