"""The cache of judge replies across runs: one SQLite file of limited size."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from dokimos._core.jsonable import jsonable
from dokimos._core.wire import from_json
from dokimos._runtime.concurrency import call_in_thread
from dokimos._runtime.redaction import Redactor, secret_redactor
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.judges._protocol import JudgeReply
from dokimos.judges._recording import redact_reply

if TYPE_CHECKING:
    from dokimos.judges._judge_calls import CallRequest

T = TypeVar("T")

LIMIT_VARIABLE: Final = "DOKIMOS_CACHE_MB"
DEFAULT_MB: Final = 512
SHRUNK_SHARE: Final = 0.9
"""The share of the limit to which the cache shrinks when it is full."""
BUSY_SECONDS: Final = 10.0
_EVICTED_AT_ONCE: Final = 256

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS reply (
    key TEXT PRIMARY KEY,
    judge TEXT NOT NULL,
    reply TEXT NOT NULL,
    cost_usd REAL,
    hits INTEGER NOT NULL DEFAULT 0,
    used REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON reply (used);
"""


def default_cache_path() -> Path:
    """Return the cache file that is used unless one is named."""
    return Path(".dokimos") / "cache" / "judges.sqlite"


def size_limit_bytes() -> int:
    """Return how large the cache may grow: 512 MB unless the environment variable says otherwise."""
    given = os.environ.get(LIMIT_VARIABLE)
    try:
        limit = float(given) if given else DEFAULT_MB
    except ValueError:
        limit = -1.0
    if not 0 < limit < 1e9:
        raise ConfigurationError(f"{LIMIT_VARIABLE} must be a number of megabytes above 0, not {given!r}.")
    return int(limit * 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """The contents of a cache, in numbers."""

    path: Path
    replies: int
    size_bytes: int
    limit_bytes: int
    hits: int
    saved_usd: float
    """The cost of the calls that it saved, as far as known."""
    judges: tuple[tuple[str, int], ...]
    """Replies by judge, most first."""


class ReplyCache:
    """Replies by key. The least recently used ones are evicted when it is full. It never fails a run."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        max_bytes: int | None = None,
        clean: Redactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = default_cache_path() if path is None else path
        self.max_bytes = size_limit_bytes() if max_bytes is None else max_bytes
        self.problem: str | None = None
        self._clean = secret_redactor() if clean is None else clean
        self._clock = clock
        self._mutex = threading.Lock()
        self._database: sqlite3.Connection | None = None

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        return await call_in_thread(self._with_database, lambda database: self._select_reply(database, key))

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        redacted = redact_reply(reply, self._clean)
        # Without metrics: in another run this reply costs nothing.
        text = json.dumps(jsonable(replace(redacted, metrics=None)))
        cost = None if reply.metrics is None else reply.metrics.cost_usd
        row = (key, self._clean(request.identity), text, cost, self._clock())
        await call_in_thread(self._with_database, lambda database: self._insert(database, row))

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        """Delete the reply, so that other runs ask again."""
        await call_in_thread(self._with_database, lambda database: _delete(database, key))

    def state(self) -> CacheState:
        """Return what is in the cache. Raises `sqlite3.Error` if it cannot be read."""
        with self._mutex:
            database = self._open_database()
            query = "SELECT count(*), coalesce(sum(hits), 0), coalesce(sum(hits * cost_usd), 0) FROM reply"
            replies, hits, saved = database.execute(query).fetchone()
            judges = database.execute("SELECT judge, count(*) FROM reply GROUP BY judge ORDER BY 2 DESC, 1")
            return CacheState(
                path=self.path,
                replies=replies,
                size_bytes=_size(database),
                limit_bytes=self.max_bytes,
                hits=hits,
                saved_usd=saved,
                judges=tuple(judges.fetchall()),
            )

    def clear(self) -> int:
        """Delete all replies and return how many there were."""
        with self._mutex:
            database = self._open_database()
            with database:
                deleted = database.execute("DELETE FROM reply").rowcount
            database.executescript("PRAGMA incremental_vacuum")  # `execute` takes one page of it
            # Until then the deleted pages are in the log, and the files are as large as before.
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return deleted

    def warnings(self) -> list[str]:
        return [] if self.problem is None else [self.problem]

    def close(self) -> None:
        with self._mutex:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _with_database(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        with self._mutex:
            if self.problem is not None:
                return None
            try:
                return work(self._open_database())
            except (sqlite3.Error, OSError, ValueError) as error:
                self.problem = (
                    f"The cache {self.path} could not be used ({error}); judges were asked without it."
                )
                return None

    def _open_database(self) -> sqlite3.Connection:
        if self._database is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self.path, timeout=BUSY_SECONDS, check_same_thread=False)
            try:
                # Before the tables: SQLite takes it only for a database that has none.
                database.execute("PRAGMA auto_vacuum = INCREMENTAL")
                # Other processes read on while one writes. Losing the last replies with the power is
                # harmless in a cache, so not every write waits for the disk.
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
                database.executescript(_TABLE)
            except sqlite3.Error:
                database.close()
                raise
            self._database = database
        return self._database

    def _select_reply(self, database: sqlite3.Connection, key: str) -> JudgeReply | None:
        row = database.execute("SELECT reply FROM reply WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        with database:
            database.execute("UPDATE reply SET used = ?, hits = hits + 1 WHERE key = ?", (self._clock(), key))
        return from_json(JudgeReply, json.loads(row[0]))

    def _insert(self, database: sqlite3.Connection, row: tuple[str, str, str, float | None, float]) -> None:
        insert = "INSERT OR REPLACE INTO reply (key, judge, reply, cost_usd, used) VALUES (?, ?, ?, ?, ?)"
        with database:
            database.execute(insert, row)
        if _size(database) > self.max_bytes:
            self._shrink(database)

    def _shrink(self, database: sqlite3.Connection) -> None:
        oldest = "DELETE FROM reply WHERE key IN (SELECT key FROM reply ORDER BY used LIMIT ?)"
        while _size(database) > self.max_bytes * SHRUNK_SHARE:
            count = database.execute("SELECT count(*) FROM reply").fetchone()[0]
            with database:
                # A few in each transaction: other processes wait for the lock meanwhile.
                deleted = database.execute(oldest, (min(_EVICTED_AT_ONCE, count // 10 + 1),)).rowcount
            if not deleted:
                break
        database.executescript("PRAGMA incremental_vacuum")  # `execute` takes one page of it


def _delete(database: sqlite3.Connection, key: str) -> None:
    with database:
        database.execute("DELETE FROM reply WHERE key = ?", (key,))


def _size(database: sqlite3.Connection) -> int:
    """Return the bytes in use, including those that are only in the write-ahead log."""
    (pages,), (free,), (page_size,) = (
        database.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * page_size)
