"""The time, as the tables keep it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> int:
    """Return microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def format_time(microseconds: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC, such as `2026-11-22T09:30:00.000123Z`."""
    if microseconds is None:
        return None
    return (_EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
