"""Functions compiled by numba: what is compiled is kept on disk, and said when it takes time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

from untwine.tools.terminal import say


class _Notice(event.Listener):
    """Says once that functions are being compiled; code that is read from disk is no event."""

    def __init__(self) -> None:
        self.has_said = False

    def on_start(self, event: event.Event) -> None:
        if not self.has_said:
            say("compiling numerical code for this machine, which takes seconds and is done once")
        self.has_said = True

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Notice())


def compile_once(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that compiles a function on first use and keeps the result for all processes."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # there is no directory in which compiled code could be kept
            return njit(nogil=True, **options)(function)

    return decorate
