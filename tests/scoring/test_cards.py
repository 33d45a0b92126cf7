"""Scores by question, and where a score lies between noise and the true factors."""

import pytest

from untwine.registry import metrics
from untwine.scoring.cards import HEADLINES, QUESTIONS, by_question, question_of, score_rows
from untwine.scoring.scores import Score, Scores


def scored(name, value, noise, rotated, perfect):
    references = {"random": noise, "rotated": rotated, "perfect": perfect}
    return Score({name: value}, {kind: {name: number} for kind, number in references.items()})


def test_a_bar_runs_from_noise_to_the_true_factors():
    """The attribute vectors of a poor code fill a seventh of the bar, not 95 %."""
    vectors = scored("attribute-vectors", 0.889, 0.882, 0.9, 0.932)
    (row,) = score_rows(Scores({"attribute-vectors": vectors}))
    assert row.place == pytest.approx(0.14) and row.rotated == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("value", "noise", "perfect", "place"),
    [(0.1, 0.2, 0.9, 0.0), (0.95, 0.2, 0.9, 1.0), (0.5, 0.3, 0.3, None), (1.0, 3.0, 1.0, 1.0)],
    ids=["below noise", "above the true factors", "nothing between", "lower is better"],
)
def test_ends_of_a_bar(value, noise, perfect, place):
    (row,) = score_rows(Scores({"mig": scored("mig", value, noise, noise, perfect)}))
    assert row.place == place


def test_scores_without_references_have_no_bar():
    rows = score_rows(Scores({"reconstruction": Score({"squared_error": 0.1, "other": 0.2})}))
    assert [row.place for row in rows] == [None, None]
    assert [row.better for row in rows] == ["lower", ""]
    assert [row.has_card for row in rows] == [True, False]


def test_every_question_begins_with_its_headline():
    names = ["dci", "downstream", "elbo", "explicitness", "irs", "mig", "reconstruction"]
    rows = score_rows(Scores({name: scored(name, 0.5, 0.0, 0.2, 1.0) for name in names}))
    groups = by_question(rows)
    assert [title for title, _ in groups] == list(QUESTIONS.values())
    assert [cards[0].name for _, cards in groups] == list(HEADLINES)
    assert {row.name for _, cards in groups for row in cards} == set(names)


def test_every_metric_answers_a_question():
    questions = {name: question_of(entry) for name, entry in metrics.items()}
    assert set(questions.values()) == set(QUESTIONS)
    assert {questions[name] for name in ("fid", "elbo", "class-shares")} == {"drawn"}
    assert {questions[name] for name in ("udr", "total-correlation", "dci")} == {"separated"}
    assert {questions[name] for name in ("active-units", "clustering", "downstream")} == {"held"}
