"""The page of a reproduced table or figure, and the index of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from untwine.claims import Verdict, judge
from untwine.evidence import Evidence
from untwine.exhibits import shown
from untwine.monitor import duration
from untwine.pages import Section, markdown, render, save_figures
from untwine.reproduction import SCALES, Item, Prepared, all_items
from untwine.runs import read_json
from untwine.store import write_bytes, write_json

ENDINGS = ("", "-stand-ins")  # of the folder of a page


@dataclass(frozen=True)
class Page:
    """What was written, for those who read on the terminal."""

    path: Path
    sections: Sequence[Section]
    verdicts: Sequence[Verdict]


def write_page(prepared: Prepared, *, quiet: bool = True) -> Page:
    """Write the page of an item whose studies are run.

    index.html    the page, which needs no other file
    figures/      what is drawn, as SVG and PNG
    results.md    the same to paste into a text
    results.json  the verdicts, from which the index is made

    Args:
        prepared: the item with its studies.
        quiet: no progress bar.
    """
    from matplotlib import rc_context

    from untwine.study_figures import STYLE

    item, evidence = prepared.item, Evidence(prepared, quiet=quiet)
    folder = page_folder(prepared)
    with rc_context(STYLE):
        sections = [section for wanted in item.show for section in shown(evidence, wanted)]
        saved = save_figures(sections, folder, quiet=quiet)
    verdicts = [judge(evidence, claim) for claim in item.claims]
    facts = _facts(prepared, evidence)
    values = {"item": item, "verdicts": verdicts, "facts": facts, "sections": saved}
    title = f"{item.address}: {item.title}"
    write_bytes(folder / "index.html", render("reproduction.html", title=title, **values))
    write_bytes(folder / "results.md", _text(item, saved, verdicts, facts).encode())
    write_json(folder / "results.json", {**facts, "verdicts": [asdict(v) for v in verdicts]})
    return Page(folder / "index.html", saved, verdicts)


def page_folder(prepared: Prepared) -> Path:
    """Where the page of an item is: PAPER/ITEM-SCALE beside its studies."""
    study = next(iter(prepared.folders.values())).path
    ending = "-stand-ins" if study.name.endswith("-stand-ins") else ""
    item = prepared.item
    return study.parent / item.paper.name / f"{item.name}-{prepared.scale}{ending}"


def _facts(prepared: Prepared, evidence: Evidence) -> dict[str, Any]:
    """What a reader must know to repeat it."""
    tables = [evidence.table(name) for name in prepared.folders]
    stand_ins = page_folder(prepared).name.endswith("-stand-ins")
    command = f"untwine reproduce {prepared.item.address} --scale {prepared.scale}"
    return {
        "item": prepared.item.address,
        "scale": prepared.scale,
        "command": command + (" --stand-ins" if stand_ins else ""),
        "data": "; ".join(dict.fromkeys(evidence.heading(name) for name in prepared.folders)),
        "runs": len({run for table in tables for run in table["run"]}),
        "seeds": max(int(table["seed"].nunique()) for table in tables),
        "training": duration(evidence.seconds()),
    }


def _text(
    item: Item, sections: Sequence[Section], verdicts: Sequence[Verdict], facts: dict[str, Any]
) -> str:
    """The page as Markdown."""
    claims = [
        f"- {v.says}: **{v.verdict}** ({v.evidence})."
        + (f" Published runs: {v.published}." if v.published else "")
        for v in verdicts
    ]
    how = (
        f"`{facts['command']}`: {facts['runs']} runs, {_seeds(facts['seeds'])}, "
        f"{facts['training']} of training on one core each; on {facts['data']}."
    )
    parts = [f"## {item.address}: {item.title}", how, "\n".join(claims)]
    return "\n\n".join(filter(None, [*parts, *map(markdown, sections)])) + "\n"


def _seeds(count: int) -> str:
    return f"{count} seed{'s' if count > 1 else ''}"


def write_index(out: Path) -> Path:
    """One page that links to every page that is there, with the verdicts."""
    rows: list[dict[str, Any]] = []
    for item in all_items():
        below = out / item.paper.name
        files = [below / f"{item.name}-{s}{e}" / "results.json" for s in SCALES for e in ENDINGS]
        found = [{**read_json(f), "link": _link(f, out)} for f in files if f.exists()]
        rows.append({"item": item, "found": found})
    file = out / "index.html"
    write_bytes(file, render("reproductions.html", title="Reproductions", rows=rows, sections=[]))
    return file


def _link(file: Path, out: Path) -> str:
    return str(file.parent.relative_to(out) / "index.html")
