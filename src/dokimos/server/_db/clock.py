"""The time, as the tables keep it.

Servers on one PostgreSQL follow its clock: a replica whose own clock is off, or is set, orders runs and
measures ages as the others do. On SQLite, the clock of the machine counts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

SECOND: Final = 1_000_000
"""In microseconds, as all times of the tables."""
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_EPOCH: Final = datetime(1970, 1, 1)  # in UTC, as all times here


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the clock of the database showed; all times are in microseconds."""

    shown: int
    steady: int
    """The clock of this process when it did, which nobody sets."""
    error: int
    """By how much that may be wrong: reading took twice as long."""

    def at(self, steady: int) -> int:
        """Return what the clock of the database shows at another moment."""
        return self.shown + steady - self.steady


_reading: _Reading | None = None


def now() -> int:
    """Return microseconds since 1970, UTC."""
    return time.time_ns() // 1000 if _reading is None else _reading.at(_steady())


def follow_machine() -> None:
    """Let the clock of this machine count, as at first."""
    global _reading
    _reading = None


def offset() -> float:
    """Return by how many seconds the clock that counts is ahead of that of this machine."""
    return now() / 1e6 - time.time_ns() / 1e9


async def follow(read: Callable[[], Awaitable[int]]) -> None:
    """Let another clock count, from now on; called again and again, since clocks drift apart.

    Args:
        read: Returns what that clock shows, in microseconds since 1970.
    """
    global _reading
    before = _steady()
    shown = await read()
    after = _steady()
    reading = _Reading(shown, (before + after) // 2, (after - before) // 2)
    # A difference within the error of the reading does not count: the time must not tremble.
    if _reading is None or abs(_reading.at(reading.steady) - shown) > reading.error:
        _reading = reading


def parse_time(text: str) -> int:
    """Return an ISO 8601 time with an offset in microseconds since 1970.

    Raises:
        ValueError: It is not one, or has no offset.
        OverflowError: In UTC it is before the year 1, or after the year 9999.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without an offset")
    return to_microseconds(moment.astimezone(UTC))


def to_microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970; one without an offset is in UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)


def format_time(microseconds: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC, such as `2026-11-22T09:30:00.000123Z`."""
    if microseconds is None:
        return None
    text = (_EPOCH + timedelta(0, 0, microseconds)).isoformat()
    # With `timespec`, which would write the zeros too, it takes twice as long; a list has thousands of times.
    return f"{text}Z" if microseconds % SECOND else f"{text}.000000Z"


def _steady() -> int:
    # On Linux, the time in which the machine slept counts too.
    nanoseconds = time.clock_gettime_ns(_BOOT_CLOCK) if _BOOT_CLOCK is not None else time.monotonic_ns()
    return nanoseconds // 1000


_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
