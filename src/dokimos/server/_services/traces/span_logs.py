"""Log records that name a span: kept as sent, and read as events of the span, whichever came first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, select, tuple_, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.driver_statements import first_row
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import SPAN_LOGS
from dokimos.server._services.traces.new_spans import ENCODINGS, NewSpan, digest_record
from dokimos.server._services.traces.span_origins import origin_id
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.traces._log_records import SentLog, parse_sent_log
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_records import SpanRecord
from dokimos.traces._span import LogRecord, with_logs

TraceKey: TypeAlias = tuple[str, str]
"""A tenant (empty for none), and a trace id."""
SpanKey: TypeAlias = tuple[str, str, str]
"""The same with the id of a span."""
_ANY_LOG: Final = "SELECT 1 FROM span_logs LIMIT 1"
_LOCK: Final = 0x646F6B71  # any number that is ours
_BUCKETS: Final = 64
"""Locks that all traces share: PostgreSQL holds few in a transaction."""


@dataclass(frozen=True, slots=True)
class PlacedLog:
    """A log record that is to be stored, and for which tenant."""

    log: SentLog
    tenant: str | None
    retention_days: float
    has_rules: bool = False

    @property
    def key(self) -> SpanKey:
        """The span that it names."""
        return (self.tenant or "", self.log.record.trace_id, self.log.record.span_id)

    @property
    def record(self) -> int:
        """What tells it from other records of its span: a hash, equal for one that was sent again."""
        source = origin_id(self.log.origin).to_bytes(8)
        return int.from_bytes(blake2b(source + self.log.body, digest_size=8).digest()) >> 1


class StoredLog(NamedTuple):
    """A log record as the table has it."""

    time_ns: int
    body: bytes
    encoding: Encoding


def lock_logs(connection: Connection, keys: Iterable[TraceKey], *, is_writer: bool) -> None:
    """Let whoever stores spans of some traces and whoever stores logs of them wait for each other.

    Each reads what the other writes: without a lock, both could miss it. On SQLite one writes at a time.

    Args:
        keys: The traces.
        is_writer: Whether logs are to be stored; those who store spans do not wait for each other here.
    """
    if connection.dialect.name != "postgresql":
        return
    buckets = sorted({blake2b("\0".join(key).encode(), digest_size=2).digest()[0] % _BUCKETS for key in keys})
    lock = "pg_advisory_xact_lock" if is_writer else "pg_advisory_xact_lock_shared"
    # In the order of the array, the same in all servers, so that none waits for one that waits for it.
    connection.exec_driver_sql(
        f"SELECT {lock}($1, bucket) FROM unnest($2::int[]) AS bucket", (_LOCK, buckets)
    )


def insert_logs(
    connection: Connection, logs: Iterable[PlacedLog], day: int, expires_at: Mapping[float, int | None]
) -> set[SpanKey]:
    """Insert the logs that are not there yet; return the spans that they name.

    Args:
        day: Of today.
        expires_at: When a log whose span does not come is removed, by its retention.
    """
    rows = {
        (*each.key, each.record): {
            "tenant_key": each.key[0],
            "trace_id": each.key[1],
            "span_id": each.key[2],
            "record": each.record,
            "time_ns": _column_time(each.log.record.event.time_ns),
            "day": day,
            "source": origin_id(each.log.origin),
            "encoding": ENCODINGS.index(each.log.origin.encoding),
            "body": each.log.body,
            "expires_at": expires_at[each.retention_days],
        }
        for each in logs
    }
    added: set[SpanKey] = set()
    columns = (SPAN_LOGS.c.tenant_key, SPAN_LOGS.c.trace_id, SPAN_LOGS.c.span_id)
    for batch in in_batches([rows[key] for key in sorted(rows)]):
        insert = INSERTS[connection.dialect.name](SPAN_LOGS).on_conflict_do_nothing().returning(*columns)
        added |= {tuple(row) for row in connection.execute(insert, list(batch))}
    return added


def load_logs(connection: Connection, keys: Sequence[TraceKey]) -> dict[SpanKey, list[StoredLog]]:
    """Return the logs of traces by the spans that they name, in one order whenever they came."""
    logs: dict[SpanKey, list[StoredLog]] = {}
    if connection.dialect.name == "sqlite" and first_row(connection, _ANY_LOG) is None:
        return logs  # as where nobody sends any: SQLAlchemy's list of values costs more than 20 spans
    columns = SPAN_LOGS.c
    key = tuple_(columns.tenant_key, columns.trace_id)
    for batch in in_batches(keys):
        query = select(
            columns.tenant_key,
            columns.trace_id,
            columns.span_id,
            columns.time_ns,
            columns.body,
            columns.encoding,
        ).where(key.in_(batch))
        for row in connection.execute(query):
            log = StoredLog(row.time_ns or 0, bytes(row.body), ENCODINGS[row.encoding])
            logs.setdefault((row.tenant_key, row.trace_id, row.span_id), []).append(log)
    return {span: sorted(of_span) for span, of_span in logs.items()}


def keep_with_trace(connection: Connection, keys: Sequence[SpanKey]) -> None:
    """Keep the logs of spans that are there as long as their traces."""
    key = tuple_(SPAN_LOGS.c.tenant_key, SPAN_LOGS.c.trace_id, SPAN_LOGS.c.span_id)
    for batch in in_batches(keys):
        is_lone = (key.in_(batch), SPAN_LOGS.c.expires_at.is_not(None))
        connection.execute(update(SPAN_LOGS).where(*is_lone).values(expires_at=None))


def parse_logs(logs: Iterable[StoredLog]) -> list[LogRecord]:
    """Return the records of stored logs."""
    return [parse_sent_log(log.body, log.encoding) for log in logs]


def add_logs(record: SpanRecord, logs: Iterable[StoredLog]) -> SpanRecord:
    """Return a span with its logs as events; its body stays as it was sent."""
    return record._replace(span=with_logs([record.span], parse_logs(logs))[0])


def digest_with_logs(span: NewSpan, logs: Iterable[StoredLog]) -> NewSpan:
    """Return a span as it is stored, with what its logs say of it."""
    return digest_record(add_logs(read_record(span.body, span.origin), logs))


def _column_time(time_ns: int | None) -> int | None:
    return time_ns if time_ns is not None and time_ns < 1 << 63 else None
