"""The outermost layer of every request: its id, the access log, its metrics, its row of refusal."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dokimos.server._db.ids import new_id
from dokimos.server._services.audit.audit_trail import HUNG_UP, AuditTrail
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.request_context import RequestContext, begin_request, is_sane_id

ACCESS_LOGGER: Final = logging.getLogger("dokimos.access")
_UNMATCHED: Final = "unmatched"
_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_OTHER: Final = "OTHER"
"""Any other method, which may be any word: it names no series and no action of its own."""
_HEALTH: Final = "/actuator/"
_CLASSES: Final = ("", "1xx", "2xx", "3xx", "4xx", "5xx")
_LONGEST_PATH: Final = 500
_SANE_ADDRESS: Final = re.compile(r"[\w.:%\[\]-]{1,64}", re.ASCII)


class ObservationMiddleware:
    """Begins the context of each request, and notes what became of it."""

    def __init__(self, app: ASGIApp, metrics: Metrics, trail: AuditTrail) -> None:
        self._app = app
        self._metrics = metrics
        self._trail = trail
        self._under_way = 0
        metrics.watch(
            "dokimos_http_requests_in_flight", "Requests that are under way.", lambda: self._under_way
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_at = time.perf_counter()
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        context = RequestContext(_request_id(scope), method, _address_of(scope))
        begin_request(context)
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_headers_of(context)]
            await send(message)

        self._under_way += 1
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._under_way -= 1
            context.status = status or HUNG_UP
            self._note(context, _path_of(scope), time.perf_counter() - began_at)

    def _note(self, context: RequestContext, path: bytes, seconds: float) -> None:
        route = context.route or _UNMATCHED
        self._metrics.requests.add((route, context.method, _CLASSES[context.status // 100]), seconds)
        self._trail.note_answer(context, context.status)
        if not route.startswith(_HEALTH):
            _log(context, path, seconds)


def _headers_of(context: RequestContext) -> Iterator[tuple[bytes, bytes]]:
    yield b"x-request-id", context.request_id.encode()
    if context.ignored_parameters:  # any text of the client: percent-encoded, it stays inside its header
        names = (quote(name, safe="[]") for name in context.ignored_parameters)
        yield b"x-ignored-parameters", ", ".join(names).encode()


def _log(context: RequestContext, path: bytes, seconds: float) -> None:
    level = logging.WARNING if context.status >= 500 else logging.INFO
    if ACCESS_LOGGER.isEnabledFor(level):
        milliseconds = round(seconds * 1000, 1)
        message = (
            f"{context.method} {path[:_LONGEST_PATH].decode('latin-1')} {context.status} in {milliseconds} ms"
        )
        fields = {"method": context.method, "status": context.status, "durationMs": milliseconds}
        ACCESS_LOGGER.log(level, "%s", message, extra={"fields": fields})


def _address_of(scope: Scope) -> str:
    """Where it comes from; a proxy passes on what clients say, which may be any text."""
    client = scope.get("client")
    if client is None:
        return ""
    address: str = client[0]
    return address if _SANE_ADDRESS.fullmatch(address) is not None else "invalid"


def _path_of(scope: Scope) -> bytes:
    """The path as it was sent, percent-encoded; without the query, which may hold what people search for."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0]


def _request_id(scope: Scope) -> str:
    """The id that a client or a proxy gave the request, where it is sane, so that one finds it everywhere."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            return text if is_sane_id(text) else new_id()
    return new_id()
