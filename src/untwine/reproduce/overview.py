"""The verdicts on all claims at a glance: tables in Markdown, and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untwine.reproduce.claim_tests.findings import Finding, seeds_text
from untwine.reproduce.claims import (
    CEILING,
    KINDS,
    NOT_RUN,
    OURS,
    PUBLISHED,
    UNTESTABLE,
    VERDICTS,
    Verdict,
    read_claim,
    survives_holm,
)
from untwine.reproduce.items import items_of, paper_names, plan_study, read_causes, read_paper
from untwine.reproduce.trial import read_records, read_verdicts
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
RESULTS = "docs/reproductions/results"  # where the tables of the documentation are
LINE = 52  # squares of a line of the picture
PAPER_GAP = 0.4  # between papers, in squares
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
    parts = [
        count_sentence(facts, verdicts),
        replication_sentence(name, results),
        counts_by_item(name, verdicts),
        "\n".join(lines),
        _dagger_sentence(firm),
    ]
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


def counts_by_item(name: str, verdicts: Sequence[Verdict]) -> str:
    """Return how many claims of each table and figure have which verdict, in Markdown.

    A claim that several of them show counts where it comes first.
    """
    left = {v.name: v.verdict for v in verdicts}
    counts = {
        f"`{item.name}`: {item.title}": Counter(
            left.pop(claim) for body in item.claims if (claim := read_claim(body).name) in left
        )
        for item in items_of(read_paper(name))
    }
    occurring = [verdict for verdict in VERDICTS if any(row[verdict] for row in counts.values())]
    lines = [f"| table or figure | {' | '.join(occurring)} |", "|---" * (len(occurring) + 1) + "|"]
    for title, row in counts.items():
        if row:
            cells = (str(row[verdict] or "") for verdict in occurring)
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def replication_sentence(name: str, results: Path) -> str:
    """Return how many of our runs there are, if others' decide the claims, and how to make more."""
    paper = read_paper(name)
    if (paper["decided-by"] or OURS) == OURS:
        return ""
    records = read_records(paper, "laptop", results)
    made = {run.hash for record in records.values() for run in record.study.runs}
    studies = {
        study: {run.hash for run in plan_study(paper, study, "laptop", {}).runs}
        for study in paper["studies"]
    }
    planned = set().union(*studies.values())
    count = f"{len(planned & made)} of {len(planned)} runs"
    if planned <= made:
        return f"Our replication is complete: {count}."
    parts = [f"{len(h & made)} of {len(h)} in `{study}`" for study, h in studies.items()]
    note = ", which share some" if sum(map(len, studies.values())) > len(planned) else ""
    return (
        f"Our replication has {count} so far ({', '.join(parts)}{note}). Claims that need the "
        f"others are *not run*. `untwine reproduce {name} --recorded {RESULTS} --out trials` makes "
        f"the missing runs, and `untwine reproduce {name} --results {RESULTS} --out trials` adds "
        "each setting once all its seeds are finished."
    )


def _cell(finding: Finding | None, firm: bool) -> str:
    """Return a verdict with its effect and interval."""
    if finding is None:
        return "–"
    text = f"**{finding.verdict}**" + ("" if firm else NOT_HOLM)
    undecided = finding.verdict == "undecided"
    if finding.effect is None and finding.p is None:
        return text
    if finding.low is None or finding.high is None:  # a ranking or best values: no one effect
        facts = finding.text.partition(". By dataset")[0]
        return f"{text} {facts.partition(' datasets: ')[0]}"
    text += f" {finding.effect:+.3g} [{finding.low:+.2g}, {finding.high:+.2g}], n = {finding.n}"
    if undecided and finding.n > 1:
        text += f"; {seeds_text(finding.needed)}"
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
    """Draw a square for each claim, some lines of them for each paper and kind of evidence."""
    from matplotlib.patches import Patch, Rectangle

    from untwine.tools.figures import panels

    squares: list[tuple[int, float, str]] = []  # column, height, verdict
    labels: dict[float, str] = {}  # by height
    y = 0.0
    for name, verdicts in all_verdicts(results).items():
        for kind in KINDS:
            row = [v.findings[kind].verdict for v in verdicts if kind in v.findings]
            if all(verdict == NOT_RUN for verdict in row):
                continue
            labels[y + 0.5] = f"{name}, {HEADINGS[kind]}: {len(row)} claims"
            for position, verdict in enumerate(sorted(row, key=VERDICTS.index)):
                line, column = divmod(position, LINE)
                squares.append((column, y + line, verdict))
            y = squares[-1][1] + 1
        y += PAPER_GAP
    figure, (axis,) = panels(1, width=0.17 * LINE + 3.2, height=0.26 * y + 0.6)
    for x, height, verdict in squares:
        axis.add_patch(Rectangle((x, height + 0.08), 0.86, 0.84, color=COLOURS[verdict]))
    axis.set(xlim=(0, LINE), ylim=(y, 0), xticks=[])
    axis.set_yticks([*labels], [*labels.values()])
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    occurring = {verdict for _, _, verdict in squares}
    shown = [verdict for verdict in VERDICTS if verdict in occurring]
    patches = [Patch(color=COLOURS[verdict], label=verdict) for verdict in shown]
    figure.legend(handles=patches, ncols=len(shown), frameon=False, loc="outside lower left")
    return figure
