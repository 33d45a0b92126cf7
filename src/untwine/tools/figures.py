"""Matplotlib figures: panels, one style, SVG."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")
DRAWING_LOCK = threading.RLock()  # matplotlib's style belongs to the whole process
INK, PAPER = "#1d2530", "#fffffe"  # in pages they become the colours of text and background
DARK_INK, DARK_PAPER = "#e6e9ee", "#1c222b"
DARK_SERIES = {  # colours of lines and dots, and what they become on a dark page
    "#1f77b4": "#5aa9e6",
    "#ff7f0e": "#ff9d4d",
    "#2ca02c": "#5fc46a",
    "#d62728": "#f2706f",
    "#9467bd": "#b795e0",
    "#8c564b": "#c99a8e",
    "#e377c2": "#f09ad2",
    "#7f7f7f": "#a8a8a8",
    "#bcbd22": "#d6d752",
    "#17becf": "#4fd6e5",
    "#3b7dd8": "#6ea8f2",
    "#d9742b": "#f0a35e",
}
NOTEBOOK_DPI = 110
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
    light, dark = (
        f"svg{{color:{ink};--card:{paper}}}"
        for ink, paper in ((INK, "#fff"), (DARK_INK, DARK_PAPER))
    )
    style = f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
    return themed(text, style).encode()


def draw_svg(figure: Figure) -> str:
    """Return a figure as the text of an SVG file, the same for the same figure."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue()


def themed(svg: str, style: str = "") -> str:
    """The <svg> element of a figure that follows the reader's light or dark theme.

    Text and background have the page's colours, lines and dots brighter ones on a dark page.

    Args:
        svg: the text of the file.
        style: further rules for the element.
    """
    start = svg.index("<svg")
    inside = svg.index(">", start) + 1
    content = svg[inside:].replace(INK, "currentColor").replace(PAPER, "var(--card)")
    for colour in DARK_SERIES:
        content = content.replace(colour, f"var(--on-{colour[1:]},{colour})")
    dark = ";".join(f"--on-{light[1:]}:{colour}" for light, colour in DARK_SERIES.items())
    rules = f"{style}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
    return f"{svg[start:inside]}<style>{rules}</style>{content}"


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw in the one style, whatever thread and style the caller has."""

    @wraps(draw)
    def draw_styled(*args: P.args, **kwargs: P.kwargs) -> R:
        from matplotlib import rc_context

        with DRAWING_LOCK, rc_context(STYLE):
            return draw(*args, **kwargs)

    return draw_styled


@cache
def _figure_class() -> type[Figure]:
    """Matplotlib's figure, which also shows itself in notebooks that have not loaded pyplot."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=NOTEBOOK_DPI)
            return stream.getvalue()

    return ShownFigure


def panels(count: int, *, width: float = 3.2, height: float = 2.8, most: int = 3) -> Any:
    """Return a figure and `count` axes, at most `most` in a row."""
    columns = min(count, most)
    rows = -(-count // columns)
    figure = _figure_class()(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]
