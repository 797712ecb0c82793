"""The least that a server of items can do: bare ASGI, the driver of the database, and nothing checked.

It writes the rows that `dokimos serve` writes, into the same tables, and answers when they are on disk: the
key of the batch, the items, their scores, the counts of the run and of its evaluators. What it leaves out is
what a server is for: checks, access, tenants, replays, replaced items, errors that say where.

Run by `server_ingestion.py` as `python benchmarks/_server_limit.py sqlite PATH` or `... postgresql URL`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import queue
import socket
import sqlite3
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import uvicorn

CLIENTS: Final = 4
_ITEM_COLUMNS: Final = 18
_SCORE_COLUMNS: Final = 10


@dataclass(slots=True)
class Batch:
    """The rows of one request."""

    run: bytes | str
    key: str
    body_hash: str
    now: int
    items: list[list[Any]]
    scores: list[tuple[Any, ...]]
    evaluators: dict[str, list[float]]
    totals: tuple[int, ...]


def read_batch(path: str, key: str, body: bytes, as_id: Callable[[uuid.UUID], bytes | str]) -> Batch:
    """Parse a body into rows; the ordinals of its items are still those within the batch."""
    run = as_id(uuid.UUID(path[13:49]))
    now = time.time_ns() // 1000
    items: list[list[Any]] = []
    scores: list[tuple[Any, ...]] = []
    evaluators: dict[str, list[float]] = {}
    passed = latency = 0
    for index, item in enumerate(json.loads(body)["items"]):
        item_id = as_id(uuid.uuid4())
        is_passed = True
        for position, score in enumerate(item["evalResults"]):
            name, value, success = score["name"], float(score["score"]), score["success"]
            reason = json.dumps(score["reason"])
            row = (item_id, position, name, value, score["threshold"], success, reason, None, None, None)
            scores.append(row)
            counted = evaluators.setdefault(name, [0, 0.0, 0])
            counted[0] += 1
            counted[1] += value
            counted[2] += success
            is_passed = is_passed and success
        passed += is_passed
        latency += item["latencyMs"]
        texts = [
            json.dumps(item[name]) for name in ("inputs", "expectedOutputs", "actualOutputs", "metadata")
        ]
        nothing = [None] * 5  # an error, a dataset item, tokens, a cost
        items.append(
            [item_id, run, index, 0, True, *texts, *nothing, item["latencyMs"], is_passed, True, now]
        )
    count = len(items)
    totals = (count, passed, count, latency, count)
    return Batch(run, key, hashlib.sha256(body).hexdigest(), now, items, scores, evaluators, totals)


_COUNT: Final = (
    "UPDATE runs SET next_ordinal = next_ordinal + {0}, item_count = item_count + {0}, "
    "passed_count = passed_count + {1}, judged_count = judged_count + {2}, latency_ms = latency_ms + {3}, "
    "latency_count = latency_count + {4}, last_activity_at = {5} WHERE id = {6}"
)
_COUNT_SCORES: Final = (
    "INSERT INTO run_evaluators (run_id, name, position, score_count, score_sum, success_count) "
    "VALUES ({0}, {1}, {2}, {3}, {4}, {5}) ON CONFLICT (run_id, name) DO UPDATE SET "
    "score_count = run_evaluators.score_count + excluded.score_count, "
    "score_sum = run_evaluators.score_sum + excluded.score_sum, "
    "success_count = run_evaluators.success_count + excluded.success_count"
)


def evaluator_rows(batch: Batch) -> list[tuple[Any, ...]]:
    return [(batch.run, name, place, *each) for place, (name, each) in enumerate(batch.evaluators.items())]


class SqliteStore:
    """One writer thread that commits what waits together."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: queue.SimpleQueue[tuple[Batch, asyncio.Future[None]]] = queue.SimpleQueue()

    async def open(self) -> None:
        threading.Thread(target=self._write, daemon=True).start()

    @staticmethod
    def as_id(identifier: uuid.UUID) -> bytes:
        return identifier.bytes

    async def store(self, batch: Batch) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put((batch, done))
        await done

    def _write(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        for setting in ("foreign_keys=ON", "synchronous=FULL", "cache_size=-16000"):
            connection.execute(f"PRAGMA {setting}")
        while True:
            group = [self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get())
            try:
                connection.execute("BEGIN IMMEDIATE")
                for batch, _ in group:
                    _store_in_sqlite(connection, batch)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(1)  # the clients see the connection end, and their benchmark stops
            group[0][1].get_loop().call_soon_threadsafe(_tell, [done for _, done in group])


def _tell(waiting: list[asyncio.Future[None]]) -> None:
    for done in waiting:
        done.set_result(None)


def _marks(count: int) -> str:
    return ", ".join("?" * count)


_SQLITE_KEY: Final = f"INSERT OR IGNORE INTO ingested_batches VALUES ({_marks(4)})"
_SQLITE_ITEMS: Final = f"INSERT INTO items VALUES ({_marks(_ITEM_COLUMNS)})"
_SQLITE_SCORES: Final = f"INSERT INTO evaluations VALUES ({_marks(_SCORE_COLUMNS)}, NULL)"  # `judged`
_SQLITE_COUNT: Final = _COUNT.format(*(f"?{number}" for number in range(1, 8)))
_SQLITE_COUNT_SCORES: Final = _COUNT_SCORES.format(*"??????")


def _store_in_sqlite(connection: sqlite3.Connection, batch: Batch) -> None:
    connection.execute(_SQLITE_KEY, (batch.run, batch.key, batch.body_hash, batch.now))
    query = "SELECT next_ordinal FROM runs WHERE id = ?"
    first = connection.execute(query, (batch.run,)).fetchone()[0]
    for row in batch.items:
        row[2] += first
    connection.executemany(_SQLITE_ITEMS, batch.items)
    connection.executemany(_SQLITE_SCORES, batch.scores)
    connection.execute(_SQLITE_COUNT, (*batch.totals, batch.now, batch.run))
    connection.executemany(_SQLITE_COUNT_SCORES, evaluator_rows(batch))


class PostgresStore:
    """A pool of asyncpg, one transaction for each request."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None

    async def open(self) -> None:
        import asyncpg

        self._pool = await asyncpg.create_pool(self._url, min_size=CLIENTS, max_size=CLIENTS)

    @staticmethod
    def as_id(identifier: uuid.UUID) -> str:
        return str(identifier)

    async def store(self, batch: Batch) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            query = "SELECT next_ordinal FROM runs WHERE id = $1 FOR UPDATE"
            first = await connection.fetchval(query, batch.run)
            await connection.execute(_POSTGRES_KEY, batch.run, batch.key, batch.body_hash, batch.now)
            for row in batch.items:
                row[2] += first
            await connection.executemany(_POSTGRES_ITEMS, batch.items)
            await connection.executemany(_POSTGRES_SCORES, batch.scores)
            await connection.execute(_POSTGRES_COUNT, *batch.totals, batch.now, batch.run)
            await connection.executemany(_POSTGRES_COUNT_SCORES, evaluator_rows(batch))


def _numbered(count: int) -> str:
    return ", ".join(f"${number}" for number in range(1, count + 1))


_POSTGRES_KEY: Final = f"INSERT INTO ingested_batches VALUES ({_numbered(4)}) ON CONFLICT DO NOTHING"
_POSTGRES_ITEMS: Final = f"INSERT INTO items VALUES ({_numbered(_ITEM_COLUMNS)})"
_POSTGRES_SCORES: Final = f"INSERT INTO evaluations VALUES ({_numbered(_SCORE_COLUMNS)})"
_POSTGRES_COUNT: Final = _COUNT.format(*(f"${number}::bigint" for number in range(1, 7)), "$7")
_POSTGRES_COUNT_SCORES: Final = _COUNT_SCORES.format(*(f"${number}" for number in range(1, 7)))


def application(store: SqliteStore | PostgresStore) -> Callable[..., Awaitable[None]]:
    """Return the server."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await store.open()
            await send({"type": "lifespan.startup.complete"})
            return
        chunks = []
        while True:
            message = await receive()
            chunks.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        key = dict(scope["headers"])[b"idempotency-key"].decode()
        await store.store(read_batch(scope["path"], key, b"".join(chunks), store.as_id))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"15")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"status":"ok"}'})

    return app


def main() -> None:
    kind, place = sys.argv[1:]
    store = SqliteStore(place) if kind == "sqlite" else PostgresStore(place)
    # Its connections wait while the other server has its turn.
    config = uvicorn.Config(application(store), log_level="error", lifespan="on", timeout_keep_alive=120)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
