"""Claims put to the test on made-up runs, where the truth is known."""

from types import SimpleNamespace

import pandas as pd
import pytest

from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.reproduce.claims import OURS, PUBLISHED, assess_claim, survives_holm
from untwine.reproduce.evidence import Description, PublishedEvidence
from untwine.spec import plan

SEEDS = (0, 1, 2)


def made(rows, seeds=SEEDS):
    """Evidence of runs (model, value, {score: values by seed}) on one dataset or several."""
    table = pd.DataFrame(
        [
            {
                "model": m,
                "setting": f"{m} {v}",
                "value": v,
                "data": d,
                "seed": s,
                **{k: x[s] for k, x in scores.items()},
            }
            for m, v, d, scores in rows
            for s in seeds
        ]
    )

    def select(study, described, data=""):
        parts = [Description.read(text) for text in described.split(" and ")]
        fits = [
            any(m == part.model and all(v == value for _, value in part.numbers) for part in parts)
            for m, v in zip(table["model"], table["value"], strict=True)
        ]
        found = table[fits]
        if not len(found):
            raise DataError(f"no run of {described}")
        return found[found["data"] == data] if data else found

    return SimpleNamespace(select=select, table=lambda study: table)


HOW = {"study": "s", "score": "mig"}
ROWS = [
    ("a", "1", "d", {"mig": (0.30, 0.31, 0.32), "error": (1.0, 1.0, 1.0)}),
    ("b", "1", "d", {"mig": (0.10, 0.12, 0.11), "error": (0.5, 0.5, 0.5)}),
    ("b", "2", "d", {"mig": (0.20, 0.23, 0.21), "error": (1.5, 1.5, 1.5)}),
    ("b", "9", "d", {"mig": (0.40, 0.41, 0.39), "error": (3.0, 3.0, 3.0)}),
    ("c", "1", "d", {"mig": (0.05, 0.50, 0.30), "error": (1.0, 1.1, 0.9)}),
]
EVIDENCE = made(ROWS)


def assessed(evidence, **claim):
    return assess_claim({"says": "it holds", **claim}, {OURS: evidence})


def verdict(**claim):
    return assessed(EVIDENCE, **claim).verdict


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
        ("higher", {"of": "a", "than": "b beta=1", "by": 0.1}, "supported"),
        ("higher", {"of": "a", "than": "b beta=1", "by": 0.5}, "contradicted"),
        ("no_worse", {"of": "a", "than": "b beta=1", "share": 0.1}, "supported"),
        ("no_worse", {"of": "b beta=1", "than": "a", "share": 0.1}, "contradicted"),
        ("no_worse", {"of": "b beta=1", "than": "a", "share": 0.9}, "supported"),
        ("best_at", {"of": "b", "value": 9}, "supported"),
        ("best_at", {"of": "b", "value": 1}, "contradicted"),
        ("highest", {"of": "b beta=9", "among": ["a", "b beta=2"]}, "supported"),
        ("highest", {"of": "a", "among": ["b beta=2", "b beta=9"]}, "contradicted"),
        ("explains", {"of": "b", "by": "value", "above": 0.5}, "supported"),
        ("explains", {"of": "b", "by": "value", "below": 0.5}, "contradicted"),
        ("correlates", {"of": "b", "against": "error"}, "supported"),
        ("overtakes", {"of": "b beta=1", "than": "c", "share": 0.0}, "undecided"),
        ("higher", {"of": "nobody", "than": "a"}, "undecided"),
    ],
)
def test_verdicts_follow_the_runs(kind, how, expected):
    assessment = assessed(EVIDENCE, **{kind: {"study": "s", "score": "mig", **how}})
    assert assessment.verdict == expected
    finding = assessment.findings[OURS]
    # The interval that is shown is that of the margin, so it says the same.
    if finding.low is not None and finding.high is not None:
        sides = {"supported": finding.low > 0, "contradicted": finding.high < 0}
        assert sides.get(expected, finding.low <= 0 <= finding.high)


