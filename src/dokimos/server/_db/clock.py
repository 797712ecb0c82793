"""The time, as the tables keep it."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1)  # in UTC, as all times here


def now() -> int:
    """Return microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def format_time(microseconds: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC, such as `2026-11-22T09:30:00.000123Z`."""
    if microseconds is None:
        return None
    return f"{(_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec='microseconds')}Z"
