"""The partition of the spans of a day on PostgreSQL; SQLite has none."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.span_storage import find_storage

_LOCK: Final = 0x646F6B70  # any number that is ours: one server makes partitions at a time


def partition_name(day: int) -> str:
    """Return the name of the table with the spans of a day."""
    return f"spans_{day}"


def prepare_day(connection: Connection, day: int, known_days: set[int]) -> None:
    """Make the partition of a day, unless it is known to be there."""
    if connection.dialect.name != "postgresql" or day in known_days:
        return
    if find_storage(connection) is not None:
        return
    if connection.exec_driver_sql(f"SELECT to_regclass('{partition_name(day)}')").scalar() is not None:
        return
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    connection.exec_driver_sql(
        f"CREATE TABLE IF NOT EXISTS {partition_name(day)} PARTITION OF spans"
        f" FOR VALUES FROM ({day}) TO ({day + 1})"
    )
