"""What stands before the studio: only this machine's own page, opened by its secret address, gets an answer."""

from __future__ import annotations

import base64
import hashlib
import hmac

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colonnade.report.html import style
from colonnade.study import LARGEST_STUDY

FOREIGN = ("cross-site", "same-site")
"""What a browser says in Sec-Fetch-Site when another page asks; another port of this machine is "same-site"."""


def content_policy(*more: str) -> str:
    """Nothing from elsewhere, no inline script; the report's own style sheets are let in by their hashes."""
    digests = [hashlib.sha256(str(sheet).encode()).digest() for sheet in (style(), *more)]
    own = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' {own}; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


class RequestCheck:
    """Refuses a foreign host, a foreign page, a missing token and a large body, before anything else runs."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._headers = {
            "Content-Security-Policy": content_policy(),
            # With "no-referrer" a browser would send "Origin: null" from our own forms.
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        app = self._app if refusal is None else PlainTextResponse(f"{refusal[1]}\n", refusal[0])
        scope["root_path"] = f"/{self._token}"

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    # A report that prints a footer lets in that one style sheet more.
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, answer)

    def _opens(self, scope: Scope, headers: Headers) -> bool:
        """Whether a page of a file, as the studio writes one to be opened by, leads here; the token decides then."""
        arrives = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return arrives and scope["method"] == "GET" and scope["path"] == f"/{self._token}/"

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:
            return 421, f"the studio answers to this machine's own address only, got host {headers.get('host')!r}"
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return 403, f"the studio answers to its own pages only, got origin {origin!r}"
        if headers.get("sec-fetch-site") in FOREIGN and not self._opens(scope, headers):
            return 403, "the studio answers to its own pages only, another page asked"
        given = scope["path"].split("/", 2)[1] if scope["path"].startswith("/") else ""
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return 403, "the address lacks the studio's token: open the address that `colonnade studio` printed"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, f"the studio knows GET and POST, got {scope['method']}"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_STUDY:
            return 413, f"a study must have at most {LARGEST_STUDY} bytes, got {length}"
        return None
