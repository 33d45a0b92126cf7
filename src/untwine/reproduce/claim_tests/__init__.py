"""Tests of claims: each reduces a claim to one margin per seed and decides by its interval.

A margin is above zero where the claim holds: a difference of scores, or a slope. How margins decide
is in `study/inference.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from untwine.reproduce.claim_tests import comparisons, rankings
from untwine.reproduce.claim_tests.findings import Finding, Runnable
from untwine.study.inference import Decision, decide_all

TESTS: dict[str, Callable[..., Finding]] = {
    test.__name__: test
    for test in (
        comparisons.higher,
        comparisons.lower,
        comparisons.rises,
        comparisons.falls,
        comparisons.follows,
        comparisons.no_worse,
        comparisons.close,
        comparisons.near,
        comparisons.exceeds,
        comparisons.below,
        rankings.highest,
        rankings.best_at,
        rankings.higher_on,
        rankings.most,
        rankings.overtakes,
        rankings.correlates,
        rankings.explains,
        rankings.agree,
        rankings.disagree,
        rankings.best_differs,
    )
}


def run_test(evidence: Runnable, name: str, params: Mapping[str, Any]) -> Finding:
    """Run a test; with `each`, for each of several scores, all of which must hold.

    The numbers are those of the part that decides: of the weakest, or of the one that contradicts.
    """
    params = dict(params)
    scores = params.pop("each", None)
    if scores is None:
        return TESTS[name](evidence, **params)
    findings = {score: TESTS[name](evidence, **params, score=score) for score in scores}
    parts = [_as_decision(finding) for finding in findings.values()]
    decision = decide_all(parts)
    text = "; ".join(f"{f.verdict}: {f.text}" for f in findings.values())
    if decision.verdict == "contradicted":
        contradicting = [f for f in findings.values() if f.verdict == "contradicted"]
        worst = min(contradicting, key=_p_value)
        return replace(worst, verdict=decision.verdict, text=text, p=decision.p)
    return replace(max(findings.values(), key=_p_value), verdict=decision.verdict, text=text)


def _p_value(finding: Finding) -> float:
    return 1.0 if finding.p is None else finding.p


def _as_decision(finding: Finding) -> Decision:
    nan = float("nan")
    numbers = [nan if v is None else v for v in (finding.effect, finding.low, finding.high)]
    return Decision(finding.verdict, *numbers, p=_p_value(finding), n=finding.n)
