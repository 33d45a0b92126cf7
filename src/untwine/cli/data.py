"""The commands `untwine data`: datasets on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from untwine.cli.options import Quiet, Settings
from untwine.tools.terminal import say, show_path, show_table

app = typer.Typer(
    help="Datasets on this machine: list, fetch, path, check, preview.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
DataName = Annotated[str, typer.Argument(help="A dataset, as in mnist or mnist-01(of=digits).")]


@app.command("list")
def list_data() -> None:
    """List the datasets with their contents, licences and whether their files are present."""
    from untwine.catalogue.data import overview

    show_table(*overview())
    say("details: untwine datasets show NAME, untwine data preview NAME")


@app.command()
def fetch(name: DataName, quiet: Quiet = False) -> None:
    """Download and verify the files of a dataset, and print their paths.

    Interrupted transfers are resumed. Without a network, the error says which file to put where.

    \b
    Example:
      untwine data fetch mnist
    """
    from untwine.catalogue.data import fetch

    paths = fetch(name, quiet=quiet)
    if not paths:
        say(f"{name} needs no files")
    for path in paths:
        show_path(path)


@app.command()
def path(name: DataName) -> None:
    """Show where the files of a dataset are stored."""
    from untwine.catalogue.data import dataset_paths

    show_table(["what", "path"], dataset_paths(name))


@app.command()
def check(name: DataName, settings: Settings = None) -> None:
    """Check a dataset: checksums of its files, examples, factors."""
    from untwine.catalogue.data import check

    show_table(["what", "found"], check(name, settings or []))


@app.command()
def preview(
    name: DataName,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The picture to write; NAME.png by default, after your file or folder."
        ),
    ] = None,
) -> None:
    """Write a contact sheet: random examples, and one row per factor.

    In a row only that factor changes. Points in the plane are plotted, and the columns of a table
    are shown as histograms.

    \b
    Examples:
      untwine data preview sprites --set size=32
      untwine data preview people.csv --set factors=species
      untwine data preview "coloured-mnist(of=digits)" --out digits.png
    """
    from untwine.catalogue.data import preview

    show_path(preview(name, settings or [], out))


# Names of version 0.1, which work until 0.3.
app.command("where", hidden=True)(path)
app.command("look", hidden=True)(preview)
