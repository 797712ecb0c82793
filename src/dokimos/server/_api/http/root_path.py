"""A server below a path of another site: the addresses that come in, and those that go out."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE_PATH: Final = re.compile(rb"(;\s*path=)/", re.IGNORECASE)


class RootPathMiddleware:
    """Lets all others know nothing of the root path.

    It is removed from the paths of requests, where the proxy has not done that, and stands before the paths
    to which answers lead and for which they set cookies. What is before the root path of a request is of
    another site: that path stays as it is, and no route has it.

    Args:
        app: The application.
        root_path: Such as `/dokimos`.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root = root_path.encode()
        self._parts = self._root.split(b"/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "headers": [_drop_outer_cookies(header) for header in scope["headers"]]}
        raw = self._remove_root(scope.get("raw_path") or scope["path"].encode())
        if raw is not None:
            scope["raw_path"], scope["path"] = raw, unquote(raw.partition(b"?")[0].decode("latin-1"))

        async def send_with_root(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                message["headers"] = [(name, self._add_root(name.lower(), value)) for name, value in headers]
            await send(message)

        await self._app(scope, receive, send_with_root)

    def _remove_root(self, raw: bytes) -> bytes | None:
        """Return a path without the root path, None where it does not begin with it."""
        if raw.startswith(b"//"):  # from an address of the site that ends in a slash
            raw = b"/" + raw.lstrip(b"/")
        parts = raw.split(b"/")
        count = len(self._parts)
        if [unquote_to_bytes(part) for part in parts[:count]] != self._parts:
            return None
        return b"/" + b"/".join(parts[count:])

    def _add_root(self, name: bytes, value: bytes) -> bytes:
        if name == b"location" and value.startswith(b"/") and not value.startswith(b"//"):
            return self._root + value
        if name == b"set-cookie":
            return _COOKIE_PATH.sub(rb"\1" + self._root + b"/", value)
        return value


def _drop_outer_cookies(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Keep the first cookie of each name.

    A server at the root of the site, such as this one before it moved, has cookies of the same names. A
    browser sends all of them, those of the longer path first, and what reads them takes the last.
    """
    name, value = header
    if name != b"cookie":
        return header
    cookies: dict[bytes, bytes] = {}
    for cookie in value.split(b";"):
        cookies.setdefault(cookie.partition(b"=")[0].strip(), cookie.strip())
    return name, b"; ".join(cookies.values())
