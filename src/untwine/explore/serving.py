"""Serve the explorer: socket, token, browser."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from untwine.errors import DataError, ParameterError, UntwineError
from untwine.tools.terminal import say

if TYPE_CHECKING:
    from untwine.explore.gallery import Gallery

PORT = 8765
N_PORTS_TRIED = 100  # from PORT on, until one is free


def require_packages() -> None:
    """Refuse if the packages of the `explore` extra are not installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"the explorer needs {error.name}, which is not installed; "
            "pip install 'untwine[explore]'"
        ) from None


def serve(gallery: Gallery, listener: socket.socket, host: str, *, browser: bool) -> None:
    """Answer requests until Ctrl-C."""
    import uvicorn

    from untwine.explore.server import LOCAL_HOSTS, MAX_REQUEST_LINE, application

    local = is_local(host)
    token = "" if local else secrets.token_urlsafe()
    names = (*LOCAL_HOSTS, bracketed(host)) if local else ("*",)
    server = uvicorn.Server(
        uvicorn.Config(
            application(gallery, token=token, hosts=names),
            log_level="warning",
            access_log=False,
            h11_max_incomplete_event_size=MAX_REQUEST_LINE,
        )
    )
    server.handle_exit = lambda sig, frame: exit_now()
    address = (
        f"http://{public_name(host)}:{listener.getsockname()[1]}/{'?token=' * bool(token)}{token}"
    )
    try:
        print(address, flush=True)
        say("Ctrl-C ends the explorer")
        in_background(lambda: warm_up(gallery))
        if browser:
            in_background(lambda: open_browser(address))
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        exit_now()


def exit_now() -> NoReturn:
    """Exit at once: nothing needs saving, and a normal exit would wait for computations."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def open_socket(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port, the default port or the next free one."""
    try:
        family, *_, (address, *_) = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise ParameterError(f"{host!r} is not an address of this machine; try 127.0.0.1") from None
    for number in range(PORT, PORT + N_PORTS_TRIED) if port is None else [port]:
        try:
            listener = socket.create_server((str(address), number), family=family, backlog=2048)
            # Answers are sent in two pieces; without this, the second waits 40 ms for the first.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ParameterError(
                    f"cannot listen on {host}, port {number} ({os.strerror(error.errno or 0)}); "
                    "give another --host or --port"
                ) from None
    if port is None:
        raise ParameterError(
            f"ports {PORT} to {PORT + N_PORTS_TRIED - 1} are taken; give another --port"
        )
    raise ParameterError(f"port {port} is taken; give another --port, or none for a free one")


def is_local(host: str) -> bool:
    """Whether only this machine can reach this address.

    >>> is_local("127.0.0.1"), is_local("::1"), is_local("0.0.0.0"), is_local("example.org")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bracketed(host: str) -> str:
    """An address as written before a port.

    >>> bracketed("::1"), bracketed("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host else host


def public_name(host: str) -> str:
    """The host name for others: the machine's name if it listens on all addresses."""
    return socket.gethostname() if host in ("0.0.0.0", "::", "") else bracketed(host)


def in_background(work: Callable[[], object]) -> None:
    """Run work in a daemon thread."""
    threading.Thread(target=work, daemon=True).start()


def warm_up(gallery: Gallery) -> None:
    """Compute what the page shows first; the page reports failures."""
    with contextlib.suppress(UntwineError, StopIteration):
        finished = (line.name for line in gallery.lines() if line.state == "finished")
        name = next(finished)
        view = gallery.view(name)
        view.summary()
        view.decode(view.start_from_prior(0).code)


def open_browser(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
