"""The verdicts on all claims at a glance: tables in Markdown, and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untwine.reproduce.claim_tests.findings import Finding
from untwine.reproduce.claims import (
    CEILING,
    KINDS,
    NOT_RUN,
    OURS,
    PUBLISHED,
    UNTESTABLE,
    VERDICTS,
    Verdict,
    survives_holm,
)
from untwine.reproduce.items import paper_names, read_causes, read_paper
from untwine.reproduce.trial import read_verdicts
from untwine.tools.sealed import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "supported": "#2e8b57",
    "contradicted": "#c0392b",
    "undecided": "#e0b030",
    CEILING: "#6f9fd8",
    UNTESTABLE: "#9a9a9a",
    NOT_RUN: "#e4e4e4",
}
HEADINGS = {OURS: "our runs", PUBLISHED: "published runs", "paper scale": "paper scale"}
NOT_HOLM = "†"  # decided alone, not once the number of claims is counted


def verdict_table(name: str, results: Path) -> str:
    """Return a paper's claims with the verdict of each kind of evidence, and its cause."""
    facts, verdicts = read_json(results / f"{name}.json"), read_verdicts(results / f"{name}.json")
    causes = read_causes(name)
    kinds = [kind for kind in KINDS if any(kind in v.findings for v in verdicts)]
    firm = {kind: survives_holm(verdicts, kind) for kind in kinds}
    header = ["claim", "where", *(HEADINGS[kind] for kind in kinds), "cause"]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for v in verdicts:
        cells = [_cell(v.findings.get(kind), firm[kind].get(v.name, True)) for kind in kinds]
        where = f"ours: {v.place}" if v.ours else v.place
        lines.append(f"| {' | '.join([v.says, where, *cells, causes.get(v.name, '')])} |")
    details = [
        f"- {v.says}. {HEADINGS[kind].capitalize()}: {finding.text}."
        for v in verdicts
        for kind, finding in v.findings.items()
        if finding.verdict != NOT_RUN
    ]
    parts = [count_sentence(facts, verdicts), "\n".join(lines), _dagger_sentence(firm)]
    if details:
        body = "\n".join(details)
        parts.append(f"<details><summary>All numbers</summary>\n\n{body}\n\n</details>")
    parts.append(_dropped(name))
    return "\n\n".join(filter(None, parts))


def count_sentence(facts: Mapping[str, Any], verdicts: Sequence[Verdict]) -> str:
    """Return how many claims have which verdict, and by which code they were fixed."""
    counts = Counter(v.verdict for v in verdicts)
    listing = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    kind = HEADINGS[verdicts[0].decided_by]
    sentence = f"{len(verdicts)} claims, decided by {kind}: {listing}."
    commits = [f"`{commit[:12]}`" for commit in facts.get("commits", ())]
    if commits:
        plural = "s" if len(commits) > 1 else ""
        sentence += f" Settings, claims and lines are those of commit{plural} {', '.join(commits)}."
    return sentence


def _cell(finding: Finding | None, firm: bool) -> str:
    """Return a verdict with its effect and interval."""
    if finding is None:
        return "–"
    text = f"**{finding.verdict}**" + ("" if firm else NOT_HOLM)
    if finding.effect is not None and finding.low is not None and finding.high is not None:
        text += f" {finding.effect:+.3g} [{finding.low:+.2g}, {finding.high:+.2g}], n = {finding.n}"
    if finding.needed and finding.verdict == "undecided":
        text += f"; {finding.needed:,} seeds would decide"
    return text


def _dagger_sentence(firm: Mapping[str, Mapping[str, bool]]) -> str:
    if all(all(by_name.values()) for by_name in firm.values()):
        return ""
    return (
        f"{NOT_HOLM} decided by its own interval, but not after Holm's correction for all claims."
    )


def _dropped(name: str) -> str:
    """Return the claims that are no longer tested, with what they gave and why."""
    dropped = read_paper(name)["dropped"] or ()
    rows = [f"| {d['says']} | {d['gave']} | {d['why']} |" for d in dropped]
    header = [
        "**Dropped claims**",
        "",
        "| claim | what it gave | why it is dropped |",
        "|---|---|---|",
    ]
    return "\n".join([*header, *rows]) if rows else ""


def all_verdicts(results: Path) -> dict[str, list[Verdict]]:
    """Return the verdicts of all papers that have some."""
    files = {name: results / f"{name}.json" for name in paper_names()}
    return {name: read_verdicts(file) for name, file in files.items() if file.exists()}


def matrix(results: Path) -> str:
    """Return the counts of verdicts by paper, in Markdown."""
    papers = all_verdicts(results)
    header = ["paper", "protocol", "decided by", "claims", *VERDICTS]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    total: Counter[str] = Counter()
    for name, verdicts in papers.items():
        counts = Counter(v.verdict for v in verdicts)
        total += counts
        protocol = read_json(results / f"{name}.json")["protocol"]
        cells = [f"[{name}]({name}.md)", protocol, HEADINGS[verdicts[0].decided_by]]
        cells += [str(len(verdicts)), *(str(counts[verdict] or "") for verdict in VERDICTS)]
        lines.append(f"| {' | '.join(cells)} |")
    sums = [str(sum(total.values())), *(str(total[verdict] or "") for verdict in VERDICTS)]
    lines.append(f"| all | | | {' | '.join(sums)} |")
    return "\n".join(lines)


def draw_matrix(results: Path) -> Figure:
    """Draw a square for each claim, a row for each paper and kind of evidence."""
    from matplotlib.patches import Patch, Rectangle

    from untwine.tools.figures import panels

    rows: list[tuple[str, list[str]]] = []
    for name, verdicts in all_verdicts(results).items():
        for kind in KINDS:
            row = [v.findings[kind].verdict for v in verdicts if kind in v.findings]
            if any(verdict != NOT_RUN for verdict in row):
                rows.append((f"{name}, {HEADINGS[kind]}", sorted(row, key=VERDICTS.index)))
    width = max(len(row) for _, row in rows)
    figure, (axis,) = panels(1, width=0.17 * width + 2.6, height=0.32 * len(rows) + 0.9)
    for y, (_, row) in enumerate(rows):
        for x, verdict in enumerate(row):
            axis.add_patch(Rectangle((x, y + 0.12), 0.86, 0.76, color=COLOURS[verdict]))
    axis.set(xlim=(0, width), ylim=(len(rows), 0), xticks=[])
    axis.set_yticks([y + 0.5 for y in range(len(rows))], [name for name, _ in rows])
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    shown = [v for v in VERDICTS if any(v in row for _, row in rows)]
    patches = [Patch(color=COLOURS[verdict], label=verdict) for verdict in shown]
    axis.legend(
        handles=patches,
        ncols=len(shown),
        frameon=False,
        fontsize=8,
        loc="upper left",
        bbox_to_anchor=(0, 0),
    )
    return figure
