"""Trials: what is fixed before the first run, and the tables that outlive the runs.

A study notes, when it is first prepared, the commit of the code and a fingerprint of each claim and
of its own settings. When runs end, the scores of all settings whose seeds are complete become a
small table, from which verdicts and pages are rebuilt without the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untwine.data.incoming.tables import parse_csv
from untwine.errors import DamagedFile, DataError, UntwineError
from untwine.registry import metrics
from untwine.reproduce.claims import (
    OURS,
    PAPER_SCALE,
    PUBLISHED,
    Verdict,
    assess_claim,
    claims_of,
)
from untwine.reproduce.evidence import Evidence, PublishedEvidence, published_runs
from untwine.reproduce.items import Item, Paper, PreparedItem, fingerprints, items_of, plan_study
from untwine.runs.directory import SPEC
from untwine.spec import Run
from untwine.study.file import Study
from untwine.study.folder import MAX_STUDY_BYTES, StudyFolder, open_folder, read_study_file
from untwine.study.job import read_metric
from untwine.study.statistics import DESCRIPTION, Table, score_columns
from untwine.tools.files import sha256, write_bytes
from untwine.tools.sealed import read_checked, read_json, write_json

REMEDY = "write it again with `untwine reproduce --results`"
RECORD = {
    "study": str,
    "scale": str,
    "commit": str,
    "continued?": [str],
    "fingerprints": {str: str},
    "stand_ins": {str: str},
    "metrics": [str],
    "examples": int,
    "seeds": [int],
    "settings": [SPEC],
    "incomplete": [SPEC],
    "table?": str,  # SHA-256 of the table beside it
}
EVIDENCE_SCALES = {OURS: "laptop", PAPER_SCALE: "paper"}


@dataclass(frozen=True)
class Record:
    """The table of a study, with what was fixed before its first run."""

    table: Table
    study: Study
    facts: Mapping[str, Any]


def record_runs(paper: Paper, scale: str, out: Path, folder: Path) -> dict[str, int]:
    """Write the table of each study of a paper that has finished runs below `out`.

    Returns:
        how many settings of each study are not complete
    """
    every = tuple(paper["studies"])
    measures = tuple(entry for item in items_of(paper) for entry in item.measure)
    whole = Item(paper, "all", "", every, (), measure=measures)
    left: dict[str, int] = {}
    prepared = _prepared(whole, scale, out)
    for name, study_folder in prepared.folders.items():
        try:
            left[name] = len(write_record(Evidence(prepared), name, folder))
        except DataError:  # no run is scored yet
            left[name] = len(study_folder.study.settings)
    return left


def finished_items(paper: Paper, scale: str, out: Path) -> Iterator[PreparedItem]:
    """The items of a paper with those of their studies that are below `out`."""
    for item in items_of(paper):
        prepared = _prepared(item, scale, out)
        if prepared.folders:
            yield prepared


def _prepared(item: Item, scale: str, out: Path) -> PreparedItem:
    folders: dict[str, StudyFolder] = {}
    used: dict[str, str] = {}
    for name in item.studies:
        path = out / f"{item.paper.name}-{name}-{scale}"
        if (path / "study.json").exists():
            plan_study(item.paper, name, scale, used)
            folders[name] = open_folder(path)
    return PreparedItem(item, scale, folders, used)


def without_recorded(prepared: PreparedItem, folder: Path) -> PreparedItem:
    """Return an item's studies without the runs whose scores are in the tables in `folder`.

    Refuses stand-ins for data that the tables are of: their runs would not join the tables.
    """
    records = read_records(prepared.item.paper, prepared.scale, folder)
    for real in prepared.stand_ins:
        name = real.partition("(")[0]
        if any(name in _names_of_real_data(record) for record in records.values()):
            raise DataError(
                f"the tables in {folder} are of {name}, whose files are missing here; name their "
                "directory with --data"
            )
    hashes = {run.hash for record in records.values() for run in record.study.runs}

    def left(whole: StudyFolder) -> StudyFolder:
        runs = tuple(run for run in whole.study.runs if run.hash not in hashes)
        return replace(whole, study=replace(whole.study, runs=runs))

    folders = {name: left(whole) for name, whole in prepared.folders.items()}
    return replace(prepared, folders=folders)


def _names_of_real_data(record: Record) -> set[str]:
    """Return the datasets of a table that nothing stood in for."""
    replaced = {real.partition("(")[0] for real in record.facts["stand_ins"]}
    return {run.data.name for run in record.study.runs} - replaced


def write_record(evidence: Evidence, study: str, folder: Path) -> list[Run]:
    """Write the table of a study: all settings whose seeds are complete.

    Settings that only an earlier table has, of a trial begun on another machine, stay in it. Runs
    that several studies share are taken from the table of whichever has them.

    Returns:
        a run of each setting that is incomplete, which the table leaves out
    """
    paper, scale = evidence.item.paper, evidence.prepared.scale
    whole = evidence.folder(study)
    started = read_study_file(whole.path).get("started") or {}
    fixed = started.get("fingerprints", {})
    records = read_records(paper, scale, folder)
    earlier = records.pop(study, None)
    if earlier and earlier.facts["fingerprints"].get("settings") != fixed.get("settings"):
        earlier = None
    others = [record for record in records.values() if _scored_alike(record, whole.study)]
    known = [earlier, *others] if earlier else others
    table = own_scores(whole.study.metrics, evidence.table(study))
    table, scored = _join_tables(whole.study, table, known)
    groups: dict[str, list[Run]] = {}
    for run in whole.study.runs:
        groups.setdefault(replace(run, seed=0).hash, []).append(run)
    complete = [runs for runs in groups.values() if {run.hash for run in runs} <= scored]
    left = [runs[0] for runs in groups.values() if runs not in complete]
    if not complete:
        return left
    stem = f"{paper.name}-{study}-{scale}"
    names = {run.hash for runs in complete for run in runs}
    text = table[table.index.isin(names)].to_csv(index=False, float_format="%.6g")
    write_bytes(folder / f"{stem}.csv", text.encode())
    shared = [other for other in others if names & {run.hash for run in other.study.runs}]
    commits = [*(_commits(earlier.facts) if earlier else ()), started.get("commit", "")]
    commits += [commit for other in shared for commit in _commits(other.facts)]
    first, *continued = dict.fromkeys(commits)
    facts = {
        "study": study,
        "scale": scale,
        "commit": first,
        "continued": continued,
        "fingerprints": earlier.facts["fingerprints"] if earlier else fixed,
        "stand_ins": dict(evidence.prepared.stand_ins),
        "metrics": whole.study.metrics,
        "examples": whole.study.examples,
        "seeds": sorted({run.seed for runs in complete for run in runs}),
        "settings": [runs[0].to_json() for runs in complete],
        "incomplete": [run.to_json() for run in left],
        "table": sha256(text.encode()),
    }
    write_json(folder / f"{stem}.json", facts)
    return left


def own_scores(asked: Sequence[str], table: Table) -> Table:
    """Return a table without scores that other studies asked of the same runs.

    Runs of which the study's own scores are not there yet are left out.
    """
    labels = {metrics.label(read_metric(name)) for name in asked}
    of = {name: name.partition(".")[0] for name in score_columns(table)}
    own = [name for name, label in of.items() if label in labels]
    foreign = [name for name, label in of.items() if label not in labels and _is_metric(label)]
    if labels:
        table = table[table[own].notna().any(axis=1)]
    return table.drop(columns=foreign)


def _is_metric(label: str) -> bool:
    try:
        metrics.parse(label)
    except UntwineError:
        return False  # a measure of the paper
    return True


def _scored_alike(record: Record, study: Study) -> bool:
    """Whether the scores of a table are those that a study asks for."""
    same = record.facts["examples"] == study.examples
    return same and list(record.facts["metrics"]) == list(study.metrics)


def _join_tables(study: Study, table: Table, known: Sequence[Record]) -> tuple[Table, set[str]]:
    """Return the rows of finished runs and of known tables, by hash, and the hashes."""
    import pandas as pd

    hashes = {run.directory: run.hash for run in study.runs}
    table = table.set_index(table["run"].map(hashes))
    for record in known:
        names = {run.directory: run.hash for run in record.study.runs}
        before = record.table.set_index(record.table["run"].map(names))
        table = pd.concat([table, before[~before.index.isin(table.index)]])
    order = {run.hash: position for position, run in enumerate(study.runs)}
    table = table[table.index.isin(order)].sort_index(key=lambda index: index.map(order))
    return table, set(table.index)


def _commits(facts: Mapping[str, Any]) -> list[str]:
    """Return the commits from which a study was started and continued."""
    return [facts["commit"], *facts.get("continued", ())]


def read_records(paper: Paper, scale: str, folder: Path) -> dict[str, Record]:
    """Read the tables of a paper's studies at a scale."""
    records: dict[str, Record] = {}
    for name in paper["studies"]:
        file = folder / f"{paper.name}-{name}-{scale}.json"
        if not file.exists():
            continue
        facts = read_json(file, RECORD, remedy=REMEDY)
        settings = [Run.from_json(run) for run in facts["settings"]]
        runs = tuple(replace(run, seed=seed) for run in settings for seed in facts["seeds"])
        study = Study(f"{paper.name}-{name}-{scale}", runs, tuple(facts["metrics"]))
        records[name] = Record(_read_table(file.with_suffix(".csv"), facts), study, facts)
    return records


