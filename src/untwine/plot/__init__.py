"""Matplotlib figures of models, runs, scores and studies, as reports and the explorer draw them.

>>> import untwine
>>> figure = untwine.plot.history([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}])
>>> figure.axes[0].get_title(loc="left")
'loss'

In a notebook a figure shows itself; `figure.savefig("file.pdf")` writes it to a file. Names are
loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

NAMES = {
    "traversals": "models",
    "samples": "models",
    "reconstructions": "models",
    "codes": "models",
    "history": "curves",
    "scores": "curves",
    "by_model": "studies",
    "by_data": "studies",
    "by_value": "studies",
    "by_seed": "studies",
    "comparisons": "studies",
    "correlation": "studies",
    "shares": "studies",
    "trade_off": "studies",
}
__all__ = [*NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"untwine.plot has no {name!r}; it has {', '.join(NAMES)}")
    return getattr(importlib.import_module(f"untwine.plot.{NAMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(NAMES)
