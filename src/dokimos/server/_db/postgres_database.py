"""PostgreSQL, through asyncpg."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, QueuePool, event, make_url, text
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from dokimos.server._db import clock
from dokimos.server._db.database import DatabaseUnavailable, Lane, Overtaken, ReadersBusy, ReadTooSlow
from dokimos.server._db.migrate import MIGRATIONS, Migrations, migrate
from dokimos.server._db.outbox import Deliver, drop_messages, open_outbox
from dokimos.server._db.postgres_claims import PostgresClaims
from dokimos.server._db.postgres_connection import DRIVER_ERRORS
from dokimos.server._settings import ServerSettings

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("dokimos.server")
_MIN_VERSION: Final = 14
_ATTEMPTS: Final = 5
_ABANDONED: Final = "25P03"  # idle in a transaction: PostgreSQL has rolled it back, and ended the connection
_RETRYABLE: Final = ("40001", "40P01")  # serialization failure, deadlock: PostgreSQL asks to try again
_ABANDONED_SECONDS: Final = 60.0
"""How long a transaction may wait for its server's next statement.

One that was frozen would hold for ever what all others need, such as the row of a budget. Between two
statements nothing takes long: what is streamed or archived has connections of its own (`read_once`).
"""
_POOL: Final = "dokimos pool"
_END_ABANDONED: Final = text(
    # The driver prepares a statement and runs it in two messages. A server that freezes between the two is
    # not "idle in transaction" for PostgreSQL, and only as of version 17 is there a time limit for that.
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    f" AND usename = current_user AND application_name = '{_POOL}' AND pid <> pg_backend_pid()"
    " AND state = 'active' AND wait_event = 'ClientRead' AND query NOT ILIKE 'COPY%'"
    " AND state_change < clock_timestamp() - make_interval(secs => :seconds)"
)
_IDLE_SECONDS: Final = 2.0
_CLOCK: Final = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
_NOTABLE_SECONDS: Final = 5.0
_UNAVAILABLE: Final = ("08", "53", "57", "58")  # connection, resources (disk full), shutdown, system


class PostgresDatabase:
    """A pool of connections to PostgreSQL 14 or newer."""

    dialect = "postgresql"

    def __init__(self, settings: ServerSettings, migrations: Migrations = MIGRATIONS) -> None:
        self._settings = settings
        self._migrations = migrations
        self._engine: AsyncEngine | None = None
        # Of the connections, searches and work may hold a third each, so that pages always find some.
        share = max(1, settings.pool_size // 3)
        self._lanes = {Lane.SEARCH: asyncio.Semaphore(share), Lane.WORK: asyncio.Semaphore(share)}
        self._deliver: Deliver = drop_messages
        self._claims = PostgresClaims(settings)

    @property
    def connections(self) -> Mapping[str, float]:
        pool = None if self._engine is None else self._engine.sync_engine.pool
        if not isinstance(pool, QueuePool):
            return {}
        return {
            "busy": pool.checkedout(),
            "idle": pool.checkedin(),
            "most": self._settings.pool_size,
        }

    async def open(self) -> None:
        assert self._settings.database_url is not None
        url = make_url(self._settings.database_url)
        self._engine = _create_engine(
            url,
            pool_size=self._settings.pool_size,
            max_overflow=0,
            pool_use_lifo=True,  # few connections stay warm, and know their statements
            pool_timeout=self._settings.pool_timeout,
        )
        _end_abandoned_transactions(self._engine, _ABANDONED_SECONDS)
        _ping_idle_connections(self._engine)
        try:
            await self._prepare(self._engine)
        except BaseException as error:
            await self.close()
            if not isinstance(error, (OSError, DBAPIError, *DRIVER_ERRORS)):
                raise
            where = url.render_as_string(hide_password=True)
            raise DatabaseUnavailable(f"{where}: {_describe(error)}") from error

    async def _prepare(self, engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            version = await connection.run_sync(_server_version)
            if version < _MIN_VERSION:
                raise DatabaseUnavailable(
                    f"PostgreSQL {version} is too old; the server needs {_MIN_VERSION} or newer."
                )
            await connection.run_sync(migrate, self._migrations)
        await self.follow_clock()
        if abs(clock.offset()) > _NOTABLE_SECONDS:
            _LOGGER.warning(
                "The clock of this machine differs by %.0f seconds from that of PostgreSQL, which counts.",
                abs(clock.offset()),
            )

    async def close(self) -> None:
        await self._claims.close()
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    async def follow_clock(self) -> None:
        def read(connection: Connection) -> int:
            return int(connection.exec_driver_sql(_CLOCK).scalar_one())

        await clock.follow(lambda: self._run(read))

    async def end_abandoned(self) -> None:
        def end(connection: Connection) -> int:
            return len(connection.execute(_END_ABANDONED, {"seconds": _ABANDONED_SECONDS}).all())

        if count := await self._run(end):
            _LOGGER.warning(
                "%s of servers that stood still for %.0f seconds ended.",
                "1 transaction" if count == 1 else f"{count} transactions",
                _ABANDONED_SECONDS,
            )

    def deliver_to(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def claim(self, name: str) -> AbstractAsyncContextManager[bool]:
        return self._claims.claim(name)

    async def read(self, query: Callable[[Connection], T], lane: Lane = Lane.PAGE) -> T:
        limit = None if lane is Lane.WORK else self._settings.read_timeout or None
        began_at = float("inf")

        def run(connection: Connection) -> T:
            nonlocal began_at  # with a connection, for which it may have had to wait
            began_at = time.monotonic()
            return query(connection)

        try:
            # Cancelled where its time is over or the caller hangs up, the driver tells PostgreSQL to stop. A
            # statement_timeout would take another round trip of each read.
            async with asyncio.timeout(limit), self._lanes.get(lane) or nullcontext():
                return await self._run(run)
        except TimeoutError:
            assert limit is not None
            if time.monotonic() - began_at < limit / 2:  # what took long is the wait for others
                raise ReadersBusy("All connections for such reads are busy.") from None
            raise ReadTooSlow(limit, lane) from None

    async def write(self, change: Callable[[Connection], T], *, background: bool = False) -> T:
        def post_and_change(connection: Connection) -> tuple[T, list[object]]:
            outbox = open_outbox(connection)
            return change(connection), outbox

        result, outbox = await self._run(post_and_change)
        if outbox:
            self._deliver(outbox)
        return result

    async def _run(self, change: Callable[[Connection], T]) -> T:
        if self._engine is None:
            raise DatabaseUnavailable("The database is closed.")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                # One greenlet for all of it: each await of an `AsyncConnection` would start its own.
                return await greenlet_spawn(_run_change, self._engine.sync_engine, change)
            except Overtaken:
                if attempt == _ATTEMPTS:
                    raise DatabaseUnavailable("Other transactions were quicker each time.") from None
            except DBAPIError as error:
                state = getattr(error.orig, "sqlstate", None) or ""
                if (state in _RETRYABLE or _was_never_sent(error)) and attempt < _ATTEMPTS:
                    await asyncio.sleep(0.01 * attempt)
                    continue
                ended = error.connection_invalidated or state in (_ABANDONED, *_RETRYABLE)
                if ended or state[:2] in _UNAVAILABLE:
                    raise DatabaseUnavailable(str(error.orig)) from error
                raise
            except (OSError, PoolTimeout, *DRIVER_ERRORS) as error:
                # The driver's own errors come from connecting, where SQLAlchemy does not translate them.
                if _was_never_sent(error) and attempt < _ATTEMPTS:
                    continue
                raise DatabaseUnavailable(_describe(error)) from error
        raise AssertionError("unreachable")


def _was_never_sent(error: Exception) -> bool:
    """Whether a connection was closed while it was idle: no statement, and so no COMMIT, went out on it."""
    problem = str(error.orig if isinstance(error, DBAPIError) else error)
    return any(words in problem for words in _NEVER_SENT)


_NEVER_SENT: Final = ("connection is closed", "cannot switch to state")
"""What the driver says before it sends anything: the second while the end of a session is just arriving."""


def _run_change(engine: Engine, change: Callable[[Connection], T]) -> T:
    with engine.begin() as connection:
        return change(connection)


async def read_once(settings: ServerSettings, query: Callable[[Connection], T]) -> T:
    """Run a query on one snapshot of the data, from a process of its own.

    Raises:
        DatabaseUnavailable: The database does not answer.
    """
    assert settings.database_url is not None
    engine = _create_engine(
        make_url(settings.database_url), poolclass=NullPool, isolation_level="REPEATABLE READ"
    )
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(query)
    except (OSError, DBAPIError, *DRIVER_ERRORS) as error:
        raise DatabaseUnavailable(_describe(error)) from error
    finally:
        await engine.dispose()


async def write_once(settings: ServerSettings, change: Callable[[Connection], T]) -> T:
    """Run a change of any size as one transaction, from a process of its own.

    Raises:
        DatabaseUnavailable: The database does not answer, or cannot store.
    """
    assert settings.database_url is not None
    engine = _create_engine(make_url(settings.database_url), poolclass=NullPool, keeps_plans=False)
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(change)
    except (OSError, DBAPIError, *DRIVER_ERRORS) as error:
        raise DatabaseUnavailable(_describe(error)) from error
    finally:
        await engine.dispose()


def _describe(error: Exception) -> str:
    """Return what went wrong in words, without the number and the call of an error of the network."""
    reason = getattr(error, "orig", None) or error
    if isinstance(reason, ConnectionError) and reason.errno is not None:
        return os.strerror(reason.errno)
    if isinstance(reason, socket.gaierror) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__


def _create_engine(url: URL, *, keeps_plans: bool = True, **options: object) -> AsyncEngine:
    """Create an engine.

    Args:
        url: Of the database.
        keeps_plans: Whether statements stay prepared. PostgreSQL then keeps the plan that it made of one
            while a table was small, to read all of it, also when the same transaction fills the table.
        options: Those of SQLAlchemy.
    """
    mode = url.query.get("sslmode")
    arguments = {"ssl": mode} if mode else {}
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg", query={}),
        hide_parameters=True,  # neither logs nor errors quote what users sent
        connect_args=arguments if keeps_plans else {**arguments, "prepared_statement_cache_size": 0},
        **options,
    )
    _configure_connections(engine)
    return engine


def _configure_connections(engine: AsyncEngine) -> None:
    """Turn off what compiles queries: it takes 50 ms where PostgreSQL expects thousands of lookups.

    It expects too many after a restore or an import, until it has statistics of the new rows.
    """

    @event.listens_for(engine.sync_engine, "connect")
    def _turn_off_jit(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute("SET jit = off")
        cursor.close()
        connection.commit()  # undone with the transaction otherwise


def _end_abandoned_transactions(engine: AsyncEngine, seconds: float) -> None:
    """Have PostgreSQL roll back what waits so long for its next statement, and let others find the rest."""

    # Not as a parameter of the connection, which PgBouncer refuses.
    @event.listens_for(engine.sync_engine, "connect")
    def _limit(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"SET application_name = '{_POOL}'")
        cursor.execute(f"SET idle_in_transaction_session_timeout = {round(seconds * 1000)}")
        cursor.close()
        connection.commit()


def _ping_idle_connections(engine: AsyncEngine) -> None:
    """Have a connection that was idle for a while checked before it is used.

    A database that was restarted meanwhile then costs no request. SQLAlchemy would check before each
    transaction: three round trips, about as many as storing ten items takes.
    """
    dialect = engine.sync_engine.dialect

    @event.listens_for(engine.sync_engine, "checkin")
    def _note_time(_: object, record: Any) -> None:
        record.info["idle_since"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def _ping(connection: Any, record: Any, _: object) -> None:
        idle_since = record.info.get("idle_since")
        if idle_since is None or time.monotonic() - idle_since < _IDLE_SECONDS:
            return
        try:
            dialect.do_ping(connection)
        except Exception as error:  # whatever it is: the pool opens another connection instead
            raise DisconnectionError from error


def _server_version(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10_000