def test_at_the_same_error_the_others_are_a_curve():
    """Between (0.5, 0.11) and (1.5, 0.21) the curve of b is at about 0.16 where a has 0.31."""
    how = {"study": "s", "score": "mig", "of": "a", "than": "b", "at": "reconstruction loss"}
    renamed = made(
        [(m, v, d, {"mig": x["mig"], "reconstruction loss": x["error"]}) for m, v, d, x in ROWS]
    )
    found = assessed(renamed, higher=how)
    assert found.verdict == "supported" and "+0.148" in found.evidence
    worse = {**how, "of": "b beta=9", "than": "c"}  # whose error is larger than all of the curve
    assert "nothing to compare" in assessed(renamed, higher={**worse, "than": "a and c"}).evidence
    better = {**how, "of": "b beta=1", "than": "b beta=2 and b beta=9"}  # beyond the near end
    assert assessed(renamed, lower=better).verdict == "supported"


def orders(*scores):
    """Evidence of models a, b, c, d with these scores on datasets 0, 1, 2, ..."""
    return made(
        [
            (m, "1", f"d{i}", {"mig": (x - 0.01, x, x + 0.01)})
            for i, row in enumerate(scores)
            for m, x in zip("abcdef", row, strict=False)
        ]
    )


def test_orders_of_models_are_compared_between_datasets():
    how = {"study": "s", "score": "mig", "of": "a and b and c and d"}
    same = orders((1, 2, 3, 4), (2, 3, 4, 5), (0, 5, 6, 7))
    found = assessed(same, agree=how)
    assert found.verdict == "supported" and "W 1.00" in found.evidence
    assert assessed(same, disagree=how).verdict == "contradicted"
    one_turned = orders(*[(1, 2, 3, 4)] * 6, (4, 3, 2, 1))
    found = assessed(one_turned, agree=how)
    assert found.verdict == "contradicted" and "exceptions: d6 (-1.00)" in found.evidence
    assert assessed(one_turned, agree={**how, "on": 6}).verdict == "supported"


def test_datasets_on_which_a_claim_holds_are_counted():
    runs = orders((1, 2), (1, 2), (2, 1))
    how = {"study": "s", "score": "mig", "of": "b", "than": "a"}
    assert assessed(runs, higher_on={**how, "least": 2}).verdict == "supported"
    assert assessed(runs, higher_on={**how, "least": 3}).verdict == "contradicted"


def test_most_of_several_scores():
    runs = made(
        [
            ("a", "1", "d", {"x": (1, 1, 1), "y": (2, 2, 2.5), "z": (3, 3, 3.5)}),
            ("b", "1", "d", {"x": (2, 2, 2), "y": (1, 1, 1.5), "z": (1, 1, 1.5)}),
        ]
    )
    how = {"study": "s", "scores": ["x", "y", "z", "not there"], "of": "a", "than": "b"}
    assert assessed(runs, most=how).verdict == "supported"
    assert assessed(runs, most={**how, "share": 0.8}).verdict == "contradicted"


def test_the_best_value_may_differ_between_datasets():
    def values(data, best):
        rows = ((v, 1 - 0.1 * abs(v - best)) for v in (1, 2, 3))
        return [("a", str(v), data, {"mig": [x + 0.001 * s for s in range(8)]}) for v, x in rows]

    def verdict_on(*rows):
        how = {"study": "s", "score": "mig", "of": "a"}
        return assessed(made([r for row in rows for r in row], range(8)), best_differs=how).verdict

    assert verdict_on(values("d", 1), values("e", 3)) == "supported"
    assert verdict_on(values("d", 1), values("e", 1)) == "undecided"


def test_all_of_several_scores_must_hold():
    how = {"study": "s", "of": "b"}
    assert verdict(rises={**how, "each": ["mig", "error"]}) == "supported"
    mixed = {"study": "s", "of": "b beta=1", "among": ["a"], "each": ["mig", "error"]}
    shown = assessed(EVIDENCE, highest=mixed).finding
    assert shown.verdict == "contradicted" and shown.high < 0  # the numbers of the part that fails


def test_an_undecided_claim_says_how_many_seeds_would_decide_it():
    found = assessed(EVIDENCE, higher={"study": "s", "score": "mig", "of": "a", "than": "c"})
    assert found.verdict == "undecided" and "seeds would decide" in found.evidence
    assert found.finding.needed > 3


