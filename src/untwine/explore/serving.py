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
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from untwine.errors import DataError, ParameterError, UntwineError
from untwine.tools.terminal import say

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from untwine.explore.gallery import Gallery

PORT = 8765
ALL_ADDRESSES = ("0.0.0.0", "::", "")  # noqa: S104 (compared with what the user gave)
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


def serve(
    gallery: Gallery, listener: socket.socket, host: str, *, browser: bool, token: bool = True
) -> None:
    """Answer requests until Ctrl-C.

    Args:
        gallery: the runs to serve.
        listener: the listening socket.
        host: the address it listens on, as the user wrote it.
        browser: open the page in the browser, with a token that works once.
        token: require a token; `False` only where this machine alone can connect.
    """
    from untwine.explore.connections import log_to_terminal
    from untwine.explore.server import LOCAL_HOSTS, application

    local = is_local(host)
    if not (token or local):
        raise ParameterError("--no-token is for this machine alone; leave out --host or --no-token")
    secret, one_time = (secrets.token_urlsafe(), secrets.token_urlsafe()) if token else ("", "")
    names = (*LOCAL_HOSTS, bracketed(host)) if local else ("*",)
    app = application(
        gallery, token=secret, hosts=names, one_time_tokens=[one_time] if browser and token else []
    )
    log_to_terminal()
    server = make_server(app)
    server.handle_exit = lambda sig, frame: exit_now()
    address = f"http://{public_name(host)}:{listener.getsockname()[1]}/"
    try:
        print(with_token(address, secret), flush=True)
        say("Ctrl-C ends the explorer")
        in_background(lambda: warm_up(gallery))
        if browser:  # the command line of a browser can be seen by others
            in_background(lambda: open_browser(with_token(address, one_time)))
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        exit_now()


def with_token(address: str, token: str) -> str:
    """The address that opens the page with a token."""
    return f"{address}?token={token}" if token else address


def make_server(app: FastAPI) -> uvicorn.Server:
    """The server of an app, with limits on connections."""
    import uvicorn

    from untwine.explore.connections import LimitedConnection
    from untwine.explore.server import MAX_REQUEST_LINE

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=LimitedConnection,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=MAX_REQUEST_LINE,
        )
    )


@contextlib.contextmanager
def serve_in_thread(app: FastAPI) -> Iterator[str]:
    """Serve an app on a free port of this machine inside a `with` block; yields its address."""
    server = make_server(app)
    with open_socket("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://localhost:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)


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
    return socket.gethostname() if host in ALL_ADDRESSES else bracketed(host)


def in_background(work: Callable[[], object]) -> None:
    """Run work in a daemon thread."""
    threading.Thread(target=work, daemon=True).start()


def warm_up(gallery: Gallery) -> None:
    """Compute what the page shows first; the page reports failures."""
    with contextlib.suppress(UntwineError):
        opening = gallery.overview()
        if opening.view == "study":
            gallery.study()
            return
        view = gallery.view(opening.run)
        view.summary()
        view.decode(view.start_from_prior(0).code)


def open_browser(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
