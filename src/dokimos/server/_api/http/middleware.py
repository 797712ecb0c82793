"""What holds for every request before any route: host, path, headers of safety."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dokimos.server._api.event_stream import IS_HEAD
from dokimos.server._api.http.error_responses import answer_unexpected_error, error_response
from dokimos.server._api.http.parameters import ENCODED_SLASH
from dokimos.server._api.web_pages import read_build
from dokimos.server._services.request_context import note_reason

_CONTENT_POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_BUILD: Final = b"x-dokimos-build"
"""By which a page that was loaded before an upgrade notices it."""
_CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f]")
_ANY_HOST: Final = "*"
_HEALTH: Final = "/actuator/"


class GuardMiddleware:
    """Refuses foreign hosts and odd paths, and sets the headers of safety."""

    def __init__(self, app: ASGIApp, allowed_hosts: tuple[str, ...]) -> None:
        self._app = app
        self._allowed_hosts = frozenset(allowed_hosts)
        build = read_build()
        self._headers = _HEADERS if build is None else (*_HEADERS, (_BUILD, build.encode()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [
                    *message.get("headers", ()),
                    *self._list_missing(message.get("headers", ())),
                ]
            await send(message)

        problem = self._problem_with_host(scope)
        path = _decode_path(scope.get("raw_path") or scope["path"].encode())
        if problem is None and path is None:
            problem = "The path is not percent-encoded UTF-8 without control characters."
        if problem is None and b"%00" in scope["query_string"]:
            problem = "The query holds NUL, which no text of this server contains."
        if problem is not None:
            await error_response(400, problem)(scope, receive, send_with_headers)
            return
        scope["path"] = path
        try:
            if scope["method"] == "HEAD":  # answered as GET is, without the body
                head = {**scope, "method": "GET", IS_HEAD: True}
                await self._app(head, receive, _without_body(send_with_headers))
                return
            await self._app(scope, receive, send_with_headers)
        except Exception as error:  # here, so that its answer has the headers of all others
            answer = answer_unexpected_error(scope, error)
            if has_begun:
                raise  # the rest cannot be an error any more: the connection is cut instead
            await answer(scope, receive, send_with_headers)

    def _list_missing(self, headers: list[tuple[bytes, bytes]] | tuple[()]) -> list[tuple[bytes, bytes]]:
        names = {name.lower() for name, _ in headers}
        return [(name, value) for name, value in self._headers if name not in names]

    def _problem_with_host(self, scope: Scope) -> str | None:
        if _ANY_HOST in self._allowed_hosts or scope["path"].startswith(_HEALTH):
            return None
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        if _without_port(host).lower() in self._allowed_hosts:
            return None
        note_reason("host")
        return (
            f"The host {host[:100]!r} is not allowed; DOKIMOS_ALLOWED_HOSTS names the hosts of this server."
        )


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head


def _decode_path(raw: bytes) -> str | None:
    """Decode each part of a path, so that an encoded slash stays inside the name that it belongs to."""
    path = raw.partition(b"?")[0]
    if path.startswith(b"//"):  # from an address of the server that ends in a slash
        path = b"/" + path.lstrip(b"/")
    parts = path.split(b"/")
    try:
        decoded = [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        return None
    if any(_CONTROL.search(part) is not None for part in decoded):
        return None
    return "/".join(part.replace("/", ENCODED_SLASH) for part in decoded)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
