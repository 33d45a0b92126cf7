"""Scores as pages show them: by the question they answer, each between noise and the true factors.

The report and the explorer both use this module, so that their bars and groups are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from untwine.registry import Entry, value_name
from untwine.registry import metrics as metric_registry
from untwine.scoring.scores import Scores, metric_needs, value_title

QUESTIONS = {
    "held": "How much do the codes hold?",
    "separated": "How well are the factors separated?",
    "drawn": "How well are examples drawn?",
}
HEADLINES = ("explicitness", "mig", "reconstruction")  # one for each question, shown first
READ_FROM_CODES = {"codes", "several_codes", "batch_codes", "assignments"}


@dataclass(frozen=True)
class ScoreRow:
    """One score with those of the reference codes."""

    name: str  # as in scores.json: "mig", "dci.completeness"
    title: str
    value: float
    better: str  # "higher" or "lower"; "" for values that are not scores, such as standard errors
    references: dict[str, float]  # perfect, rotated, random
    question: str  # a key of QUESTIONS
    has_card: bool
    note: str = ""  # why it cannot be relied on, if so

    def position(self, value: float | None) -> float | None:
        """Where a value lies between noise (0) and the true factors (1); None without both.

        >>> references = {"random": 0.6, "perfect": 0.9}
        >>> row = ScoreRow("irs", "IRS", 0.75, "higher", references, "separated", True)
        >>> row.position(0.75), row.position(0.5), row.position(None)
        (0.5, 0.0, None)
        """
        noise, perfect = self.references.get("random"), self.references.get("perfect")
        if value is None or noise is None or perfect is None or noise == perfect:
            return None
        return round(min(1.0, max(0.0, (value - noise) / (perfect - noise))), 4)

    @property
    def place(self) -> float | None:
        """Where the score lies between noise and the true factors."""
        return self.position(self.value)

    @property
    def rotated(self) -> float | None:
        """Where the rotated factors lie between noise and the true factors."""
        return self.position(self.references.get("rotated"))


def question_of(entry: Entry) -> str:
    """The question that a metric answers: as it declares, or by what it reads.

    >>> question_of(metric_registry["mig"]), question_of(metric_registry["fid"])
    ('separated', 'drawn')
    """
    declared = entry.metadata.get("question")
    if declared:
        return declared
    return "separated" if READ_FROM_CODES & {*metric_needs(entry)} else "drawn"


def score_rows(scores: Scores) -> list[ScoreRow]:
    """One row per value, by question; the headline metric of each question first."""
    labels = sorted(scores, key=lambda label: label not in HEADLINES)
    rows = [row for label in labels for row in _rows(label, scores)]
    return [row for question in QUESTIONS for row in rows if row.question == question]


def by_question(rows: Sequence[ScoreRow]) -> list[tuple[str, list[ScoreRow]]]:
    """The rows that have cards, below the questions that they answer."""
    groups = [
        (title, [row for row in rows if row.question == key and row.has_card])
        for key, title in QUESTIONS.items()
    ]
    return [(title, cards) for title, cards in groups if cards]


def _rows(label: str, scores: Scores) -> Iterator[ScoreRow]:
    entry, _ = metric_registry.parse(label)
    question, score, note = question_of(entry), scores[label], scores.note(label)
    for position, (key, value) in enumerate(score.values.items()):
        references = {kind: v[key] for kind, v in score.references.items() if key in v}
        better = "higher" if entry.is_higher_better(key) else "lower"
        yield ScoreRow(
            value_name(label, key),
            value_title(label, key),
            value,
            # A metric's further values are scores only if the reference codes have them.
            better if references or not position else "",
            references,
            question,
            has_card=not position and ("perfect" in references or question == "drawn"),
            note=note,
        )
