"""The command `untwine reproduce`. Heavy modules are imported inside."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from untwine.cli.options import Quiet
from untwine.cli.study import report_outcome
from untwine.errors import DataError, ParameterError
from untwine.tools.files import resolve
from untwine.tools.terminal import say, show_path, show_table

if TYPE_CHECKING:
    from untwine.reproduce.items import Item, PreparedItem


def reproduce(
    item: Annotated[
        str,
        typer.Argument(help="PAPER, PAPER/ITEM, or the same of FILE.yaml; without it, a list."),
    ] = "",
    scale: Annotated[
        Literal["laptop", "paper", "smoke"],
        typer.Option(help="laptop: minutes; paper: its sizes and data; smoke: seconds."),
    ] = "laptop",
    every: Annotated[bool, typer.Option("--all", help="Every item, and an index page.")] = False,
    seeds: Annotated[
        int, typer.Option(min=0, help="Number of seeds; the item's own by default.")
    ] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Runs at a time; 0: one per core.")] = 0,
    stand_ins: Annotated[
        bool, typer.Option("--stand-ins", help="Use stand-ins even where the real data exists.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(envvar="UNTWINE_DATA", help="Directory of data files.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory that holds runs and pages.")] = Path(
        "reproductions"
    ),
    results: Annotated[
        Path | None,
        typer.Option(
            help="Train nothing: write the tables of finished runs and the verdicts here."
        ),
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            help="Skip runs whose scores are in the tables here; train the others, write no page."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table or figure: the paper's numbers next to ours, and a verdict on each claim.

    Without an item, list them. An item is a study: Ctrl-C stops it, the same command resumes it.
    The laptop scale uses real data if its files are in --data, and otherwise a stand-in, named in
    the tables; the paper scale requires the real data.

    \b
    Examples:
      untwine reproduce
      untwine reproduce dip-vae/table1 --scale laptop --workers 2
      untwine reproduce dip-vae
      untwine reproduce --all --scale laptop
      untwine reproduce dip-vae --results docs/reproductions/results
    """
    from untwine.reproduce.items import all_items, find_items
    from untwine.reproduce.page import write_index
    from untwine.reproduce.trial import without_recorded

    if item and every:
        raise ParameterError("name an item or write --all, not both")
    if data is not None:
        os.environ["UNTWINE_DATA"] = str(resolve(data))  # workers inherit it
    if not item and not every:
        list_items(all_items())
        return
    if results is not None:
        write_results([] if every else [item], scale, out, results)
        return
    failed = False
    for one in all_items() if every else find_items(item):
        try:
            prepared = prepare_item(one, scale, seeds, stand_ins, out)
            if recorded is not None:
                failed |= not run_studies(without_recorded(prepared, recorded), workers, quiet)
            else:
                failed |= not reproduce_item(prepared, workers, quiet)
        except DataError as error:
            if not every:
                raise
            say(f"{one.address} is skipped: {error}")
            failed = True
    if every:
        show_path(write_index(out))
    if failed:
        raise typer.Exit(1)


def write_results(names: list[str], scale: str, out: Path, results: Path) -> None:
    """Write tables of finished settings and verdicts; without names, of all papers in trial."""
    from untwine.reproduce.items import paper_names, read_paper
    from untwine.reproduce.page import record_pictures
    from untwine.reproduce.trial import finished_items, record_runs, write_verdicts

    papers = [read_paper(name) for name in names or paper_names()]
    for paper in (paper for paper in papers if names or paper["trial"]):
        results.mkdir(parents=True, exist_ok=True)
        for study, left in record_runs(paper, scale, out, results).items():
            say(f"{paper.name}: {study}, {left} settings are not complete" if left else study)
        for prepared in finished_items(paper, scale, out):
            for file in record_pictures(prepared, results):
                say(f"pictures: {file}")
        verdicts = write_verdicts(paper, results)
        rows = [[v.says, v.verdict, v.finding.text] for v in verdicts]
        show_table(["claim", "verdict", "evidence"], rows)
        show_path(results / f"{paper.name}.json")


def list_items(items: "list[Item]") -> None:
    rows = [[i.address, i.title, f"{i.minutes:g} min" if i.minutes else ""] for i in items]
    show_table(["item", "what it shows", "laptop, two cores"], rows)
    say("run one: untwine reproduce ITEM --scale laptop")


def prepare_item(
    item: "Item", scale: str, seeds: int, stand_ins: bool, out: Path
) -> "PreparedItem":
    """Plan the studies of an item and name the stand-ins that they use."""
    from untwine.reproduce.items import prepare

    prepared = prepare(item, scale, out, seeds=seeds, stand_ins=stand_ins)
    for real, other in prepared.stand_ins.items():
        why = "as requested" if stand_ins else "whose files are missing"
        say(f"{other} stands in for {real}, {why}")
    return prepared


def reproduce_item(prepared: "PreparedItem", workers: int, quiet: bool) -> bool:
    """Run an item and write its page; whether every run succeeded."""
    from untwine.reproduce.page import write_page

    item = prepared.item
    succeeded = run_studies(prepared, workers, quiet)
    page = write_page(prepared, quiet=quiet)
    say(f"{item.address}: {item.title}")
    for section in page.sections:
        if section.header:
            say(f"{section.title}. {section.sentence}")
            show_table(section.header, section.rows)
    if page.verdicts:
        rows = [
            [v.says, kind, f.verdict, f.text]
            for v in page.verdicts
            for kind, f in v.findings.items()
        ]
        show_table(["claim", "runs", "verdict", "evidence"], rows)
    show_path(page.path)
    return succeeded


def run_studies(prepared: "PreparedItem", workers: int, quiet: bool) -> bool:
    """Run an item's studies and say how each ended; whether every run succeeded."""
    from untwine.study.running import run

    succeeded = True
    for folder in prepared.folders.values():
        try:
            outcome = run(folder, workers=workers, quiet=quiet)
        except KeyboardInterrupt:
            say(f"interrupted; run the same command to resume {folder.path}")
            raise typer.Exit(130) from None
        report_outcome(outcome, folder.path, len(folder.study.runs))
        succeeded &= not outcome.failed
    return succeeded
