"""Access control before every request: host name, token, size."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import MutableMapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

MAX_UPLOAD = 10_000_000  # bytes
MAX_DRAINED = 10 * MAX_UPLOAD  # bytes read and discarded, so that the sender receives the refusal
TOO_LARGE = f"at most {MAX_UPLOAD // 1_000_000} MB can be sent; make the picture smaller"
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
    """Check the host name, the token and the size of every request; add headers to answers.

    A page that redirects its own host name to this machine (DNS rebinding) sends that host name and
    is refused.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str]) -> None:
        self.app, self.token = app, token
        self.hosts = frozenset(host.lower() for host in hosts)
        # Cookies are shared between ports: the name separates two servers on one host.
        self.cookie = f"untwine-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        has_token = bool(self.token) and self.matches(parse_query(scope, "token"))
        send = self.with_headers(send, cookie=has_token)
        refusal = self.refusal(headers, has_token=has_token)
        if refusal and refusal.status_code == 413:
            await drain(receive)
        await (refusal or self.app)(scope, limit_body(receive), send)

    def refusal(self, headers: Headers, *, has_token: bool) -> JSONResponse | None:
        """The answer to a request that is refused; `None` for others."""
        host = headers.get("host", "")
        if not self.is_own_host(host):
            names = ", ".join(sorted(self.hosts))
            detail = f"this server does not answer to host {host[:60]!r}; use one of: {names}"
            return JSONResponse({"detail": detail}, 400)
        if self.token and not has_token and not self.is_allowed(headers):
            detail = "open the address that the server printed, with its ?token=..."
            return JSONResponse({"detail": detail}, 401, {"www-authenticate": "Bearer"})
        length = headers.get("content-length", "")
        if length.isdigit() and (len(length) > 12 or int(length) > MAX_UPLOAD):
            return JSONResponse({"detail": TOO_LARGE}, 413)
        return None

    def is_own_host(self, host: str) -> bool:
        name = re.sub(r":[0-9]*$", "", host).lower()
        return "*" in self.hosts or name in self.hosts

    def is_allowed(self, headers: Headers) -> bool:
        """Whether a header or a cookie has the token."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.matches(token.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return cookie is not None and self.matches(cookie.value)

    def matches(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(errors="replace"), self.token.encode())

    def with_headers(self, send: Send, *, cookie: bool) -> Send:
        """Send answers with the default headers, unless they set their own."""

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if cookie:
                    headers.append(
                        "set-cookie",
                        f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict",
                    )
            await send(message)

        return send_with_headers


def parse_query(scope: Scope, name: str) -> str:
    """The first value of a parameter in the address, or an empty string."""
    try:
        return parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=100)[name][0]
    except (KeyError, ValueError):
        return ""


def limit_body(receive: Receive) -> Receive:
    """Stop receiving a body that exceeds the limit, whatever length its sender declared."""
    size = 0

    async def receive_limited() -> MutableMapping[str, Any]:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_UPLOAD:
            await drain(receive, message)
            raise HTTPException(413, TOO_LARGE)
        return message

    return receive_limited


async def drain(receive: Receive, message: MutableMapping[str, Any] | None = None) -> None:
    """Discard the rest of a body, up to `MAX_DRAINED` bytes."""
    size, more = 0, message is None or message.get("more_body", False)
    while more and size < MAX_DRAINED:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