def _read_table(file: Path, facts: Mapping[str, Any]) -> Table:
    """The scores of a record, checked against its facts; earlier records have no checksum."""
    content = read_checked(file, facts.get("table"), max_bytes=MAX_STUDY_BYTES, remedy=REMEDY)
    table = parse_csv(content, str(file), texts=("value",))
    if not {*DESCRIPTION} <= {*table.columns}:
        raise DamagedFile(f"{file} is damaged: it does not describe its runs; {REMEDY}")
    return table.fillna({"value": ""}).copy()  # in one piece: there may be many columns


def recorded_evidence(item: Item, scale: str, records: Mapping[str, Record]) -> Evidence:
    """Return the evidence of recorded tables; models cannot be opened from it."""
    folders = {name: StudyFolder(Path(), record.study) for name, record in records.items()}
    stand_ins = {k: v for record in records.values() for k, v in record.facts["stand_ins"].items()}
    prepared = PreparedItem(item, scale, folders, stand_ins)
    waiting = {
        name: [Run.from_json(run) for run in record.facts["incomplete"]]
        for name, record in records.items()
    }
    tables = {name: record.table for name, record in records.items()}
    return Evidence(prepared, tables=tables, incomplete=waiting, models=False)


def check_unchanged(paper: Paper, records: Mapping[str, Record]) -> None:
    """Refuse settings or claims that changed since the first run, unless the change is listed."""
    listed = {str(change["of"]) for change in paper["changes"] or ()}
    for name, record in records.items():
        before, now = record.facts["fingerprints"], fingerprints(paper, name, record.facts["scale"])
        changed = {key for key in before | now if before.get(key) != now.get(key)}
        secret = sorted(changed - listed - {f"{name} {key}" for key in listed})
        if before and secret:
            raise DataError(
                f"{paper.name}: {', '.join(secret)} of {name} changed since the first run, at "
                f"commit {record.facts['commit'][:12]}; restore it, or list it under `changes:` "
                "with what changed and why"
            )


