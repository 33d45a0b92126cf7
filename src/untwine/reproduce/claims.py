"""Claims of papers, and the verdict of each kind of evidence on them.

A claim is the paper's, with its place there, or ours. Its test, its lines and the conditions under
which it can be tested stand in the paper's file before the first run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.reproduce.claim_tests import TESTS, run_test
from untwine.reproduce.claim_tests.findings import Finding, Runnable, by_seed
from untwine.reproduce.evidence import ALL_DATA, NoRuns, PublishedEvidence
from untwine.reproduce.items import Paper, items_of
from untwine.schema import unknown_name
from untwine.study.inference import CONFIDENCE, holm
from untwine.tools.pages import file_name

OURS, PUBLISHED, PAPER_SCALE = "ours", "published", "paper scale"  # kinds of evidence
KINDS = (OURS, PUBLISHED, PAPER_SCALE)
DECIDED = ("supported", "contradicted")
CEILING, UNTESTABLE, NOT_RUN = "at the ceiling", "not testable here", "not run"
VERDICTS = (*DECIDED, "undecided", CEILING, UNTESTABLE, NOT_RUN)
CLAIM_KEYS = ("name", "says", "paper", "ours", "published", "ceiling", "testable")


@dataclass(frozen=True)
class Claim:
    """What a paper says, and how it is tested."""

    name: str
    says: str
    place: str  # in the paper; of a claim of ours, what it is for
    ours: bool
    test: str
    params: Mapping[str, Any]
    published: Any = None  # changes of the parameters for published runs; False: none fit
    ceiling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    testable: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The result of testing a claim on each kind of evidence."""

    name: str
    says: str
    place: str
    ours: bool
    findings: Mapping[str, Finding]
    decided_by: str = OURS

    @property
    def finding(self) -> Finding:
        """What the kind of evidence found that decides the claim."""
        return self.findings.get(self.decided_by) or Finding(NOT_RUN, "")

    @property
    def verdict(self) -> str:
        return self.finding.verdict

    @property
    def evidence(self) -> str:
        return self.findings[OURS].text if OURS in self.findings else ""

    @property
    def published(self) -> str:
        finding = self.findings.get(PUBLISHED)
        return f"{finding.verdict}: {finding.text}" if finding else ""

    def to_json(self) -> dict[str, Any]:
        facts = {key: getattr(self, key) for key in ("name", "says", "place", "ours", "decided_by")}
        findings = {kind: _without_nan(asdict(f)) for kind, f in self.findings.items()}
        return {**facts, "verdict": self.verdict, "findings": findings}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        facts = {key: data[key] for key in ("name", "says", "place", "ours", "decided_by")}
        return cls(**facts, findings={k: Finding(**f) for k, f in data["findings"].items()})


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """Return numbers with six digits, and nothing for NaN, so that they are JSON."""
    return {
        key: None if value != value else float(f"{value:.6g}") if type(value) is float else value
        for key, value in values.items()
    }


def read_claim(body: Mapping[str, Any]) -> Claim:
    """Read a claim of a paper's file."""
    kinds = [key for key in body if key not in CLAIM_KEYS]
    if len(kinds) != 1 or kinds[0] not in TESTS:
        names = ", ".join(kinds) or "nothing"
        raise UnknownNameError(unknown_name("test of a claim", names, TESTS))
    if "paper" in body and "ours" in body:
        raise ParameterError(f"{body['says']!r} is the paper's claim or ours, not both")
    testable = body.get("testable", ())
    return Claim(
        name=str(body.get("name") or file_name(str(body["says"]))),
        says=str(body["says"]),
        place=str(body.get("paper") or body.get("ours") or ""),
        ours="ours" in body,
        test=kinds[0],
        params=body[kinds[0]],
        published=body.get("published"),
        ceiling=body.get("ceiling", {}),
        testable=tuple([testable] if isinstance(testable, Mapping) else testable),
    )


def claims_of(paper: Paper) -> Iterator[Claim]:
    """Iterate over the claims of a paper; those that several items show come once."""
    seen: set[str] = set()
    for claim in (read_claim(body) for item in items_of(paper) for body in item.claims):
        if claim.name not in seen:
            seen.add(claim.name)
            yield claim


