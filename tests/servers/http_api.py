"""A server for tests whose answers are a function of the request; it serves from a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web


@dataclass
class Request:
    method: str
    raw_path: str
    """As it was sent, with its query."""
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes


class HttpApi:
    """Answers with what `answer(request)` returns: JSON, or a `web.Response`; None cuts the connection."""

    def __init__(self, answer: Callable[[Request], object]) -> None:
        self.answer = answer
        self.received: list[Request] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="http-api", daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(self, *exc):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._start())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _start(self) -> web.ServerRunner:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return runner

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Request(
            request.method,
            request.raw_path,
            dict(request.query),
            request.headers,
            await request.content.read(),  # `request.read()` has a limit
        )
        self.received.append(seen)
        found = self.answer(seen)
        if found is None:
            request.transport.abort()
            return web.Response()
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)
