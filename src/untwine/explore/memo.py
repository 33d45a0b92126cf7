"""A thread-safe LRU cache that computes each key once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """The `max_size` most recently used results by key.

    One thread computes a result while others wait for it. Different keys do not wait for each
    other, and computing one result may ask for another. Failures are not stored.

    >>> memo = Memo(2)
    >>> memo("sum", lambda: 1 + 1), memo("sum", lambda: 1 / 0)
    (2, 2)
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._key_locks: dict[Hashable, tuple[threading.RLock, list[None]]] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
            key_lock, waiting = self._key_locks.setdefault(key, (threading.RLock(), []))
            waiting.append(None)
        try:
            with key_lock:
                return self._compute_once(key, compute)
        finally:
            with self._lock:
                waiting.pop()
                if not waiting:
                    self._key_locks.pop(key, None)

    def _compute_once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Compute and store the result, unless another thread has done so in the meantime."""
        with self._lock:
            if key in self._results:
                return self._results[key]
        result = compute()
        with self._lock:
            self._results[key] = result
            while len(self._results) > self.max_size:
                self._results.popitem(last=False)
        return result
