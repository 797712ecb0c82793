"""The port on which the server speaks gRPC, in the event loop of the application."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from starlette.types import ASGIApp

from dokimos._core.extras import require
from dokimos.errors import ConfigurationError
from dokimos.server._grpc.calls import Answer, Call
from dokimos.server._grpc.messages import describe_error
from dokimos.server._settings import ServerSettings

_COLLECTOR: Final = "/opentelemetry.proto.collector"
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_ROUTES: Final = {
    f"{_COLLECTOR}.trace.v1.TraceService/Export": ("POST", "/v1/traces"),
    f"{_COLLECTOR}.logs.v1.LogsService/Export": ("POST", "/v1/logs"),
    _HEALTH: ("GET", "/actuator/health/readiness"),
}
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
_MESSAGES_AT_ONCE: Final = 16
"""Messages that are received at a time, as uploads over HTTP."""
_CANCEL_SECONDS: Final = 2.0
"""How long calls that are cancelled as the server stops may take to say so."""


class GrpcEndpoint:
    """Answers the calls of exporters by handing them to the application as requests.

    So a call passes what each request passes: the access log, metrics and the audit log, limits, the caller's
    key and role, and the route that stores its message.

    Args:
        app: The application.
        settings: They say where to listen, and how large a message may be.

    Raises:
        MissingExtraError: gRPC is not installed.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._grpc: Any = require("grpc", extra="grpc")
        self._app = app
        self._settings = settings
        # A browser is what the check of hosts is about, and no browser speaks gRPC.
        self._host = settings.allowed_hosts[0] if settings.allowed_hosts else ""
        self._places = asyncio.Semaphore(_MESSAGES_AT_ONCE)
        self._requests: set[asyncio.Task[Answer]] = set()
        self._server: Any = None
        self.port = 0
        """Where it listens, once it has started."""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: The address cannot be bound to.
        """
        grpc, settings = self._grpc, self._settings
        options = [
            ("grpc.max_receive_message_length", settings.traces.max_export_bytes),
            # Messages come as they were sent, so that they are decompressed in parts, within the same limit.
            ("grpc.per_message_decompression", 0),
            # Else two servers could share a port, each with half of the calls.
            ("grpc.so_reuseport", 0),
        ]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((_make_handler(grpc, self._answer),))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        try:
            self.port = self._server.add_insecure_port(f"{host}:{settings.grpc_port}")
        except RuntimeError:
            raise ConfigurationError(
                f"The server cannot listen for gRPC at {settings.host}:{settings.grpc_port}; choose another "
                "port with --grpc-port."
            ) from None
        await self._server.start()

    async def stop(self, seconds: float) -> None:
        """Take no more calls, and end those under way: by themselves, or by force after some seconds."""
        if self._server is None:
            return
        stopping = asyncio.create_task(self._server.stop(seconds + _CANCEL_SECONDS))
        await asyncio.wait([stopping], timeout=seconds)
        for request in list(self._requests):
            request.cancel()  # each answers that it was not finished
        await stopping
        if self._requests:
            await asyncio.wait(list(self._requests), timeout=_CANCEL_SECONDS)

    async def _answer(self, path: str, messages: Any, context: Any) -> bytes:
        method, route = _ROUTES[path]
        metadata = tuple(context.invocation_metadata() or ())
        call = Call(method, route, metadata, context.peer(), messages, self._places)
        answer = await self._run(call)
        if path == _HEALTH:
            return _SERVING if answer.status == 200 else _NOT_SERVING
        trailing: list[tuple[str, str | bytes]] = [("x-request-id", answer.headers.get("x-request-id", ""))]
        if answer.status < 400:
            context.set_trailing_metadata(tuple(trailing))
            return answer.body
        code, message = answer.error
        trailing += describe_error(code, message, answer.retry_seconds)
        await context.abort(_find_code(self._grpc, code), message, tuple(trailing))
        raise AssertionError("unreachable: `abort` raises")

    async def _run(self, call: Call) -> Answer:
        """Return the answer to a call; a message that has arrived is stored although its client hangs up."""
        request = asyncio.create_task(call.run(self._app, self._host))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        try:
            return await asyncio.shield(request)
        except asyncio.CancelledError:
            if not call.has_message:
                request.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await request
            raise


def _make_handler(grpc: Any, answer: Any) -> Any:
    def make(path: str) -> Any:
        async def answer_call(messages: Any, context: Any) -> bytes:
            response: bytes = await answer(path, messages, context)
            return response

        # A call with one message is a stream of one: this kind lets us look at the caller before reading it.
        return grpc.stream_unary_rpc_method_handler(answer_call)

    handlers = {path: make(path) for path in _ROUTES}

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc] # imported where it is needed
        def service(self, details: Any) -> Any:
            return handlers.get(details.method)

    return Handler()


def _find_code(grpc: Any, number: int) -> Any:
    """Return a code of gRPC by its number."""
    return next(each for each in grpc.StatusCode if each.value[0] == number)
