"""How things show themselves in notebooks: small HTML cards and tables, without scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

CELL = "text-align:left;vertical-align:top;padding:1px 14px 1px 0"


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def has_widgets() -> bool:
    """Whether a bar can be drawn in a notebook: rich draws it with ipywidgets."""
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True


def card_html(
    title: str, rows: Iterable[tuple[str, str]], *, text: str = "", picture: str = ""
) -> str:
    """A title, a text as it is written, a table of names and values, and a picture by its URL.

    >>> card_html("a < b", [("size", "3")])[:44]
    '<div><strong>a &lt; b</strong><table><tr><td'
    """
    from html import escape

    lines = [f"<div><strong>{escape(title)}</strong>"]
    if text:
        lines.append(f'<pre style="margin:4px 0;white-space:pre-wrap">{escape(text)}</pre>')
    cells = ((f'<td style="{CELL};opacity:.7">{escape(name)}</td>', value) for name, value in rows)
    body = "".join(
        f'<tr>{name}<td style="{CELL}">{escape(value)}</td></tr>' for name, value in cells
    )
    lines.append(f"<table>{body}</table>" if body else "")
    if picture:
        style = "image-rendering:pixelated;max-width:100%;margin-top:4px"
        lines.append(f'<img alt="examples" style="{style}" src="{escape(picture)}">')
    return "".join(lines) + "</div>"


def table_html(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text; the first column names the rows.

    >>> table_html(["", "value"], [["mig", "0.5"]])
    '<table><tr><th></th><th>value</th></tr><tr><th>mig</th><td>0.5</td></tr></table>'
    """
    from html import escape

    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
