"""The page of a reproduced table or figure, and the index of all of them."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwine.errors import DataError
from untwine.reproduce.claims import OURS, PUBLISHED, Verdict, assess_claim
from untwine.reproduce.evidence import Evidence, NoRuns, PublishedEvidence
from untwine.reproduce.items import SCALES, STAND_IN_ENDING, Item, PreparedItem, all_items
from untwine.reproduce.registry import render_entry
from untwine.reproduce.trial import check_unchanged, read_records, recorded_evidence
from untwine.tools.files import read_bytes, write_bytes
from untwine.tools.pages import SHOWS_DATA, Section, markdown, render, save_figures
from untwine.tools.sealed import read_json, write_json
from untwine.tools.terminal import format_duration

MAX_TEXT_BYTES = 1 << 20
NOT_DRAWN = (
    "Not drawn: it needs models, which the tables do not hold. `untwine reproduce {}` draws it."
)
LEFT_OUT = "The picture shows photographs that may not be passed on; the command draws it."


@dataclass(frozen=True)
class Page:
    """A written page, with what the terminal shows of it."""

    path: Path
    sections: Sequence[Section]
    verdicts: Sequence[Verdict]


def write_page(prepared: PreparedItem, *, quiet: bool = True) -> Page:
    """Write the page of an item whose studies have been run.

    index.html    the page, self-contained
    figures/      the figures as SVG, PNG and PDF
    results.md    the page as Markdown
    results.json  the verdicts, which the index shows

    Args:
        prepared: the item with its studies.
        quiet: hide the progress bar.
    """
    from matplotlib import rc_context

    from untwine.tools.figures import STYLE

    item, evidence = prepared.item, Evidence(prepared, quiet=quiet)
    folder = page_folder(prepared)
    with rc_context(STYLE):
        sections = [section for entry in item.show for section in render_entry(evidence, entry)]
        saved = save_figures(sections, folder, quiet=quiet)
    verdicts = assess_item(evidence)
    record = _page_record(prepared, evidence)
    values = {"item": item, "verdicts": verdicts, "record": record, "sections": saved}
    title = f"{item.address}: {item.title}"
    write_bytes(folder / "index.html", render("reproduction.html", title=title, **values))
    write_bytes(folder / "results.md", _page_markdown(item, saved, verdicts, record).encode())
    write_json(folder / "results.json", {**record, "verdicts": [v.to_json() for v in verdicts]})
    return Page(folder / "index.html", saved, verdicts)


def rebuild_item(item: Item, results: Path, folder: Path) -> str:
    """Rebuild an item's tables and figures from recorded tables, without the runs.

    What needs models, such as samples, is what `record_pictures` has kept beside the tables.

    Args:
        item: of a paper that is in trial.
        results: folder of the recorded tables.
        folder: where figures are saved, in `figures`.

    Returns:
        Markdown

    Raises:
        DataError: settings or claims changed since the first run, and the change is not listed.
    """
    from matplotlib import rc_context

    from untwine.tools.figures import STYLE

    evidence = _recorded(item, results)
    parts = [f"## {item.address}: {item.title}", item.about]
    with rc_context(STYLE):
        for number, entry in enumerate(item.show):
            try:
                sections = list(render_entry(evidence, entry))
            except NoRuns:
                kept = _kept_pictures(_picture_file(item, number, results))
                parts.append(kept or NOT_DRAWN.format(item.address))
                continue
            parts += map(markdown, save_figures(sections, folder, quiet=True))
    return "\n\n".join(dict.fromkeys(filter(None, parts))) + "\n"


def record_pictures(prepared: PreparedItem, results: Path) -> list[Path]:
    """Draw what of an item needs its models, and keep it beside the recorded tables.

    Pictures are kept as PNG in `pictures`, each part of an item with a text in Markdown that shows
    them. Photographs that may not be passed on are left out. What needs no models, what has no
    table yet, and what is not run here, is passed over. One run of each model is enough: numbers
    come from the tables.

    Returns:
        the files of the texts
    """
    from matplotlib import rc_context

    from untwine.tools.figures import STYLE

    item, written = prepared.item, list[Path]()
    recorded = _recorded(item, results)
    tables = {name: recorded.table(name) for name in recorded.prepared.folders}
    with_models = Evidence(prepared, tables=tables)
    for number, entry in enumerate(item.show):
        if not {params["study"] for params in entry.values() if "study" in params} <= {*tables}:
            continue
        with rc_context(STYLE), tempfile.TemporaryDirectory() as scratch:
            try:
                list(render_entry(recorded, entry))
                continue
            except NoRuns:
                pass
            try:
                sections = list(render_entry(with_models, entry))
            except DataError:  # also where runs are planned and none is scored
                continue
            saved = save_figures(sections, Path(scratch), quiet=True)
            file = _picture_file(item, number, results)
            file.parent.mkdir(exist_ok=True)
            text = without_photographs("\n\n".join(map(markdown, saved)))
            for name in re.findall(r"\(figures/([^)]+\.png)\)", text):
                picture = file.with_name(f"{item.paper.name}-{item.name}-{name}")
                shutil.copy(Path(scratch) / "figures" / name, picture)
                text = text.replace(f"(figures/{name})", f"({picture.name})")
            write_bytes(file, f"{text}\n".encode())
            written.append(file)
    return written


def _recorded(item: Item, results: Path) -> Evidence:
    records = read_records(item.paper, "laptop", results)
    check_unchanged(item.paper, records)
    return recorded_evidence(
        item, "laptop", {k: r for k, r in records.items() if k in item.studies}
    )


def _picture_file(item: Item, number: int, results: Path) -> Path:
    return results / "pictures" / f"{item.paper.name}-{item.name}-{number}.txt"


def _kept_pictures(file: Path) -> str:
    """Markdown that `record_pictures` has kept, for a page beside the folder of results."""
    if not file.exists():
        return ""
    place = f"{file.parent.parent.name}/{file.parent.name}"
    text = read_bytes(file, MAX_TEXT_BYTES).decode().strip()
    return re.sub(r"\]\(([^)/]+\.png)\)", rf"]({place}/\1)", text)


def without_photographs(text: str) -> str:
    """Markdown without the pictures that show images of CelebA, which may not be passed on."""
    picture = rf"(\*\*[^\n]*celeba[^\n]*)\n\n!\[[^\]]*{re.escape(SHOWS_DATA)}\]\([^)]*\)"
    return re.sub(picture, rf"\1 {LEFT_OUT}", text)


def assess_item(evidence: Evidence) -> list[Verdict]:
    """Test the claims of an item on its runs, and on published runs if they are there."""
    item, sources = evidence.item, {OURS: evidence}
    if evidence.published is not None:
        theirs = PublishedEvidence(evidence.published, item.paper["published"])
        sources = {OURS: evidence, PUBLISHED: theirs}
    decided_by = item.paper["decided-by"] or OURS
    return [assess_claim(claim, sources, decided_by) for claim in item.claims]


def page_folder(prepared: PreparedItem) -> Path:
    """Return the folder of an item's page: PAPER/ITEM-SCALE next to its studies."""
    study = next(iter(prepared.folders.values())).path
    ending = STAND_IN_ENDING if study.name.endswith(STAND_IN_ENDING) else ""
    item = prepared.item
    return study.parent / item.paper.name / f"{item.name}-{prepared.scale}{ending}"


