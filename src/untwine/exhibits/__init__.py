"""What can be shown of a reproduction: tables beside the paper's, curves, pictures.

An exhibit is a function of the evidence and of the parameters that a paper's file gives, in one of
the modules here; its name there is that of the function, with hyphens.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from untwine.errors import UnknownNameError, UntwineError
from untwine.schema import unknown

if TYPE_CHECKING:
    from untwine.evidence import Evidence
    from untwine.pages import Section

Exhibit = Callable[..., "Iterator[Section]"]
EXHIBITS: dict[str, Exhibit] = {}


def exhibit(function: Exhibit) -> Exhibit:
    """Make a function known under its own name."""
    name = function.__name__.replace("_", "-")
    if name in EXHIBITS:
        raise UntwineError(f"a second exhibit is named {name}; choose another name")
    EXHIBITS[name] = function
    return function


def shown(evidence: Evidence, wanted: Mapping[str, Any]) -> Iterator[Section]:
    """The sections of one entry of an item's `show`."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    for name, how in wanted.items():
        if name not in EXHIBITS:
            raise UnknownNameError(unknown("exhibit", name, EXHIBITS))
        yield from EXHIBITS[name](evidence, **(how or {}))
