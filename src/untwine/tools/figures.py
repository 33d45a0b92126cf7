"""Matplotlib figures: panels, one style, SVG."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWING_LOCK = threading.Lock()  # matplotlib's style belongs to the whole process
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "untwine",
}


def figure_svg(figure: Figure) -> bytes:
    """Return a figure as a self-contained SVG."""
    from matplotlib import rc_context

    stream = io.StringIO()
    with DRAWING_LOCK, rc_context(STYLE):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :].encode()


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
