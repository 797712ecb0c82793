"""The spans of a day on PostgreSQL: their partition, and who may add to it; SQLite has neither."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.span_storage import find_storage

_LOCK: Final = 0x646F6B70  # any number that is ours: one server makes partitions at a time

_DAY_LOCK: Final = 0x646F6B72  # likewise: with the number of a day


def partition_name(day: int) -> str:
    """Return the name of the table with the spans of a day."""
    return f"spans_{day}"


def hold_day(connection: Connection, day: int, *, removes: bool) -> None:
    """Let whoever begins traces on a day that is over, and whoever removes its spans at once, wait.

    Neither sees what the other is about to do. Traces that come in begin today, so only an import needs this.

    Args:
        connection: In a transaction, at whose end the other may go on.
        day: The day.
        removes: Whether its spans are to be removed; imports do not wait for each other.
    """
    if connection.dialect.name != "postgresql":
        return  # on SQLite, one transaction writes at a time
    lock = "pg_advisory_xact_lock" if removes else "pg_advisory_xact_lock_shared"
    connection.exec_driver_sql(f"SELECT {lock}({_DAY_LOCK}, {day})")


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
