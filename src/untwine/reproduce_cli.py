"""The command `untwine reproduce`. Heavy modules are imported inside."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from untwine.errors import DataError, ParameterError
from untwine.terminal import say, show_table

if TYPE_CHECKING:
    from untwine.reproduction import Item, Prepared


def reproduce(
    item: Annotated[
        str, typer.Argument(help="PAPER/ITEM, or FILE.yaml/ITEM; without it all are listed.")
    ] = "",
    scale: Annotated[
        Literal["laptop", "paper", "smoke"],
        typer.Option(help="laptop: minutes; paper: its sizes and data; smoke: seconds."),
    ] = "laptop",
    every: Annotated[bool, typer.Option("--all", help="Every item, and an index page.")] = False,
    seeds: Annotated[int, typer.Option(min=0, help="How many, if not the item's own.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Runs at a time; 0: one per core.")] = 0,
    stand_ins: Annotated[
        bool, typer.Option("--stand-ins", help="Use stand-ins even where the real data are here.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(envvar="UNTWINE_DATA", help="Directory of data files.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory that holds runs and pages.")] = Path(
        "reproductions"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run a table or figure of a paper: its numbers beside ours, and whether its claims hold.

    Without an item, list them. An item is a study: Ctrl-C stops cleanly and the same command goes
    on. The laptop scale takes real data where its files are found in --data, and otherwise a
    stand-in, which the tables name; the paper scale takes nothing else than the real data.

    \b
    Examples:
      untwine reproduce
      untwine reproduce dip-vae/table1 --scale laptop --workers 2
      untwine reproduce --all --scale laptop
    """
    from untwine.reproduction import all_items, find_item
    from untwine.reproduction_page import write_index

    if item and every:
        raise ParameterError("name an item or write --all, not both")
    if data is not None:
        os.environ["UNTWINE_DATA"] = str(data.resolve())  # also for worker processes
    if not item and not every:
        show_items(all_items())
        return
    failed = False
    for one in all_items() if every else [find_item(item)]:
        try:
            failed |= not reproduced(one, scale, seeds, workers, stand_ins, out, quiet)
        except DataError as error:
            if not every:
                raise
            say(f"{one.address} is left out: {error}")
            failed = True
    if every:
        print(write_index(out))
    if failed:
        raise typer.Exit(1)


def show_items(items: "list[Item]") -> None:
    rows = [[i.address, i.title, f"{i.minutes:g} min" if i.minutes else ""] for i in items]
    show_table(["item", "what it shows", "laptop, two cores"], rows)
    say("run one: untwine reproduce ITEM --scale laptop")


def reproduced(
    item: "Item",
    scale: str,
    seeds: int,
    workers: int,
    stand_ins: bool,
    out: Path,
    quiet: bool,
) -> bool:
    """Run an item and write its page; whether every run succeeded."""
    from untwine.reproduction import prepare
    from untwine.reproduction_page import write_page

    prepared = prepare(item, scale, out, seeds=seeds, stand_ins=stand_ins)
    for real, other in prepared.stand_ins.items():
        why = "as asked for" if stand_ins else "whose files are not here"
        say(f"{other} stands in for {real}, {why}")
    good = run_studies(prepared, workers, quiet)
    page = write_page(prepared, quiet=quiet)
    say(f"{item.address}: {item.title}")
    for section in page.sections:
        if section.header:
            say(f"{section.title}. {section.sentence}")
            show_table(section.header, section.rows)
    if page.verdicts:
        theirs = any(v.published for v in page.verdicts)
        rows = [[v.says, v.verdict, v.evidence, v.published] for v in page.verdicts]
        header = ["claim", "our runs", "evidence", "published runs"]
        show_table(header[: 3 + theirs], [row[: 3 + theirs] for row in rows])
    print(page.path)
    return good


def run_studies(prepared: "Prepared", workers: int, quiet: bool) -> bool:
    """Do what is left of an item's studies; whether every run succeeded."""
    from untwine.study_cli import run_here, tell_outcome

    good = True
    for folder in prepared.folders.values():
        try:
            outcome = run_here(folder, workers=workers, quiet=quiet)
        except KeyboardInterrupt:
            say(f"stopped; the same command goes on from {folder.path}")
            raise typer.Exit(130) from None
        tell_outcome(outcome, folder.path, len(folder.study.runs))
        good &= not outcome.failed
    return good
