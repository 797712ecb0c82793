"""What `dokimos db` does with the database of traces, which is apart from that of everything else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DatabaseError

from dokimos._core.text import format_size
from dokimos.errors import ArchiveError, ConfigurationError
from dokimos.server._admin.checking import CheckOutcome, CheckReport, Finding
from dokimos.server._admin.databases import hold_database
from dokimos.server._clickhouse_address import parse_clickhouse_url
from dokimos.server._db.database import DatabaseUnavailable, open_spans, read_traces_once, write_traces_once
from dokimos.server._db.migrate import TRACE_HEAD, TRACE_MIGRATIONS, migrate, read_version
from dokimos.server._db.span_storage import find_storage
from dokimos.server._db.trace_tables import SPANS, TRACE_SOURCES, TRACES
from dokimos.server._services.traces.span_queries import run_on_spans
from dokimos.server._settings import ServerSettings

T = TypeVar("T")
_CHECKED: Final = 1000
"""The newest traces, whose spans are counted: all of them may be many millions."""
_NAMED: Final = 20


def has_traces(settings: ServerSettings) -> bool:
    """Whether a server has made a database of traces: on PostgreSQL that is found out by asking it."""
    return not are_in_file(settings) or settings.sqlite_trace_path.is_file()


def describe_traces(settings: ServerSettings) -> str:
    """Return which database has the traces, without its password."""
    place = _describe_rows(settings)
    url = settings.traces.clickhouse_url
    return place if url is None else f"{place} (spans: {parse_clickhouse_url(url)})"


def _describe_rows(settings: ServerSettings) -> str:
    url = settings.traces.database_url or settings.database_url
    if url is None:
        return str(settings.sqlite_trace_path)
    from sqlalchemy import make_url

    return make_url(url).render_as_string(hide_password=True)


def read_traces(settings: ServerSettings, query: Callable[[Connection], T]) -> T:
    """Run a query on one snapshot of the traces, also while servers run.

    Raises:
        ConfigurationError: Their database cannot be used.
    """
    try:
        return read_traces_once(settings, query)
    except (DatabaseUnavailable, DatabaseError) as error:
        raise _cannot_be_used(settings, error) from error


def write_traces(settings: ServerSettings, change: Callable[[Connection], T]) -> T:
    """Run a change of the traces as one transaction; on SQLite, whoever calls this holds the folder.

    Raises:
        ConfigurationError: Their database cannot be used; nothing was changed.
    """
    try:
        return write_traces_once(settings, change)
    except (DatabaseUnavailable, DatabaseError) as error:
        raise _cannot_be_used(settings, error) from error


def write_traces_within(settings: ServerSettings, change: Callable[[Connection], T]) -> T:
    """Run a change of traces on PostgreSQL as one transaction, from within one of another PostgreSQL.

    Raises:
        ConfigurationError: Their database cannot be used; nothing was changed.
    """
    from sqlalchemy.util import await_only

    from dokimos.server._db import postgres_database

    own = replace(settings, database_url=settings.traces.database_url)
    try:
        return await_only(postgres_database.write_once(own, change))
    except (DatabaseUnavailable, DatabaseError) as error:
        raise _cannot_be_used(settings, error) from error


def check_traces(settings: ServerSettings, report: CheckReport) -> None:
    """Add to a report whether the database of traces is sound; nothing is changed."""
    if not has_traces(settings):
        text = "there are none: no server has made their database yet"
        report.findings.append(Finding("traces", CheckOutcome.SKIPPED, text))
        return
    try:
        read_traces_once(settings, lambda connection: _check(connection, settings, report))
    except (DatabaseUnavailable, DatabaseError) as error:
        reason = getattr(error, "orig", None) or error
        report.add("traces", [f"{describe_traces(settings)} cannot be used: {reason}"], "")


def upgrade_traces(settings: ServerSettings, *, only_check: bool) -> tuple[str | None, bool]:
    """Bring the tables of traces up to date, or only say whether they are.

    Returns:
        The version of their schema before, None where there are no tables, and whether something was to do.

    Raises:
        ConfigurationError: The database cannot be used.
    """
    if not has_traces(settings):
        return None, False  # the server makes the file, with a setting that comes before its first table
    version = read_traces(settings, _read_version)
    if not only_check:
        _prepare_spans(settings)
    is_old = version is None or (version.isdecimal() and version < TRACE_HEAD)
    if is_old and not only_check:
        with hold_database(settings, "An upgrade"):
            write_traces(settings, lambda connection: migrate(connection, TRACE_MIGRATIONS))
    return version, is_old


def _prepare_spans(settings: ServerSettings) -> None:
    """Bring the tables of a store of their own up to date, where spans are in one."""
    try:
        with open_spans(settings, prepares=True):
            pass
    except DatabaseUnavailable as error:
        raise _cannot_be_used(settings, error) from error


def copy_traces(settings: ServerSettings, path: Path, *, replaces: bool) -> int:
    """Copy the file of traces as it is at one moment, also while a server writes; return the copy's size.

    Raises:
        ArchiveError: The copy exists already, or cannot be written.
        ConfigurationError: The traces are in PostgreSQL, or there are none.
    """
    if not are_in_file(settings):
        raise ConfigurationError(
            f"The traces are in {describe_traces(settings)}: copy them with pg_dump. --traces copies the "
            "file of SQLite."
        )
    if settings.traces.clickhouse_url is not None:
        raise ConfigurationError(
            f"The traces are in {describe_traces(settings)}: 'dokimos db backup --with-traces' copies all of "
            "it. --traces copies the file of SQLite, which is without their spans."
        )
    if not has_traces(settings):
        raise ConfigurationError(f"There are no traces at {settings.sqlite_trace_path}.")
    if path.exists() and not replaces:
        raise ArchiveError(f"{path} exists already; give another name, or --force to replace it.")
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        _copy_file(settings.sqlite_trace_path, part)
        os.chmod(part, 0o600)
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise ArchiveError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return path.stat().st_size


def _copy_file(source: Path, target: Path) -> None:
    """Write a file with the same contents, without what is free in it."""
    import sqlite3

    connection = sqlite3.connect(source)
    try:
        connection.execute("VACUUM INTO ?", (str(target),))
    except sqlite3.Error as error:
        raise ArchiveError(f"{target} cannot be written: {error}") from error
    finally:
        connection.close()


def are_in_file(settings: ServerSettings) -> bool:
    """Whether the traces are in a file of SQLite."""
    return (settings.traces.database_url or settings.database_url) is None


def _cannot_be_used(settings: ServerSettings, error: Exception) -> ConfigurationError:
    reason = getattr(error, "orig", None) or error
    return ConfigurationError(f"{describe_traces(settings)} cannot be used: {reason}")


def _read_version(connection: Connection) -> str | None:
    return read_version(connection, TRACE_MIGRATIONS)


def _check(connection: Connection, settings: ServerSettings, report: CheckReport) -> None:
    version = _read_version(connection)
    if version is None:  # as after an import
        text = "there are no tables yet; a server makes them when it starts, or 'dokimos db upgrade'"
        report.findings.append(Finding("traces", CheckOutcome.SKIPPED, text))
        return
    problems = []
    if version != TRACE_HEAD:
        problems.append(f"it is {version} and should be {TRACE_HEAD}: run 'dokimos db upgrade'")
    report.add("traces", problems, f"schema {TRACE_HEAD}, {describe_traces(settings)}")
    if are_in_file(settings):
        size = format_size(settings.sqlite_trace_path.stat().st_size)
        texts = [row[0] for row in connection.exec_driver_sql(f"PRAGMA integrity_check({_NAMED + 1})")]
        report.add("traces", [text for text in texts if text != "ok"], f"the file is sound, {size}")
    if version == TRACE_HEAD:
        report.add("traces", _count_newest(connection), "the newest have all of their spans")


def _count_newest(connection: Connection) -> list[str]:
    """Return what is wrong with the newest traces: the number of their spans, or a source that is missing."""
    newest = (
        select(TRACES.c.id, TRACES.c.trace_id, TRACES.c.span_count)
        .where(TRACES.c.deleted_at.is_(None))
        .order_by(TRACES.c.id.desc())
        .limit(_CHECKED)
        .subquery()
    )
    storage = find_storage(connection)
    if storage is not None:
        return _count_apart(connection)
    query = (
        select(newest.c.trace_id, newest.c.span_count, func.count(TRACE_SOURCES.c.id))
        .outerjoin(SPANS, SPANS.c.trace == newest.c.id)
        .outerjoin(TRACE_SOURCES, TRACE_SOURCES.c.id == SPANS.c.source)
        .group_by(newest.c.id, newest.c.trace_id, newest.c.span_count)
    )
    return [
        f"the trace {trace_id} should have {expected} spans, and {found} can be read"
        for trace_id, expected, found in connection.execute(query)
        if expected != found
    ]


def _count_apart(connection: Connection) -> list[str]:
    """Return which of the newest traces lack spans, or sources, where spans are in a store of their own.

    It may have more spans than their trace counts: those whose transaction was undone.
    """
    columns = (TRACES.c.id, TRACES.c.day, TRACES.c.trace_id, TRACES.c.span_count)
    query = select(*columns).where(TRACES.c.deleted_at.is_(None)).order_by(TRACES.c.id.desc())
    traces = connection.execute(query.limit(_CHECKED)).all()
    days = {trace.day for trace in traces}
    is_asked = (SPANS.c.day.in_(days), SPANS.c.trace.in_([trace.id for trace in traces]))
    counted = select(SPANS.c.trace, SPANS.c.source, func.count().label("spans")).where(*is_asked)
    known = set(connection.execute(select(TRACE_SOURCES.c.id)).scalars())
    found: Counter[str] = Counter()
    for row in run_on_spans(connection, counted.group_by(SPANS.c.trace, SPANS.c.source)):
        found[row.trace] += row.spans if row.source in known else 0
    return [
        f"the trace {trace.trace_id} should have {trace.span_count} spans, and {found[trace.id]} can be read"
        for trace in traces
        if found[trace.id] < trace.span_count
    ]
