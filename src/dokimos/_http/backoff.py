"""How long to wait before a retry: exponential backoff, `Retry-After` and the rate-limit headers."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 30.0

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_ANTHROPIC: Final = "anthropic-ratelimit-"
_OPENAI: Final = "x-ratelimit-"

_COUNTERS: Final = (
    *(
        tuple(f"{_OPENAI}{part}-{kind}" for part in ("remaining", "reset", "limit"))
        for kind in ("requests", "tokens")
    ),
    *(
        tuple(f"{_ANTHROPIC}{kind}-{part}" for part in ("remaining", "reset", "limit"))
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
)
"""The headers (remaining, reset, limit) of each kind of limit."""


def backoff(failures: int) -> float:
    """Return the seconds to wait after so many failures: doubled each time, half of it jitter."""
    # Half fixed, half random: it always waits a while, and clients that failed together part.
    longest = min(FIRST_BACKOFF * 2 ** (failures - 1), LONGEST_BACKOFF)
    return random.uniform(longest / 2, longest)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a refusal asks to wait: `Retry-After` in (milli)seconds or as a date."""
    text = headers.get("retry-after-ms")
    if text is not None and (milliseconds := _parse_number(text)) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _parse_number(text)
    return seconds if seconds is not None else _seconds_until(text)


def rate_limit_pause(headers: Mapping[str, str], in_flight: int) -> float | None:
    """Return the seconds to wait where a server says that nothing is left of a limit, None where it does not.

    A limit fills up again steadily; its reset is when it is full. What is waited for is the share of it that
    the calls in flight need.
    """
    longest = None
    for remaining, reset, limit in _COUNTERS:
        if headers.get(remaining) != "0":
            continue
        full = parse_duration(headers.get(reset, ""))
        if full is not None:
            whole = _parse_number(headers.get(limit, "")) or 1.0
            # What the next calls will take of a limit on tokens is not known; a tenth of it is let fill up.
            share = min(1.0, max(in_flight, 1) / whole) if "requests" in remaining else 0.1
            longest = max(longest or 0.0, full * share)
    return longest


def parse_duration(text: str) -> float | None:
    """Return the seconds that `6m0s`, `120ms`, `1.5`, or a date from now on stand for."""
    number = _parse_number(text)
    if number is not None:
        return number
    parts = _PART.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return sum(float(value) * _SECONDS[unit] for value, unit in parts)
    return _seconds_until(text)


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _seconds_until(text: str) -> float | None:
    when = _parse_date(text.strip())
    return None if when is None else max(0.0, (when - datetime.now(UTC)).total_seconds())


def _parse_date(text: str) -> datetime | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = read(text)
        except (ValueError, TypeError):
            continue
        return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return None