def assess_paper(paper: Paper, folder: Path) -> list[Verdict]:
    """Test all claims of a paper on each kind of evidence: recorded tables and published runs."""
    sources: dict[str, Any] = {}
    item = next(items_of(paper))
    for kind, scale in EVIDENCE_SCALES.items():
        records = read_records(paper, scale, folder)
        check_unchanged(paper, records)
        if records or kind == OURS:
            sources[kind] = recorded_evidence(item, scale, records)
    runs = published_runs(paper)
    if runs is not None:
        sources[PUBLISHED] = PublishedEvidence(runs, paper["published"])
    decided_by = paper["decided-by"] or OURS
    return [assess_claim(claim, sources, decided_by) for claim in claims_of(paper)]


def write_verdicts(paper: Paper, folder: Path) -> list[Verdict]:
    """Write the verdicts on all claims of a paper, from its tables and from published runs.

    Published runs may not be passed on. Where they are missing, their findings stay as written.
    """
    file = folder / f"{paper.name}.json"
    before = {v.name: v for v in read_verdicts(file)} if file.exists() else {}
    verdicts = [_keep_published(v, before.get(v.name)) for v in assess_paper(paper, folder)]
    commits = {
        commit
        for scale in EVIDENCE_SCALES.values()
        for record in read_records(paper, scale, folder).values()
        for commit in _commits(record.facts)
    }
    facts = {
        "paper": paper.name,
        "protocol": "trial",
        "commits": sorted(filter(None, commits)),
        "claims": [v.to_json() for v in verdicts],
    }
    write_json(file, facts)
    return verdicts


def _keep_published(verdict: Verdict, before: Verdict | None) -> Verdict:
    if before is None or PUBLISHED in verdict.findings or PUBLISHED not in before.findings:
        return verdict
    findings = {**verdict.findings, PUBLISHED: before.findings[PUBLISHED]}
    return replace(verdict, findings=findings)


def read_verdicts(file: Path) -> list[Verdict]:
    """Read the verdicts that were written for a paper."""
    return [Verdict.from_json(claim) for claim in read_json(file)["claims"]]
