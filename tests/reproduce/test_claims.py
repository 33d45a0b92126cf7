"""Claims put to the test on made-up runs, where the truth is known."""

from types import SimpleNamespace

import pandas as pd
import pytest

from untwine.errors import DataError, UnknownNameError
from untwine.reproduce.claims import assess_claim, mean_interval
from untwine.reproduce.evidence import Description
from untwine.spec import plan

SEEDS = (0, 1, 2)


def made(rows):
    """Evidence of runs (model, value, {score: values by seed}) on one dataset or several."""
    table = pd.DataFrame(
        [
            {"model": m, "value": v, "data": d, "seed": s, **{k: x[s] for k, x in scores.items()}}
            for m, v, d, scores in rows
            for s in SEEDS
        ]
    )

    def select(study, described, data=""):
        wanted = Description.read(described)
        found = table[table["model"] == wanted.model]
        for _, value in wanted.numbers:
            found = found[found["value"] == value]
        if not len(found):
            raise DataError(f"no run of {described}")
        return found[found["data"] == data] if data else found

    return SimpleNamespace(select=select, table=lambda study: table, published=None)


EVIDENCE = made(
    [
        ("a", "1", "d", {"mig": (0.30, 0.31, 0.32), "error": (1.0, 1.0, 1.0)}),
        ("b", "1", "d", {"mig": (0.10, 0.12, 0.11), "error": (0.5, 0.5, 0.5)}),
        ("b", "2", "d", {"mig": (0.20, 0.23, 0.21), "error": (1.5, 1.5, 1.5)}),
        ("b", "9", "d", {"mig": (0.40, 0.41, 0.39), "error": (3.0, 3.0, 3.0)}),
        ("c", "1", "d", {"mig": (0.05, 0.50, 0.30), "error": (1.0, 1.1, 0.9)}),
    ]
)


def verdict(**claim):
    return assess_claim(EVIDENCE, {"says": "it holds", **claim}).verdict


@pytest.mark.parametrize(
    ("kind", "how", "expected"),
    [
        ("higher", {"of": "a", "than": "b beta=1"}, "supported"),
        ("lower", {"of": "a", "than": "b beta=1"}, "contradicted"),
        ("higher", {"of": "a", "than": "c"}, "undecided"),
        ("rises", {"of": "b"}, "supported"),
        ("falls", {"of": "b"}, "contradicted"),
        ("near", {"of": "a", "value": 0.3, "within": 0.1}, "supported"),
        ("near", {"of": "a", "value": 0.9, "within": 0.1}, "contradicted"),
        ("exceeds", {"of": "a", "value": 0.2}, "supported"),
        ("below", {"of": "a", "value": "error"}, "supported"),
        ("close", {"of": "a", "to": "a", "share": 0.01}, "supported"),
        ("close", {"of": "a", "to": "b beta=1", "share": 0.1}, "contradicted"),
        ("overtakes", {"of": "b beta=1", "than": "c"}, "supported"),
        ("overtakes", {"of": "b beta=1", "than": "a"}, "contradicted"),
        ("higher", {"of": "nobody", "than": "a"}, "undecided"),
    ],
)
def test_verdicts_follow_the_runs(kind, how, expected):
    assert verdict(**{kind: {"study": "s", "score": "mig", **how}}) == expected


def test_at_the_same_error_the_others_are_a_curve():
    """Between (0.5, 0.11) and (1.5, 0.21) the curve of b is at about 0.16 where a has 0.31."""
    how = {"study": "s", "score": "mig", "of": "a", "than": "b", "at": "error"}
    found = assess_claim(EVIDENCE, {"says": "", "higher": how})
    assert found.verdict == "supported" and "+0.148" in found.evidence
    outside = {**how, "of": "b beta=9", "than": "c"}
    assert "nothing to compare" in assess_claim(EVIDENCE, {"says": "", "higher": outside}).evidence


def test_orders_of_models_are_compared_between_datasets():
    def on(data, scores):
        return [(m, "1", data, {"mig": (x, x, x)}) for m, x in zip("abc", scores, strict=True)]

    same = made([*on("d", (1, 2, 3)), *on("e", (2, 3, 4)), *on("f", (0, 5, 6))])
    turned = made([*on("d", (1, 2, 3)), *on("e", (9, 6, 3)), *on("f", (1, 3, 2))])
    claim = {"says": "", "alike": {"study": "s", "score": "mig"}}
    assert assess_claim(same, claim).verdict == "supported"
    assert assess_claim(turned, claim).verdict != "supported"


def test_an_unknown_test_or_score_is_refused():
    with pytest.raises(UnknownNameError, match="test of a claim"):
        verdict(wins={"study": "s"})
    with pytest.raises(UnknownNameError, match="score of this study"):
        verdict(higher={"study": "s", "score": "mgi", "of": "a", "than": "c"})


def test_students_interval_of_three_values():
    low, high = mean_interval(pd.Series([0.0, 1.0, 2.0]).to_numpy())
    assert (low, high) == pytest.approx((1 - 4.303 / 3**0.5, 1 + 4.303 / 3**0.5), abs=1e-3)


def test_runs_are_described_by_model_and_numbers():
    run = plan("beta-vae", "sprites(size=16)", settings=["beta=4"], network="mlp", latent=3)
    for text, fits in {
        "beta-vae": True,
        "beta-vae beta=4": True,
        "beta-vae beta=4.0 latent=3": True,
        "beta-vae beta=5": False,
        "vae": False,
    }.items():
        assert Description.read(text).fits(run) is fits, text


def test_published_runs_are_put_to_the_same_test():
    ours = made([("beta-vae", "1", "sprites(size=32)", {"mig": (0.1, 0.2, 0.3)})])
    theirs = pd.DataFrame(
        [
            {"model": m, "value": v, "data": "dsprites", "seed": s, "mig": v / 10 + s / 100}
            for m in ("beta-vae", "beta-tcvae")
            for v in (1.0, 4.0, 16.0)
            for s in SEEDS
        ]
    )
    ours.published = theirs
    claim = {"says": "", "rises": {"study": "s", "score": "mig", "of": "beta-vae"}}
    found = assess_claim(ours, claim)
    assert found.verdict == "undecided" and found.published.startswith("supported: rise of mig")
    one = {"of": "beta-vae beta=16", "than": "beta-vae beta=1", "study": "s", "score": "mig"}
    assert "difference in mig: +1.5" in assess_claim(ours, {"says": "", "higher": one}).published


def test_several_scores_stand_for_the_mean_of_those_that_are_there():
    how = {"study": "s", "score": ["mig", "error", "other"], "of": "a", "than": "b beta=1"}
    found = assess_claim(EVIDENCE, {"says": "", "higher": how})  # (0.2 + 0.5) / 2
    assert found.verdict == "supported" and "the mean of these scores: +0.35" in found.evidence
