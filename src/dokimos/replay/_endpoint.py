"""An OpenAI-compatible endpoint on this machine that answers from recordings, for clients of any kind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from dokimos._core.text import error_text
from dokimos.errors import RecordedCallError, ReplayMissError
from dokimos.replay._chat_completions import to_chunks

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns the reply to the body of a request. Raises `ReplayMissError` and `RecordedCallError`."""

_CHAT: Final = "/v1/chat/completions"


class ReplayEndpoint:
    """Answers `POST /v1/chat/completions` until it is closed."""

    def __init__(self, answer: Answer, refuse: Callable[[str], ReplayMissError]) -> None:
        """Start it.

        Args:
            refuse: Makes the error of a request to another path, and records it as a miss.
        """
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(answer, refuse))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name="dokimos-replay", daemon=True
        )
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _make_handler(answer: Answer, refuse: Callable[[str], ReplayMissError]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # named by the base
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                if self.path.partition("?")[0] != _CHAT:
                    raise refuse(f"a replay answers {_CHAT}; the request went to {self.path}")
                request = _parse(body, refuse)
                reply = answer(request)
            except ReplayMissError as error:
                self._send(404, "application/json", _describe(error, "replay_miss"))
            except RecordedCallError as error:
                self._send(500, "application/json", _describe(error, "recorded_error"))
            else:
                if request.get("stream"):
                    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in to_chunks(reply)]
                    self._send(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))
                else:
                    self._send(200, "application/json", json.dumps(reply))

        def do_GET(self) -> None:  # named by the base
            error = refuse(f"a replay answers {_CHAT}; the request was GET {self.path}")
            self._send(404, "application/json", _describe(error, "replay_miss"))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            # Clients of OpenAI would repeat a failed call, which takes a recording that belongs to another.
            self.send_header("x-should-retry", "false")
            # A connection that is kept open would outlive the replay.
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    return Handler


def _parse(body: bytes, refuse: Callable[[str], ReplayMissError]) -> dict[str, Any]:
    try:
        tree = json.loads(body)
    except ValueError:
        tree = None
    if not isinstance(tree, dict) or not isinstance(tree.get("messages"), list):
        raise refuse("the body of the request is not JSON with messages")
    return tree


def _describe(error: Exception, kind: str) -> str:
    return json.dumps({"error": {"message": error_text(error), "type": kind, "code": kind, "param": None}})
