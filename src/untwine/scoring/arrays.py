"""Codes as arrays, from any library; nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class CodeArrays:
    """Codes of any origin, with what is known about them."""

    codes: NDArray[Any]  # (N, D)
    factors: NDArray[Any] | None = None  # (N, K)
    test_codes: NDArray[Any] | None = None
    test_factors: NDArray[Any] | None = None
    others: Sequence[NDArray[Any]] = ()  # codes of other models for the same examples
    unordered: Sequence[int] = ()  # positions of factors whose levels have no order

    @property
    def sampled_codes(self) -> NDArray[Any]:
        return self.codes

    @property
    def several_codes(self) -> list[NDArray[Any]]:
        return [self.codes, *self.others]

    @property
    def several_kl(self) -> None:
        return None

    def has(self, need: str) -> bool:
        """Whether a metric that asks for this can be computed."""
        if need.startswith("several_"):
            return bool(self.others)
        return hasattr(self, need) and not (need == "factors" and self.factors is None)
