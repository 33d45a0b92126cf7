"""The command `untwine explore`. Heavy modules are imported inside."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from untwine.cli.options import DataPlace, Quiet, Runs, Trust
from untwine.explore.serving import PORT, open_socket, require_packages, serve
from untwine.tools.terminal import show_path


def explore(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs, parts of their names, or studies; by default all in --out."),
    ] = None,
    out: Runs = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to listen on; by default this machine alone can connect.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"{PORT} or the next free port; 0 for any."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    token: Annotated[
        bool, typer.Option("--token/--no-token", help="Require the token in the printed address.")
    ] = True,
    export: Annotated[
        Path | None, typer.Option(help="Write a static copy that needs no server, and exit.")
    ] = None,
    showcase: Annotated[
        bool, typer.Option("--showcase", help="Show the models that come with untwine.")
    ] = False,
    data: DataPlace = "",
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """Explore runs in the browser: what each latent does, reconstructions, clusters, scores.

    Serves the runs you name or, without names, all runs in --out, also those that start later, on
    localhost by default. The printed URL holds a token that clients need; --no-token opens the
    server to every user of this machine. Ctrl-C stops the server. A copy made with --export works
    from disk or any web server.

    \b
    Examples:
      untwine explore
      untwine explore --showcase
      untwine explore beta-tcvae
      untwine explore studies/constrained-vaes --port 9000 --no-browser
      untwine explore beta-tcvae --export copy
    """
    require_packages()
    from untwine.explore.gallery import Gallery
    from untwine.explore.showcase import FOLDER, OPENING

    arguments = [*(runs or []), *([str(FOLDER)] if showcase else [])]
    opening = OPENING if showcase and not runs else ""
    gallery = Gallery.find(arguments, out, opening=opening, data=data, trust=trust)
    if export is not None:
        from untwine.explore.export import write_copy

        show_path(write_copy(gallery, export, quiet=quiet))
        return
    with open_socket(host, port) as door:
        serve(gallery, door, host, browser=browser and sys.stdout.isatty(), token=token)
