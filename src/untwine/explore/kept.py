"""Answers that are computed once, however many ask for them at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """The newest `most` results by key. One thread computes a result, others wait for it.

    Results of different keys do not wait for each other, and one may ask for another. What fails is
    not kept.

    >>> kept = Kept(2)
    >>> kept("sum", lambda: 1 + 1), kept("sum", lambda: 1 / 0)
    (2, 2)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._found: OrderedDict[Hashable, Any] = OrderedDict()
        self._turns: dict[Hashable, tuple[threading.RLock, list[None]]] = {}
        self._door = threading.Lock()

    def __call__(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._door:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            turn, waiting = self._turns.setdefault(key, (threading.RLock(), []))
            waiting.append(None)
        try:
            with turn:
                return self._computed(key, compute)
        finally:
            with self._door:
                waiting.pop()
                if not waiting:
                    self._turns.pop(key, None)

    def _computed(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result, unless another thread has found it in the meantime."""
        with self._door:
            if key in self._found:
                return self._found[key]
        result = compute()
        with self._door:
            self._found[key] = result
            while len(self._found) > self.most:
                self._found.popitem(last=False)
        return result
