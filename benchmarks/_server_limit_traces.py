"""The least that a server of traces can do: bare ASGI, protobuf's parser, SQLite, and nothing derived.

It writes each span as it was sent into the table of `dokimos serve`, with the columns that need no reading of
conventions, a row for each new trace, and a text of the span into an index of the same kind. It answers
when they are on disk. What it leaves out is what a server is for: roles, texts and usage by convention,
summaries and hourly counts, late and repeated spans, access, projects, tenants.

Run by `server_traces.py` as `python benchmarks/_server_limit_traces.py PATH`.
"""

from __future__ import annotations

import asyncio
import json
import queue
import socket
import sqlite3
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_DAY: Final = 1
_SPAN: Final = (
    "INSERT INTO spans (day, trace, span_id, parent_id, name, status, role, start_ns, end_ns, input_text,"
    ' source, encoding, body, received_at, "row") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
)
_TRACE: Final = (
    "INSERT OR IGNORE INTO traces (id, tenant_key, trace_id, day, created_at, updated_at, span_count,"
    " error_count, byte_count, summary) VALUES (?, '', ?, ?, ?, ?, 0, 0, 0, '{}')"
)


def read_protobuf(body: bytes) -> list[tuple[Any, ...]]:
    """Parse an export into rows."""
    rows = []
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        for part in group.scope_spans:
            for span in part.spans:
                texts = [each.value.string_value for each in span.attributes]
                rows.append(
                    (
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex() or None,
                        span.name,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        max(texts, key=len)[-300:],
                        0,
                        span.SerializeToString(),
                    )
                )
    return rows


def read_json(body: bytes) -> list[tuple[Any, ...]]:
    """Parse an export into rows."""
    rows = []
    for group in json.loads(body)["resourceSpans"]:
        for part in group["scopeSpans"]:
            for span in part["spans"]:
                texts = [each["value"].get("stringValue", "") for each in span["attributes"]]
                rows.append(
                    (
                        span["traceId"],
                        span["spanId"],
                        span.get("parentSpanId"),
                        span["name"],
                        int(span["startTimeUnixNano"]),
                        int(span["endTimeUnixNano"]),
                        max(texts, key=len)[-300:],
                        1,
                        json.dumps(span).encode(),
                    )
                )
    return rows


class Store:
    """One writer thread that commits what waits together."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def open(self) -> None:
        threading.Thread(target=self._write, daemon=True).start()

    async def store(self, rows: list[tuple[Any, ...]]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put((rows, done))
        await done

    def _write(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        for setting in ("synchronous=FULL", "cache_size=-16000"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS span_texts_{_DAY}"
            " USING fts5(text, words, content='', detail=none, columnsize=0)"
        )
        self._ids: dict[str, bytes] = {}
        self._row = 0
        while True:
            group = [self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get())
            connection.execute("BEGIN IMMEDIATE")
            for rows, _ in group:
                self._insert(connection, rows)
            connection.execute("COMMIT")
            group[0][1].get_loop().call_soon_threadsafe(_tell, [done for _, done in group])

    def _insert(self, connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
        now = time.time_ns() // 1000
        new = {row[0]: uuid.uuid4().bytes for row in rows if row[0] not in self._ids}
        self._ids |= new
        spans, texts = [], []
        for trace, span_id, parent, name, start, end, text, encoding, body in rows:
            self._row += 1
            identifier = self._ids[trace]
            spans.append(
                (
                    *(_DAY, identifier, span_id, parent, name, None, "other", start, end, text),
                    *(1, encoding, body, now, self._row),
                )
            )
            texts.append((self._row, f"{name} {text}", "project"))
        connection.executemany(
            _TRACE, [(identifier, trace, _DAY, now, now) for trace, identifier in new.items()]
        )
        connection.executemany(_SPAN, spans)
        connection.executemany(f"INSERT INTO span_texts_{_DAY} (rowid, text, words) VALUES (?, ?, ?)", texts)


def _tell(waiting: list[asyncio.Future[None]]) -> None:
    for done in waiting:
        done.set_result(None)


def application(store: Store) -> Callable[..., Awaitable[None]]:
    """Return the server."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            store.open()
            await send({"type": "lifespan.startup.complete"})
            return
        chunks = []
        while True:
            message = await receive()
            chunks.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        is_json = dict(scope["headers"])[b"content-type"] == b"application/json"
        body = b"".join(chunks)
        await store.store(read_json(body) if is_json else read_protobuf(body))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    return app


def main() -> None:
    config = uvicorn.Config(
        application(Store(sys.argv[1])), log_level="error", lifespan="on", timeout_keep_alive=120
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
