"""Matplotlib figures: panels, one style, SVG."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWING_LOCK = threading.Lock()  # matplotlib's style belongs to the whole process
INK, PAPER = "#1d2530", "#fffffe"  # in pages they become the colours of text and background
DARK_INK, DARK_PAPER = "#e6e9ee", "#1c222b"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "untwine",
}


def figure_svg(figure: Figure) -> bytes:
    """Return a figure as a self-contained SVG that follows the reader's light or dark theme."""
    from matplotlib import rc_context

    with DRAWING_LOCK, rc_context(STYLE):
        text = draw_svg(figure)
    start = text.index(">", text.index("<svg")) + 1
    style = (
        f"<style>svg{{color:{INK};--card:#fff}}@media(prefers-color-scheme:dark)"
        f"{{svg{{color:{DARK_INK};--card:{DARK_PAPER}}}}}</style>"
    )
    return (text[text.index("<svg") : start] + style + themed(text[start:])).encode()


def draw_svg(figure: Figure) -> str:
    """Return a figure as the text of an SVG file, the same for the same figure."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue()


def themed(svg: str) -> str:
    """An SVG for a page: text and background have the page's colours."""
    return svg.replace(INK, "currentColor").replace(PAPER, "var(--card)")


def panels(count: int, *, width: float = 3.2, height: float = 2.8, most: int = 3) -> Any:
    """Return a figure and `count` axes, at most `most` in a row."""
    from matplotlib.figure import Figure

    columns = min(count, most)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]
