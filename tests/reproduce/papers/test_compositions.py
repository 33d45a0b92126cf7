"""Compositions beside their parts, on made-up runs."""

import pandas as pd
import pytest

from untwine.reproduce.papers.compositions.exhibits import gaps, summarise_gaps

ROWS = pd.DataFrame(
    [
        {
            "model": model,
            "data": "d",
            "seed": seed,
            "mig": mig + seed / 100,
            "reconstruction": error,
        }
        for model, mig, error in [
            ("a", 0.1, 2.0),
            ("b", 0.3, 1.0),
            ("a+b", 0.4, 1.5),
            ("c", 0.9, 9.0),
        ]
        for seed in range(3)
    ]
)


def test_a_composition_is_compared_with_its_own_parts_seed_by_seed():
    found = gaps(ROWS, ["mig", "reconstruction"])
    assert list(found) == [("a+b", "a"), ("a+b", "b")]
    assert found["a+b", "a"]["mig"] == pytest.approx((0.3, 0.3, 0.3))
    # an error that is lower is better
    assert found["a+b", "a"]["reconstruction"][0] == pytest.approx(0.5)
    assert found["a+b", "b"]["reconstruction"][0] == pytest.approx(-0.5)


def test_it_helps_where_it_is_better_than_all_its_parts():
    sentence = summarise_gaps(gaps(ROWS, ["mig", "reconstruction"]))
    assert sentence == "Better than each of its parts in the study: a+b in mig."
    assert "None" in summarise_gaps(gaps(ROWS[ROWS["model"] != "a+b"], ["mig"]))
