"""Tables of the page as bars: one picture for each section that compares contenders."""

import re
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

OURS, OTHERS, TEXT = "#2a78d6", "#9aa0a6", "#777777"  # legible on white and on black


@dataclass(frozen=True)
class Bars:
    """What of a table to draw: its place in the section, labels, a column of numbers."""

    title: str
    values: int | tuple[int, ...]  # columns; several are drawn side by side
    labels: tuple[int, ...] = (0,)
    table: int = 0
    ours: str = "untwine"  # what begins the label of a bar that is ours
    logarithmic: bool = False


PICTURES = {
    "job": Bars("The whole job: hours", 1),
    "peers": Bars("Training: images per second", 3, labels=(0, 1)),
    "train": Bars("Training, 64 pixels: images per second", 2, labels=(0, 1), ours="trainer"),
    "busy": Bars(
        "Beside four busy neighbours: work per CPU second over that of one thread",
        (2, 3),
        table=2,
    ),
    "models": Bars("A step of every model: times a VAE's", 2, ours=""),
    "data": Bars("Loading: % of a training step", 4, ours=""),
    "encode": Bars("Encoding and decoding: images per second", (1, 2)),
    "metrics": Bars("Scores: times as fast as the other way", 4, ours="", logarithmic=True),
    "evaluate": Bars("Scoring a model: processor seconds", 1, ours=""),
    "fid": Bars("FID: images per second", (1, 2)),
    "study": Bars("A study of eight runs: seconds", 1, ours=""),
    "startup": Bars("Start: seconds of a process", 1, ours=""),
    "explorer": Bars("Explorer: milliseconds until an answer", 2, ours="", logarithmic=True),
}


def tables(text):
    """[(header, rows)] of the Markdown tables in a text."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, re.M)
    cells = [[[c.strip() for c in line.strip("|\n ").split("|")] for line in b.splitlines()]
             for b in blocks]  # fmt: skip
    return [(lines[0], lines[2:]) for lines in cells]


def number(cell):
    """The first number of a cell: `1,196 (1,166 to 1,322)` is 1196."""
    return float(re.match(r"[\d.,]+", cell)[0].replace(",", ""))


def draw(name, text, folder):
    """Draw the picture of a section; the Markdown that shows it, or nothing if it has none."""
    if name not in PICTURES:
        return ""
    bars = PICTURES[name]
    header, rows = tables(text)[bars.table]
    columns = bars.values if isinstance(bars.values, tuple) else (bars.values,)
    lines = [
        (" ".join([*(row[k] for k in bars.labels), *([header[c]] if len(columns) > 1 else [])]),
         number(row[c]))
        for row in rows for c in columns if row[c]
    ]  # fmt: skip
    figure = Figure(figsize=(7, 0.6 + 0.26 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    colours = [OURS if bars.ours in label else OTHERS for label, _ in lines]
    axes.barh(range(len(lines)), [value for _, value in lines], color=colours)
    for place, (_, value) in enumerate(lines):
        axes.annotate(f"{value:,.3g}", (value, place), xytext=(3, 0), textcoords="offset points",
                      va="center", color=TEXT, fontsize=8)  # fmt: skip
    axes.set_yticks(range(len(lines)), [label for label, _ in lines], color=TEXT, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xscale("log" if bars.logarithmic else "linear")
    axes.set_xticks([], minor=True)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(bars.title, loc="left", fontsize=10, color=TEXT)
    Path(folder).mkdir(exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):  # words, and no chance
        figure.savefig(Path(folder) / f"{name}.svg", transparent=True, metadata={"Date": None})
    return f"![{bars.title}]({Path(folder).name}/{name}.svg)"
