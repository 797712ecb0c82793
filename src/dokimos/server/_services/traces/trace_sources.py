"""The resources and scopes of spans, each stored once."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection

from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import TRACE_SOURCES
from dokimos.server._services.traces.new_spans import ENCODINGS, is_text
from dokimos.traces._otlp_records import SpanOrigin


def store_origins(connection: Connection, origins: Mapping[int, SpanOrigin], day: int) -> None:
    """Insert the rows of origins that are not there yet.

    Args:
        origins: By their ids.
        day: Of the spans that name them: once no span of its last day is left, a row is removed.
    """
    for key in sorted(origins):  # in one order in all servers, so that none waits for one that waits for it
        origin = origins[key]
        insert = INSERTS[connection.dialect.name](TRACE_SOURCES).values(
            id=key,
            encoding=ENCODINGS.index(origin.encoding),
            resource=origin.resource,
            resource_schema_url=_escape(origin.resource_schema_url),
            scope=origin.scope,
            schema_url=_escape(origin.schema_url),
            last_day=day,
        )
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=[TRACE_SOURCES.c.id],
                set_={"last_day": day},
                where=TRACE_SOURCES.c.last_day < day,
            )
        )


def load_origin(
    encoding: int, resource: bytes, resource_schema_url: str, scope: bytes, schema_url: str
) -> SpanOrigin:
    """Return the origin of a row."""
    return SpanOrigin(
        "json" if encoding else "protobuf",
        bytes(resource),
        _unescape(resource_schema_url),
        bytes(scope),
        _unescape(schema_url),
    )


def _escape(url: str) -> str:
    """Return a text that every database holds, and that is read back as it was sent."""
    return url if is_text(url) and not url.startswith('"') else json.dumps(url)


def _unescape(text: str) -> str:
    return json.loads(text) if text.startswith('"') else text