def _page_record(prepared: PreparedItem, evidence: Evidence) -> dict[str, Any]:
    """Return what a reader needs to repeat the reproduction."""
    tables = [evidence.table(name) for name in prepared.folders]
    stand_ins = page_folder(prepared).name.endswith(STAND_IN_ENDING)
    command = f"untwine reproduce {prepared.item.address} --scale {prepared.scale}"
    return {
        "item": prepared.item.address,
        "scale": prepared.scale,
        "command": command + (" --stand-ins" if stand_ins else ""),
        "data": evidence.heading(*prepared.folders),
        "runs": len({run for table in tables for run in table["run"]}),
        "seeds": max(int(table["seed"].nunique()) for table in tables),
        "training": format_duration(evidence.seconds()),
    }


def _page_markdown(
    item: Item, sections: Sequence[Section], verdicts: Sequence[Verdict], record: dict[str, Any]
) -> str:
    """Return the page as Markdown."""
    claims = [f"- {v.says}: {_findings_text(v)}" for v in verdicts]
    origin = (
        f"`{record['command']}`: {record['runs']} runs, {_count_seeds(record['seeds'])}, "
        f"{record['training']} of training on one core each; on {record['data']}."
    )
    parts = [f"## {item.address}: {item.title}", origin, "\n".join(claims)]
    return "\n\n".join(filter(None, [*parts, *map(markdown, sections)])) + "\n"


def _findings_text(verdict: Verdict) -> str:
    """Return what each kind of evidence says, in Markdown."""
    found = [f"**{f.verdict}** ({kind}: {f.text})" for kind, f in verdict.findings.items()]
    return "; ".join(found) + "."


def _count_seeds(count: int) -> str:
    return f"{count} seed{'s' if count > 1 else ''}"


def write_index(out: Path) -> Path:
    """Write a page that links to all pages written so far, with their verdicts."""
    rows: list[dict[str, Any]] = []
    for item in all_items():
        folders = [
            out / item.paper.name / f"{item.name}-{scale}{ending}"
            for scale in SCALES
            for ending in ("", STAND_IN_ENDING)
        ]
        pages = [
            {**read_json(folder / "results.json"), "link": f"{folder.relative_to(out)}/index.html"}
            for folder in folders
            if (folder / "results.json").exists()
        ]
        rows.append({"item": item, "pages": pages})
    file = out / "index.html"
    write_bytes(file, render("reproductions.html", title="Reproductions", rows=rows, sections=[]))
    return file
