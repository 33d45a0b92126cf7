"""Before every request: who calls, by which name, and how much is sent."""

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

UPLOAD = 10_000_000  # bytes
DRAINED = 10 * UPLOAD  # read and thrown away, so that a sender hears why it was refused
TOO_MUCH = f"at most {UPLOAD // 1_000_000} MB can be sent; make the picture smaller"

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


class Guard:
    """Before every request: the name of the server, the token, the size; after it: headers.

    A browser that was led to this server under another name, by a page whose address changes its
    meaning (DNS rebinding), names that other host and is turned away.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str]) -> None:
        self.app, self.token = app, token
        self.hosts = frozenset(host.lower() for host in hosts)
        # Cookies do not know ports: the name keeps two servers on one host apart.
        self.cookie = f"untwine-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        known = bool(self.token) and self.matches(query(scope, "token"))
        send = self.with_headers(send, cookie=known)
        refusal = self.refusal(headers, known=known)
        if refusal and refusal.status_code == 413:
            await drain(receive)
        await (refusal or self.app)(scope, limited(receive), send)

    def refusal(self, headers: Headers, *, known: bool) -> JSONResponse | None:
        """The answer to a request that goes no further."""
        if not self.is_called(headers.get("host", "")):
            names = ", ".join(sorted(self.hosts))
            return JSONResponse({"detail": f"this server is called by other names: {names}"}, 400)
        if self.token and not known and not self.is_allowed(headers):
            detail = "open the address that the server printed, with its ?token=..."
            return JSONResponse({"detail": detail}, 401, {"www-authenticate": "Bearer"})
        length = headers.get("content-length", "")
        if length.isdigit() and (len(length) > 12 or int(length) > UPLOAD):
            return JSONResponse({"detail": TOO_MUCH}, 413)
        return None

    def is_called(self, host: str) -> bool:
        name = re.sub(r":[0-9]*$", "", host).lower()
        return "*" in self.hosts or name in self.hosts

    def is_allowed(self, headers: Headers) -> bool:
        """Whether a header or a cookie has the token."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.matches(given.strip()):
            return True
        try:
            kept = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return kept is not None and self.matches(kept.value)

    def matches(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(errors="replace"), self.token.encode())

    def with_headers(self, send: Send, *, cookie: bool) -> Send:
        """Send answers with the headers of all, where they have none of their own."""

        async def sent(message: MutableMapping[str, Any]) -> None:
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

        return sent


def query(scope: Scope, name: str) -> str:
    """The first value of a parameter in the address, or nothing."""
    try:
        return parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=100)[name][0]
    except (KeyError, ValueError):
        return ""


def limited(receive: Receive) -> Receive:
    """Receive no more of a body than may be sent, whatever its sender says of its length."""
    seen = 0

    async def received() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > UPLOAD:
            await drain(receive, message)
            raise HTTPException(413, TOO_MUCH)
        return message

    return received


async def drain(receive: Receive, message: MutableMapping[str, Any] | None = None) -> None:
    """Throw away the rest of a body, or much of it."""
    seen, more = 0, message is None or message.get("more_body", False)
    while more and seen < DRAINED:
        message = await receive()
        seen += len(message.get("body", b""))
        more = message.get("more_body", False)
