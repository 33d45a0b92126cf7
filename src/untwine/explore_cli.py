"""The command `untwine explore`. Heavy modules are imported inside."""

import contextlib
import errno
import ipaddress
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from untwine.errors import DataError, ParameterError, UntwineError
from untwine.terminal import say

if TYPE_CHECKING:
    from untwine.explore.place import Place

PORT = 8765
TRIED = 100  # ports after it, until one is free


def explore(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs, parts of their names, or studies; without it all in --out."),
    ] = None,
    out: Annotated[
        Path, typer.Option(envvar="UNTWINE_RUNS", help="Directory that holds the runs.")
    ] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to listen on; with another than this machine's, a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"{PORT} or the next that is free; 0 for any."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    export: Annotated[
        Path | None, typer.Option(help="Write a copy that needs no server, and end.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Look at runs in the browser: what each latent does, reconstructions, clusters, scores.

    It shows what it was given and nothing else, and is reached from this machine alone. With
    --host and another address it is reached from there too, by those who know the token in the
    address that is printed. Ctrl-C ends it. A copy made with --export opens from its file or from
    any web server.

    \b
    Examples:
      untwine explore
      untwine explore beta-tcvae
      untwine explore studies/constrained-vaes --port 9000 --no-browser
      untwine explore beta-tcvae --export shown
    """
    need_packages()
    from untwine.explore.place import Place

    place = Place.found(runs or [], out)
    if export is not None:
        from untwine.explore.export import write_copy

        print(write_copy(place, export, quiet=quiet))
        return
    with listening(host, port) as door:
        serve(place, door, host, browser=browser and sys.stdout.isatty())


def need_packages() -> None:
    """Refuse where the extra is not installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"the explorer needs {error.name}, which is not installed; "
            "pip install 'untwine[explore]'"
        ) from None


def serve(place: "Place", door: socket.socket, host: str, *, browser: bool) -> None:
    """Answer requests until Ctrl-C."""
    import uvicorn

    from untwine.explore.server import LOCAL, LONGEST, application

    alone = is_local(host)
    token = "" if alone else secrets.token_urlsafe()
    names = (*LOCAL, bracketed(host)) if alone else ("*",)
    server = uvicorn.Server(
        uvicorn.Config(
            application(place, token=token, hosts=names),
            log_level="warning",
            access_log=False,
            h11_max_incomplete_event_size=LONGEST,
        )
    )
    server.handle_exit = lambda sig, frame: end()
    address = f"http://{called(host)}:{door.getsockname()[1]}/{'?token=' * bool(token)}{token}"
    try:
        print(address, flush=True)
        say("Ctrl-C ends the explorer")
        in_background(lambda: warm_up(place))
        if browser:
            in_background(lambda: show(address))
        server.run(sockets=[door])
    except KeyboardInterrupt:
        end()


def end() -> NoReturn:
    """End at once: nothing is to be saved, and a long computation would hold up a usual end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def listening(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a port the usual one or the next that is free."""
    try:
        family, *_, (address, *_) = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise ParameterError(f"{host!r} is no address of this machine; try 127.0.0.1") from None
    for number in range(PORT, PORT + TRIED) if port is None else [port]:
        try:
            door = socket.create_server((str(address), number), family=family, backlog=2048)
            # Answers go out in two pieces; without this the second waits 40 ms for the first.
            door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return door
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ParameterError(
                    f"cannot listen on {host}, port {number} ({os.strerror(error.errno or 0)}); "
                    "give another --host or --port"
                ) from None
    if port is None:
        raise ParameterError(f"ports {PORT} to {PORT + TRIED - 1} are taken; give another --port")
    raise ParameterError(f"port {port} is taken; give another --port, or none for a free one")


def is_local(host: str) -> bool:
    """Whether only this machine can reach what listens there.

    >>> is_local("127.0.0.1"), is_local("::1"), is_local("0.0.0.0"), is_local("example.org")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bracketed(host: str) -> str:
    """An address as it stands before a port.

    >>> bracketed("::1"), bracketed("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host else host


def called(host: str) -> str:
    """How others call what listens on this address: by the machine's name if that is every one."""
    return socket.gethostname() if host in ("0.0.0.0", "::", "") else bracketed(host)


def in_background(work: Callable[[], object]) -> None:
    """Do something meanwhile; the end of the program does not wait for it."""
    threading.Thread(target=work, daemon=True).start()


def warm_up(place: "Place") -> None:
    """Compute what the page shows first; what fails here is told there."""
    with contextlib.suppress(UntwineError, StopIteration):
        finished = (line.name for line in place.lines() if line.state == "finished")
        name = next(finished)
        look = place.look(name)
        look.facts()
        look.decode(look.start_from_prior(0).code)


def show(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
