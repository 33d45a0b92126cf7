"""One value of one metric by name: `mig`, `sap[svm]`, `dci.completeness`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from untwine.errors import UnknownNameError
from untwine.registry import EXPRESSION, Choice, metrics
from untwine.schema import unknown_name


@dataclass(frozen=True)
class ScoreName:
    """A metric and, if it is not the headline, which of its values.

    >>> name = ScoreName.read("dci.completeness")
    >>> str(name), name.higher_is_better, name.pick({"disentanglement": 0.2, "completeness": 0.3})
    ('dci.completeness', True, 0.3)
    """

    choice: Choice
    key: str = ""

    @classmethod
    def read(cls, text: str) -> ScoreName:
        if EXPRESSION.fullmatch(text.strip()):
            return cls(metrics.read(text))
        metric, _, key = text.strip().rpartition(".")
        return cls(metrics.read(metric or text), key)

    def __str__(self) -> str:
        return f"{metrics.label(self.choice)}.{self.key}".rstrip(".")

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the value is better."""
        return metrics[self.choice.name].is_higher_better(self.key)

    @property
    def compares_runs(self) -> bool:
        """Whether the metric compares runs, so that one model alone has no score."""
        return metrics[self.choice.name].metadata.get("compares") == "runs"

    def pick(self, values: Mapping[str, float]) -> float:
        """The value among all values of the metric."""
        key = self.key or next(iter(values))
        if key not in values:
            raise UnknownNameError(unknown_name(f"value of {self.choice.name}", key, values))
        return values[key]
