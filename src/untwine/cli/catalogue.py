"""The commands that list and describe models, metrics, datasets, networks and likelihoods."""

from typing import Annotated

import typer

from untwine.cli.options import ModelName
from untwine.tools.terminal import say, show_table


def cite(model: ModelName) -> None:
    """Print the BibTeX entries of the models you use.

    \b
    Example:
      untwine cite jigsaw+beta-tcvae
    """
    from untwine.catalogue.entries import citations
    from untwine.errors import DataError

    entries = citations(model)
    if not entries:
        raise DataError(f"{model} names no BibTeX; its decorator may have one, as bibtex=TEXT")
    print("\n\n".join(entries))


def group(kind: str) -> typer.Typer:
    """The commands `untwine KIND` and `untwine KIND show NAME`."""
    singular = kind.removesuffix("s")
    app = typer.Typer(
        help=f"List the {kind}, or show one.", rich_markup_mode=None, add_completion=False
    )

    @app.callback(invoke_without_command=True)
    def list_entries(
        context: typer.Context,
        markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
        pairs: Annotated[
            bool,
            typer.Option(hidden=kind != "models", help="Build every pair and show which combine."),
        ] = False,
    ) -> None:
        from untwine.catalogue.entries import entry_table, markdown_table

        if context.invoked_subcommand:
            return
        if pairs and kind == "models":
            show_pairs()
            return
        if markdown:
            print(markdown_table(kind))
            return
        show_table(*entry_table(kind))
        say(f"details: untwine {kind} show NAME")

    @app.command(help=f"Show the parameters and the paper of a {singular}.")
    def show(name: Annotated[str, typer.Argument(help="A name from the list.")]) -> None:
        from untwine.catalogue.entries import describe_entry

        print(describe_entry(kind, name))

    return app


def show_pairs() -> None:
    """Print which pairs of models combine, and why the others do not."""
    from untwine.catalogue.pairs import all_refusals, pair_table

    refusals = all_refusals()
    show_table(*pair_table(refusals))
    for pair, reason in refusals.items():
        if reason:
            say(f"{'+'.join(pair)}: {reason}")
