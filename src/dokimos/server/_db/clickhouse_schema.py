"""The table of spans in ClickHouse, and what brings an older one up to date.

One partition holds the spans of one day, as on PostgreSQL, and is dropped with it. Within it spans are in the
order of their traces, so that a trace is read from one place; two rows of one trace and span are one span,
of which the higher version counts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from dokimos.server._db.clickhouse_parameters import START_COLUMN, Statement
from dokimos.server._db.database import DatabaseUnavailable

if TYPE_CHECKING:
    from dokimos.server._db.clickhouse_client import ClickHouseClient

_LOGGER: Final = logging.getLogger("dokimos.server")
_MIN_VERSION: Final = 25
_SECONDS: Final = 60.0

COLUMN_TYPES: Final = {
    "day": "Int32",
    "trace": "String",
    "span_id": "String",
    "parent_id": "Nullable(String)",
    "name": "String",
    "kind": "LowCardinality(Nullable(String))",
    "status": "LowCardinality(Nullable(String))",
    "role": "LowCardinality(String)",
    "start_ns": "Nullable(Int64)",
    "end_ns": "Nullable(Int64)",
    "tokens_in": "Nullable(Int64)",
    "tokens_out": "Nullable(Int64)",
    "cost_usd": "Nullable(Float64)",
    "first_chunk_ms": "Nullable(Float64)",
    "model": "LowCardinality(Nullable(String))",
    "input_text": "Nullable(String)",
    "output_text": "Nullable(String)",
    "error": "Nullable(String)",
    "project_id": "Nullable(String)",
    "source": "Int64",
    "encoding": "UInt8",
    "body": "String",
    "received_at": "Int64",
    "version": "Int64",
    "search": "String",
    "attribute_hashes": "Array(Int64)",
}
"""The columns of a span: those of the other databases, its version, and what searches look at."""
_LARGE: Final = ("body", "input_text", "output_text", "error", "search")
_MIGRATIONS: Final = (
    (
        "CREATE TABLE IF NOT EXISTS spans ("
        + ", ".join(
            f"{name} {kind}{' CODEC(ZSTD(3))' if name in _LARGE else ''}"
            for name, kind in COLUMN_TYPES.items()
        )
        + f", {START_COLUMN} Int64 MATERIALIZED coalesce(start_ns, toInt64(9223372036854775807))"
        + ", INDEX ix_search search TYPE ngrambf_v1(4, 65536, 3, 0) GRANULARITY 1"
        + ", INDEX ix_attributes attribute_hashes TYPE bloom_filter(0.01) GRANULARITY 1"
        + ") ENGINE = ReplacingMergeTree(version) PARTITION BY day ORDER BY (trace, span_id)"
        # Rows with bodies are large: fewer of them are read for one trace.
        + " SETTINGS index_granularity = 1024, index_granularity_bytes = 1048576"
        # What was acknowledged survives a power cut.
        + ", fsync_after_insert = 1, fsync_part_directory = 1",
    ),
)
"""Each a tuple of statements that may be run again; a released one is never changed."""
CLICKHOUSE_HEAD: Final = len(_MIGRATIONS)
_VERSIONS: Final = (
    "CREATE TABLE IF NOT EXISTS dokimos_schema (version UInt32) ENGINE = MergeTree ORDER BY version"
)
_NEWEST: Final = "SELECT max(version) FROM dokimos_schema"


async def prepare_schema(client: ClickHouseClient) -> None:
    """Create the tables, or bring them up to date.

    Raises:
        DatabaseUnavailable: ClickHouse does not answer, is too old, or does not allow it.
    """
    version = (await client.read(Statement("SELECT version()"), seconds=_SECONDS))[0][0].decode()
    if int(version.partition(".")[0]) < _MIN_VERSION:
        raise DatabaseUnavailable(
            f"{client.address} is {version}, which is too old; the server needs {_MIN_VERSION} or newer."
        )
    await client.execute(Statement(_VERSIONS), seconds=_SECONDS)
    present = int((await client.read(Statement(_NEWEST), seconds=_SECONDS))[0][0])
    if present > CLICKHOUSE_HEAD:
        _LOGGER.warning(
            "A newer server has migrated %s, to %d; this one knows %d.",
            client.address,
            present,
            CLICKHOUSE_HEAD,
        )
    for number in range(present, CLICKHOUSE_HEAD):
        for text in _MIGRATIONS[number]:
            await client.execute(Statement(text), seconds=_SECONDS)
        insert = f"INSERT INTO dokimos_schema SELECT {number + 1}"
        await client.execute(Statement(insert), seconds=_SECONDS)
