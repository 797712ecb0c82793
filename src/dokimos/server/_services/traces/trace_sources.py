"""The resources and scopes of spans, each stored once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

from sqlalchemy import Connection

from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import TRACE_SOURCES
from dokimos.server._services.traces.new_spans import ENCODINGS
from dokimos.traces._otlp_records import SpanOrigin


@lru_cache(maxsize=1024)
def origin_id(origin: SpanOrigin) -> int:
    """Return the id of the row of an origin: a hash, so that finding it needs no query."""
    parts = (
        origin.encoding.encode(),
        origin.resource,
        origin.resource_schema_url.encode("utf-8", "surrogatepass"),
        origin.scope,
        origin.schema_url.encode("utf-8", "surrogatepass"),
    )
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return int.from_bytes(digest.digest()) >> 1


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
            resource_schema_url=origin.resource_schema_url.replace("\0", ""),
            scope=origin.scope,
            schema_url=origin.schema_url.replace("\0", ""),
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
        "json" if encoding else "protobuf", bytes(resource), resource_schema_url, bytes(scope), schema_url
    )
