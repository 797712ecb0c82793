"""What a proxy before the server says about a request, and whether to believe it."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

IS_FROM_PROXY: Final = "dokimos.is_from_proxy"
"""Set in the scope of a request: whether a trusted proxy itself has made the connection."""


class ProxyMiddleware:
    """Takes the client's address and protocol from a trusted proxy, and keeps that they come from one.

    Whether a proxy is trusted is decided by the address of the connection, before that is replaced by what
    `X-Forwarded-For` says.

    Args:
        app: The application.
        trusted: Addresses and networks of proxies.
    """

    def __init__(self, app: ASGIApp, trusted: tuple[str, ...]) -> None:
        self._forwarded = ProxyHeadersMiddleware(app, trusted_hosts=list(trusted))  # type: ignore[arg-type] # the same protocol, typed by each package

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        scope[IS_FROM_PROXY] = client is not None and client[0] in self._forwarded.trusted_hosts
        await self._forwarded(scope, receive, send)  # type: ignore[arg-type] # as above