def assess_claim(
    claim: Claim | Mapping[str, Any], sources: Mapping[str, Runnable], decided_by: str = OURS
) -> Verdict:
    """Test a claim on each kind of evidence that there is.

    Args:
        claim: what to test.
        sources: the evidence by kind; published runs are tested by the claim's own changes.
        decided_by: the kind of evidence that decides.
    """
    claim = claim if isinstance(claim, Claim) else read_claim(claim)
    findings: dict[str, Finding] = {}
    for kind, evidence in sources.items():
        if isinstance(evidence, PublishedEvidence):
            if claim.published is not False and evidence.covers(claim.params, claim.published):
                findings[kind] = _test_published(evidence, claim)
        elif not (claim.published or {}).get("only"):
            findings[kind] = test_claim(evidence, claim)
    return Verdict(claim.name, claim.says, claim.place, claim.ours, findings, decided_by)


def test_claim(evidence: Runnable, claim: Claim) -> Finding:
    """Test a claim, unless its conditions are not met."""
    try:
        unmet = [text for limit in claim.testable if (text := _unmet(evidence, claim, limit))]
        if unmet:
            return Finding(UNTESTABLE, "; ".join(unmet))
        reached = _at_ceiling(evidence, claim)
        return (
            Finding(CEILING, reached) if reached else run_test(evidence, claim.test, claim.params)
        )
    except NoRuns as error:
        return Finding(NOT_RUN, str(error))
    except DataError as error:
        return Finding("undecided", str(error))


def _unmet(evidence: Runnable, claim: Claim, limit: Mapping[str, Any]) -> str:
    """Return why a condition for a fair test is not met; an empty string if it is."""
    study = limit.get("study", claim.params["study"])
    mean = float(np.nanmean(by_seed(evidence.select(study, limit["of"]), limit["score"])))
    value = f"{limit['score']} of {limit['of']} is {mean:.3g}"
    if "below" in limit and not mean < limit["below"]:
        return f"{value}, not below {limit['below']:g}"
    if "above" in limit and not mean > limit["above"]:
        return f"{value}, not above {limit['above']:g}"
    return ""


def _at_ceiling(evidence: Runnable, claim: Claim) -> str:
    """Return why nothing can be told apart: all sides reach the end of the scale."""
    if not claim.ceiling:
        return ""
    score, line = claim.params["score"], float(claim.ceiling["above"])
    sides = [claim.params[key] for key in ("of", "than", "to") if key in claim.params]
    means = [
        float(np.nanmean(by_seed(evidence.select(claim.params["study"], runs), score)))
        for runs in sides
    ]
    return (
        f"all above {line:g}: {', '.join(f'{m:.3g}' for m in means)}" if min(means) > line else ""
    )


def _test_published(evidence: PublishedEvidence, claim: Claim) -> Finding:
    """Test a claim on published runs, then on each of their datasets alone."""
    changes = {k: v for k, v in (claim.published or {}).items() if k not in ("only", "by_dataset")}
    params = {**claim.params, **changes}
    try:
        finding = run_test(evidence, claim.test, params)
    except DataError as error:
        return Finding("undecided", str(error))
    if (
        params.get("data", ALL_DATA) != ALL_DATA
        or (claim.published or {}).get("by_dataset") is False
    ):
        return finding
    listing = _by_dataset(evidence, claim.test, params)
    return Finding(**{**asdict(finding), "text": f"{finding.text}. By dataset: {listing}"})


def _by_dataset(evidence: PublishedEvidence, test: str, params: Mapping[str, Any]) -> str:
    """Return the verdicts on single datasets, by verdict."""
    by_verdict: dict[str, list[str]] = {}
    for name in evidence.datasets:
        try:
            finding = run_test(evidence, test, {**params, "data": name})
        except DataError:
            continue
        effect = "" if finding.effect is None else f" ({finding.effect:+.2g})"
        by_verdict.setdefault(finding.verdict, []).append(f"{name}{effect}")
    return "; ".join(f"{verdict} on {', '.join(n)}" for verdict, n in by_verdict.items())


def survives_holm(verdicts: list[Verdict], kind: str) -> dict[str, bool]:
    """Whether each decided verdict stays after Holm's correction over all claims of a paper."""
    findings = {v.name: v.findings[kind] for v in verdicts if kind in v.findings}
    p = {name: f.p for name, f in findings.items() if f.p is not None and f.p == f.p}
    corrected = dict(zip(p, holm(np.array(list(p.values()))), strict=True)) if p else {}
    return {
        name: bool(corrected.get(name, 1.0) < 1 - CONFIDENCE)
        for name, finding in findings.items()
        if finding.verdict in DECIDED
    }
