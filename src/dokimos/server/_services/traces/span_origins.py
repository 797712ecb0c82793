"""The identity of what the spans of one instrumentation share."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

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
