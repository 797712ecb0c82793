"""An endpoint on this machine that answers from recordings, as OpenAI and Anthropic do, for any client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from dokimos._core.text import error_text, format_list
from dokimos.errors import RecordedCallError, ReplayMissError

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns the reply to the body of a request. Raises `ReplayMissError` and `RecordedCallError`."""
_LAST_LINE: Final = "data: [DONE]\n\n"
"""Of a stream of Chat Completions, whose events have no names; others end with an event that says so."""


class Protocol(NamedTuple):
    """How one kind of client asks."""

    messages_key: str
    """Under which a request has its messages."""
    answer: Answer
    stream: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]]
    """Returns a reply as the events of a stream."""


class ReplayEndpoint:
    """Answers requests to some paths until it is closed."""

    def __init__(self, protocols: Mapping[str, Protocol], refuse: Callable[[str], ReplayMissError]) -> None:
        """Start it.

        Args:
            protocols: By their paths.
            refuse: Makes the error of a request to another path, and records it as a miss.
        """
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(protocols, refuse))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name="dokimos-replay", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _make_handler(
    protocols: Mapping[str, Protocol], refuse: Callable[[str], ReplayMissError]
) -> type[BaseHTTPRequestHandler]:
    known = f"a replay answers {format_list(list(protocols))}"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # named by the base
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                protocol = protocols.get(self.path.partition("?")[0])
                if protocol is None:
                    raise refuse(f"{known}; the request went to {self.path}")
                request = _parse(body, protocol.messages_key, refuse)
                reply = protocol.answer(request)
            except ReplayMissError as error:
                self._send(404, "application/json", _describe(error, "replay_miss"))
            except RecordedCallError as error:
                self._send(500, "application/json", _describe(error, "recorded_error"))
            else:
                if request.get("stream"):
                    self._send(200, "text/event-stream", _write_stream(protocol.stream(reply)))
                else:
                    self._send(200, "application/json", json.dumps(reply))

        def do_GET(self) -> None:  # named by the base
            error = refuse(f"{known}; the request was GET {self.path}")
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


def _write_stream(events: Iterable[Mapping[str, Any]]) -> str:
    lines = [
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
        if "type" in event
        else f"data: {json.dumps(event)}\n\n"
        for event in events
    ]
    return "".join(lines if lines[-1].startswith("event:") else [*lines, _LAST_LINE])


_MAY_BE_TEXT: Final = "input"
"""Of the Responses: one message may be its text alone."""


def _parse(body: bytes, key: str, refuse: Callable[[str], ReplayMissError]) -> dict[str, Any]:
    try:
        tree = json.loads(body)
    except ValueError:
        tree = None
    kinds = (list, str) if key == _MAY_BE_TEXT else list
    if not isinstance(tree, dict) or not isinstance(tree.get(key), kinds):
        raise refuse(f"the body of the request is not JSON with {key}")
    return tree


def _describe(error: Exception, kind: str) -> str:
    # Anthropic's clients read the type beside the error, and those of OpenAI what is in it.
    details = {"message": error_text(error), "type": kind, "code": kind, "param": None}
    return json.dumps({"type": "error", "error": details})
