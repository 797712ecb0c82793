"""The traces that a batch has spans of, found or made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, select, tuple_

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY
from dokimos.server._db.columns import Id
from dokimos.server._db.driver_statements import driver_id
from dokimos.server._db.ids import new_ids
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.traces.day_rollups import HourKey
from dokimos.server._services.traces.placements import PlacedSpan
from dokimos.server._services.traces.trace_hours import TraceCount, hour_of
from dokimos.server._services.traces.trace_statements import INSERT_TRACES, READ_TRACE, TRACE_COLUMNS
from dokimos.server._services.traces.trace_summary import TraceSummary

_Key: TypeAlias = tuple[str, str]
"""A tenant (empty for none) and the id of a trace."""


class TraceIdentity(NamedTuple):
    """What a new trace is to have that was stored elsewhere before."""

    id: str
    """Of its row."""
    created_at: int


_NO_IDENTITIES: Final[Mapping[_Key, TraceIdentity]] = {}


@dataclass(slots=True)
class OpenTrace:
    """A trace that a batch has spans of."""

    id: str
    tenant_key: str
    trace_id: str
    day: int
    created_at: int
    expires_at: int | None
    match_due_at: int | None
    summary: TraceSummary
    is_new: bool
    driver_id: object = None
    """Its id as the driver of the database takes it."""
    retention_days: float = 0.0
    added: list[PlacedSpan] = field(default_factory=list)
    has_replaced: bool = False

    @property
    def project(self) -> str | None:
        project: str | None = self.summary.find_choice("project")
        return project

    def count(self) -> TraceCount:
        """Return what it adds to the hours now."""
        key: HourKey = (self.project or "", self.tenant_key, hour_of(self.summary, self.created_at))
        return TraceCount(key, self.summary)


def find_traces(
    connection: Connection,
    keys: Iterable[_Key],
    moment: int,
    identities: Mapping[_Key, TraceIdentity] = _NO_IDENTITIES,
) -> dict[_Key, OpenTrace]:
    """Return the traces, locked, and new ones where there are none.

    Args:
        moment: At which those that are new came.
        identities: Of new ones that were stored elsewhere before.
    """
    is_postgresql = connection.dialect.name == "postgresql"
    ordered = sorted(keys)  # in one order in all servers, so that none waits for one that waits for it
    traces = read_traces(connection, ordered)
    missing = [key for key in ordered if key not in traces]
    new = {
        key: identities.get(key) or TraceIdentity(identifier, moment)
        for key, identifier in zip(missing, new_ids(len(missing)), strict=True)
    }
    if not is_postgresql:  # nobody else writes: they are inserted when all is known of them
        traces |= {key: _make_trace(key, identity) for key, identity in new.items()}
    elif new:
        _insert_traces(connection, new)
        # Another server may have been quicker with some of them.
        for key, trace in read_traces(connection, missing).items():
            trace.is_new = trace.id == new[key].id
            traces[key] = trace
    for trace in traces.values():
        trace.driver_id = driver_id(trace.id, connection)
    return traces


def _make_trace(key: _Key, identity: TraceIdentity) -> OpenTrace:
    return OpenTrace(
        identity.id,
        *key,
        day=identity.created_at // DAY,
        created_at=identity.created_at,
        expires_at=None,
        match_due_at=None,
        summary=TraceSummary(),
        is_new=True,
    )


def read_traces(connection: Connection, keys: Sequence[_Key]) -> dict[_Key, OpenTrace]:
    """Return those of some traces that are there, locked."""
    if connection.dialect.name == "sqlite":
        return _read_from_sqlite(connection, keys)
    traces: dict[_Key, OpenTrace] = {}
    for batch in in_batches(keys):
        query = (
            select(*TRACE_COLUMNS)
            .where(tuple_(TRACES.c.tenant_key, TRACES.c.trace_id).in_(batch), TRACES.c.deleted_at.is_(None))
            .order_by(TRACES.c.tenant_key, TRACES.c.trace_id)
            .with_for_update()
        )
        for row in connection.execute(query):
            traces[row.tenant_key, row.trace_id] = OpenTrace(
                row.id,
                row.tenant_key,
                row.trace_id,
                row.day,
                row.created_at,
                row.expires_at,
                row.match_due_at,
                TraceSummary.load(row.summary),
                is_new=False,
                driver_id=driver_id(row.id, connection),
            )
    return traces


def _read_from_sqlite(connection: Connection, keys: Sequence[_Key]) -> dict[_Key, OpenTrace]:
    """Read them one by one: on SQLite a statement costs less than SQLAlchemy's list of values."""
    traces: dict[_Key, OpenTrace] = {}
    for key in keys:
        row = READ_TRACE.first(connection, {"tenant_key": key[0], "trace_id": key[1]})
        if row is not None:
            identifier, day, created_at, expires_at, match_due_at, summary = row
            traces[key] = OpenTrace(
                Id.from_driver(identifier),
                *key,
                day=day,
                created_at=created_at,
                expires_at=expires_at,
                match_due_at=match_due_at,
                summary=TraceSummary.load(summary),
                is_new=False,
                driver_id=identifier,
            )
    return traces


def _insert_traces(connection: Connection, new: Mapping[_Key, TraceIdentity]) -> None:
    empty = TraceSummary().dump()
    INSERT_TRACES.execute_many(
        connection,
        [
            {
                "id": driver_id(identity.id, connection),
                "tenant_key": key[0],
                "trace_id": key[1],
                "tenant_id": key[0] or None,
                "day": identity.created_at // DAY,
                "created_at": identity.created_at,
                "updated_at": identity.created_at,
                "span_count": 0,
                "error_count": 0,
                "byte_count": 0,
                "summary": empty,
            }
            for key, identity in new.items()
        ],
    )
