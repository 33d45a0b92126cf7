"""Access control before every request: host, origin, token, size."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import MutableMapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import HTTPException
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_UPLOAD = 10_000_000  # bytes
MAX_UPLOADS_AT_ONCE = 16
SMALL_BODY = 100_000  # bytes; smaller bodies do not count as uploads
LINGER = 2.0  # seconds in which the rest of a refused body is discarded, before closing
ONE_TIME_PERIOD = 300.0  # seconds in which a one-time token can be used
TOO_LARGE = f"at most {MAX_UPLOAD // 1_000_000} MB can be sent; make the picture smaller"
TOO_MANY = "too many uploads at once; try again in a moment"
WRONG_ADDRESS = "open the address that the server printed, with its ?token=..."
FOREIGN = "another site asked for this; open the explorer's own address in the browser"
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    # Figures of studies carry styles of their own; scripts come from files alone.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
}


class AccessControl:
    """Check the host, origin, token and size of every request; add headers to answers.

    A page that redirects its own host name to this machine (DNS rebinding) sends that host name and
    is refused. So is what other sites make a browser send, except a link to the page, and a frame
    of the page where one origin may have it.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        hosts: Sequence[str],
        one_time_tokens: Sequence[str] = (),
        framed_by: str = "",
    ) -> None:
        self.app, self.token, self.framed_by = app, token, framed_by
        self.headers = headers_of(framed_by)
        self.hosts = frozenset(host.lower() for host in hosts)
        self.one_time_tokens = set(one_time_tokens)
        self.one_time_until = time.monotonic() + ONE_TIME_PERIOD
        self.uploads = 0
        # Cookies are shared between ports: the name separates two servers on one host.
        self.cookie = f"untwine-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        has_token = bool(self.token) and self.is_token(parse_query(scope, "token"), scope)
        body = Body(receive, headers)
        send = self.with_headers(send, body, cookie=has_token)
        refusal = self.refusal(scope, headers, body, has_token=has_token)
        if refusal:
            await refusal(scope, body.receive, send)
            return
        self.uploads += body.is_large
        try:
            await self.app(scope, body.receive, send)
        finally:
            self.uploads -= body.is_large

    def refusal(
        self, scope: Scope, headers: Headers, body: Body, *, has_token: bool
    ) -> Response | None:
        """The answer to a request that is refused; `None` for others."""
        host = headers.get("host", "")
        if not self.is_own_host(host):
            names = ", ".join(sorted(self.hosts))
            detail = f"this server does not answer to host {host[:60]!r}; use one of: {names}"
            return JSONResponse({"detail": detail}, 400)
        if is_foreign(scope, headers, framed=bool(self.framed_by)):
            return JSONResponse({"detail": FOREIGN}, 403)
        if self.token and not has_token and not self.is_allowed(headers):
            if headers.get("sec-fetch-dest") == "document":
                return HTMLResponse(f"<!doctype html><title>untwine</title><p>{WRONG_ADDRESS}", 401)
            return JSONResponse({"detail": WRONG_ADDRESS}, 401, {"www-authenticate": "Bearer"})
        if body.declared > MAX_UPLOAD:
            return JSONResponse({"detail": TOO_LARGE}, 413)
        if body.is_large and self.uploads >= MAX_UPLOADS_AT_ONCE:
            return JSONResponse({"detail": TOO_MANY}, 503, {"retry-after": "2"})
        return None

    def is_own_host(self, host: str) -> bool:
        name = re.sub(r":[0-9]*$", "", host).lower()
        return "*" in self.hosts or name in self.hosts

    def is_allowed(self, headers: Headers) -> bool:
        """Whether a header or a cookie has the token."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and are_equal(token.strip(), self.token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return cookie is not None and are_equal(cookie.value, self.token)

    def is_token(self, token: str, scope: Scope) -> bool:
        """Whether this is the token, or a one-time token that opens the page now."""
        if are_equal(token, self.token):
            return True
        match = [other for other in self.one_time_tokens if are_equal(token, other)]
        if not match or scope["method"] != "GET" or scope["path"] != "/":
            return False
        self.one_time_tokens.difference_update(match)
        return time.monotonic() < self.one_time_until

    def with_headers(self, send: Send, body: Body, *, cookie: bool) -> Send:
        """Send answers with the default headers, unless they set their own.

        An answer to a request whose body was not read is complete at once; the connection is
        closed soon after, so that the client receives the answer while it still sends.
        """
        unread = False

        async def send_with_headers(message: Message) -> None:
            nonlocal unread
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
                if cookie:
                    headers.append(
                        "set-cookie",
                        f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict",
                    )
                unread = not body.is_complete
                if unread:
                    headers["connection"] = "close"
            elif unread and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await body.discard()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        return send_with_headers


class Body:
    """The body of a request, which is refused beyond `MAX_UPLOAD` bytes, whatever it declares."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        self.declared = int(length) if length.isascii() and length.isdigit() else 0
        chunked = "transfer-encoding" in headers
        self.is_complete = not chunked and self.declared == 0
        self.is_large = chunked or self.declared > SMALL_BODY
        self._receive, self._size = receive, 0

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._next()
        if self._size > MAX_UPLOAD:
            raise HTTPException(413, TOO_LARGE)
        return message

    async def discard(self) -> None:
        """Read the rest and forget it, for `LINGER` seconds at most."""
        try:
            async with asyncio.timeout(LINGER):
                while not self.is_complete:
                    await self._next()
        except TimeoutError:
            return

    async def _next(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.is_complete = True
        return message


def headers_of(framed_by: str) -> dict[str, str]:
    """The headers of answers; one origin, such as a notebook's, may show the page in a frame."""
    if not framed_by:
        return HEADERS
    policy = HEADERS["content-security-policy"]
    allowed = policy.replace("frame-ancestors 'none'", f"frame-ancestors {framed_by}")
    return {**HEADERS, "content-security-policy": allowed}


def is_foreign(scope: Scope, headers: Headers, *, framed: bool = False) -> bool:
    """Whether another site made the browser send this request; a link to the page is allowed.

    So is a frame of the page, if `framed`; the browser then asks the page's header whose frame it
    may be. Programs other than browsers send neither header.
    """
    opened_as = ("document", "iframe") if framed else ("document",)
    is_link = (
        scope["method"] == "GET"
        and scope["path"] == "/"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") in opened_as
    )
    site = headers.get("sec-fetch-site", "none")
    if site not in ("none", "same-origin") and not is_link:
        return True
    return any(
        origin_host(origin) != headers.get("host", "").lower()
        for origin in headers.getlist("origin")
    )


def origin_host(origin: str) -> str:
    """The host and port of an origin, as in a Host header; empty for none.

    >>> origin_host("http://localhost:8765"), origin_host("null"), origin_host("file://")
    ('localhost:8765', '', '')
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def are_equal(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return secrets.compare_digest(one.encode(errors="replace"), other.encode())


def parse_query(scope: Scope, name: str) -> str:
    """The first value of a parameter in the address, or an empty string."""
    try:
        return parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=100)[name][0]
    except (KeyError, ValueError):
        return ""
