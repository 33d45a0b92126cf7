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
