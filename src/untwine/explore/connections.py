"""Limits on connections: how many there are, and how long a client may take."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from untwine.tools.terminal import say

MAX_CONNECTIONS = 512
MAX_CONNECTIONS_PER_PEER = 32  # of one other machine
HEADER_TIMEOUT = 10.0  # seconds for a client to send the head of a request
BODY_TIMEOUT = 30.0  # seconds for a client to send the body
WRITE_TIMEOUT = 30.0  # seconds in which a client must read something of an answer
MAX_LOG_MESSAGES = 20  # in `LOG_PERIOD`
LOG_PERIOD = 60.0  # seconds
MAX_LOG_LENGTH = 4000  # characters of a message
BUSY = (503, "Service Unavailable", "too many connections; try again in a moment")
SLOW = (408, "Request Timeout", "the request took too long to arrive")


def max_connections() -> int:
    """How many connections to hold: at most half of the files this process may open."""
    try:
        import resource
    except ImportError:  # not on Windows
        return MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files < 0 else max(8, min(MAX_CONNECTIONS, files // 2))


class LimitedConnection(H11Protocol):
    """One connection. Clients that are slow to send or to read are cut off.

    When there are too many connections, the one that has been idle for longest gives way. A new
    one is refused only if all others are being answered.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._awaited: object = None  # the state of the client that the timer is for
        self._idle_since = time.monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        peers = [other for other in self._others() if other.client_host == self.client_host]
        if not self.is_local and len(peers) >= MAX_CONNECTIONS_PER_PEER:
            self._make_room(peers)
        elif len(self.connections) > max_connections():
            self._make_room(self._others())
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._write_timer):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._awaited = None
        self._idle_since = time.monotonic()
        self._set_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer:
            self._write_timer.cancel()

    @property
    def client_host(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_local(self) -> bool:
        """Whether the client is on this machine."""
        try:
            return ipaddress.ip_address(self.client_host).is_loopback
        except ValueError:
            return True  # a socket without addresses

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.conn.their_state is h11.IDLE and not self.transport.is_closing()

    def _others(self) -> list[LimitedConnection]:
        return [c for c in self.connections if isinstance(c, LimitedConnection) and c is not self]

    def _make_room(self, others: list[LimitedConnection]) -> None:
        """Close the connection that has been idle for longest, or else this one."""
        idle = [other for other in others if other.is_idle]
        if idle:
            min(idle, key=lambda other: other._idle_since).transport.abort()
        else:
            self._refuse(*BUSY)

    def _set_timer(self) -> None:
        """Start the time for the head or the body of a request when the client may send it."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        if self._timer:
            self._timer.cancel()
        self._awaited, self._timer = state, None
        seconds = {h11.IDLE: HEADER_TIMEOUT, h11.SEND_BODY: BODY_TIMEOUT}.get(state)
        if seconds and not self.transport.is_closing():
            self._timer = self.loop.call_later(seconds, self._refuse, *SLOW)

    def _refuse(self, status: int, reason: str, detail: str) -> None:
        """Answer, unless an answer is under way or nothing was asked, and close."""
        if self.transport.is_closing():
            return
        answering = self.cycle is not None and self.cycle.response_started
        silent = status == SLOW[0] and self.is_idle and not self.conn.trailing_data[0]
        if not silent and (not answering or self.cycle.response_complete):
            body = f'{{"detail":"{detail}"}}'
            self.transport.write(
                f"HTTP/1.1 {status} {reason}\r\nconnection: close\r\n"
                "content-type: application/json\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
        self.transport.close()


class TerminalLog(logging.Handler):
    """Print the server's warnings as text, a limited number in a minute."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._began, self._count = 0.0, 0

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._began >= LOG_PERIOD:
            if self._count > MAX_LOG_MESSAGES:
                say(f"{self._count - MAX_LOG_MESSAGES} more messages were not shown")
            self._began, self._count = now, 0
        self._count += 1
        if self._count <= MAX_LOG_MESSAGES:
            say(self.format(record)[-MAX_LOG_LENGTH:])


def log_to_terminal() -> None:
    """Send the messages of the server and of its event loop to the terminal."""
    handler = TerminalLog()
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
