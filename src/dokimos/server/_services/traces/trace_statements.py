"""The statements that store traces and spans, which are compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, select, update

from dokimos.server._db.driver_statements import DriverStatement
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.traces.new_spans import ENCODINGS

SOURCE_COLUMNS: Final = ("encoding", "resource", "resource_schema_url", "scope", "schema_url")
ENCODING_NUMBERS: Final = {name: number for number, name in enumerate(ENCODINGS)}
READ_COLUMNS: Final = ("id", "day", "created_at", "expires_at", "match_due_at", "summary")
TRACE_COLUMNS: Final = tuple(
    TRACES.c[name]
    for name in (
        "id",
        "tenant_key",
        "trace_id",
        "day",
        "created_at",
        "expires_at",
        "match_due_at",
        "summary",
    )
)
NEW_COLUMNS: Final = (
    "id",
    "tenant_key",
    "trace_id",
    "tenant_id",
    "day",
    "created_at",
    "updated_at",
    "span_count",
    "error_count",
    "byte_count",
    "summary",
)
CHANGING_COLUMNS: Final = (
    "project_id",
    "updated_at",
    "expires_at",
    "span_count",
    "error_count",
    "byte_count",
    "start_ns",
    "end_ns",
    "duration_ns",
    "tokens_in",
    "tokens_out",
    "cost_usd",
    "priced_calls",
    "unpriced_calls",
    "first_chunk_ms",
    "root_name",
    "root_status",
    "input_text",
    "output_text",
    "session_id",
    "user_id",
    "model",
    "summary",
    "match_due_at",
)
INSERT_TRACES: Final = DriverStatement(
    lambda dialect: (
        INSERTS[dialect](TRACES)
        .values({name: bindparam(name) for name in NEW_COLUMNS})
        .on_conflict_do_nothing()
    )
)
INSERT_WHOLE_TRACES: Final = DriverStatement(
    lambda dialect: INSERTS[dialect](TRACES).values(
        {name: bindparam(name) for name in dict.fromkeys((*NEW_COLUMNS, *CHANGING_COLUMNS))}
    )
)
READ_TRACE: Final = DriverStatement(
    lambda _: select(*(TRACES.c[name] for name in READ_COLUMNS)).where(
        TRACES.c.tenant_key == bindparam("tenant_key"),
        TRACES.c.trace_id == bindparam("trace_id"),
        TRACES.c.deleted_at.is_(None),
    )
)
UPDATE_TRACES: Final = DriverStatement(
    lambda _: (
        update(TRACES)
        .where(TRACES.c.id == bindparam("row"))
        .values({name: bindparam(name) for name in CHANGING_COLUMNS})
    )
)
WHOLE_SPANS: Final = select(
    SPANS.c.trace,
    SPANS.c.span_id,
    SPANS.c.project_id,
    SPANS.c.encoding,
    SPANS.c.body,
)
"""Spans: with their sources (`run_with_sources`), all that is needed to read them."""
SPAN_COLUMNS: Final = tuple(column.name for column in SPANS.c if column.name != "row")
_FIRST, _LAST = SPAN_COLUMNS.index("span_id"), SPAN_COLUMNS.index("error")
_SPAN_COLUMNS: Final = SPAN_COLUMNS[_FIRST : _LAST + 1]
_SHARED: Final = ("day", "received_at", "trace", "project_id", "source", "encoding", "body", '"row"')


def _write_insert(columns: Sequence[str], values: Sequence[str]) -> str:
    return f"INSERT INTO spans ({', '.join(columns)}) VALUES ({', '.join(values)})"


INSERT_SQLITE: Final = _write_insert((*_SPAN_COLUMNS, *_SHARED), "?" * (len(_SPAN_COLUMNS) + len(_SHARED)))
"""The columns that spans have one by one, and then those that all of a trace share."""
INSERT_POSTGRESQL: Final = _write_insert(
    (*SPAN_COLUMNS, "search", "attribute_hashes"),
    [
        *(f"${place}" for place in range(1, len(SPAN_COLUMNS) + 1)),
        f"array_to_tsvector(string_to_array(${len(SPAN_COLUMNS) + 1}, ' '))",
        f"${len(SPAN_COLUMNS) + 2}",
    ],
)