def test_conditions_of_a_test_are_numbers_in_the_file():
    how = {"study": "s", "score": "mig", "of": "a", "than": "b beta=1"}
    limit = {"score": "error", "of": "a", "below": 0.5}
    found = assessed(EVIDENCE, higher=how, testable=limit)
    assert found.verdict == "not testable here" and "error of a is 1" in found.evidence
    assert verdict(higher=how, testable=[{**limit, "below": 2.0}]) == "supported"
    assert verdict(higher=how, ceiling={"above": 0.05}) == "at the ceiling"
    assert verdict(higher=how, ceiling={"above": 0.2}) == "supported"


def test_decided_claims_are_checked_for_their_number():
    strong = assess_claim(
        {"name": "strong", "says": "", "higher": {**HOW, "of": "a", "than": "b beta=1"}},
        {OURS: EVIDENCE},
    )
    assert survives_holm([strong], OURS) == {"strong": True}
    weak = [
        assess_claim(
            {"name": f"weak {i}", "says": "", "higher": {**HOW, "of": "a", "than": "c"}},
            {OURS: EVIDENCE},
        )
        for i in range(3)
    ]
    assert survives_holm([strong, *weak], OURS).keys() == {"strong"}


def test_an_unknown_test_or_score_is_refused():
    with pytest.raises(UnknownNameError, match="test of a claim"):
        verdict(wins={"study": "s"})
    with pytest.raises(UnknownNameError, match="score of this study"):
        verdict(higher={"study": "s", "score": "mgi", "of": "a", "than": "c"})
    with pytest.raises(ParameterError, match="needs a line"):
        verdict(explains={"study": "s", "score": "mig", "of": "b", "by": "value"})


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


def published(**names):
    """Published runs of two models, whose MIG rises with the value."""
    theirs = pd.DataFrame(
        [
            {"model": m, "value": v, "data": d, "seed": s, "mig": v / 10 + s / 100, "loss": 1.0}
            for m in ("beta-vae", "beta-tcvae")
            for v in (1.0, 4.0, 16.0)
            for d in ("dsprites", "cars3d")
            for s in SEEDS
        ]
    )
    return PublishedEvidence(theirs, {"studies": {"s": ["dsprites"]}, **names})


def test_published_runs_are_put_to_the_same_test():
    ours = made([("beta-vae", "1", "sprites(size=32)", {"mig": (0.1, 0.2, 0.3)})])
    sources = {OURS: ours, PUBLISHED: published()}
    claim = {"says": "", "rises": {"study": "s", "score": "mig", "of": "beta-vae"}}
    found = assess_claim(claim, sources)
    assert found.verdict == "undecided" and found.published.startswith("supported: rise of mig")
    assert "supported on dsprites (+0.75), cars3d" in found.published
    assert assess_claim(claim, sources, PUBLISHED).verdict == "supported"
    one = {"of": "beta-vae beta=16", "than": "beta-vae beta=1", "study": "s", "score": "mig"}
    assert "difference in mig: +1.5" in assess_claim({"says": "", "higher": one}, sources).published


def test_names_of_published_runs_stand_for_ours():
    theirs = published(
        runs={"vae": "beta-vae beta=1", "beta-vae beta=60": "beta-vae beta=16"},
        scores={"reconstruction.squared_error": "loss"},
    )
    assert len(theirs.select("s", "beta-vae and vae")) == 9
    assert set(theirs.select("s", "beta-vae beta=60")["value"]) == {16.0}
    assert set(theirs.select("s", "vae", "cars3d")["data"]) == {"cars3d"}
    assert len(theirs.select("s", "vae", "all")) == 6
    assert "reconstruction.squared_error" in theirs.table("s")
    claim = {"says": "", "higher": {**HOW, "of": "beta-vae beta=60", "than": "vae"}}
    assert "+1.5" in assess_claim(claim, {PUBLISHED: theirs}).published
    assert not assess_claim({**claim, "published": False}, {PUBLISHED: theirs}).findings
    other = {"says": "", "higher": {**claim["higher"], "study": "faces"}}
    assert not assess_claim(other, {PUBLISHED: theirs}).findings


def test_several_scores_stand_for_the_mean_of_those_that_are_there():
    how = {"study": "s", "score": ["mig", "error", "other"], "of": "a", "than": "b beta=1"}
    found = assessed(EVIDENCE, higher=how)  # (0.2 + 0.5) / 2
    assert found.verdict == "supported" and "the mean of these scores: +0.35" in found.evidence
