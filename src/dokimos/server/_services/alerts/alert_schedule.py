"""The backoff of alerts: when one is retried, and when it is given up."""

from __future__ import annotations

from typing import Final

WAITS: Final = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 21_600, 28_800)
"""Seconds after each failed attempt: 21.7 hours in all."""
JITTER: Final = 0.1
"""By how much of it a wait may be shorter or longer, so that not all alerts come back at one moment."""
MAX_WAIT: Final = 24 * 3600.0
"""What a receiver may ask for with `Retry-After` at most."""


def next_wait(failures: int, retry_after: float | None, chance: float) -> float | None:
    """Return the seconds until the next attempt, None where there is none any more.

    Alerts are given up by the number of attempts and not by their age: a clock that is set forward by a year
    costs none of them a single attempt.

    Args:
        failures: Attempts that have failed, 1 or more.
        retry_after: What the receiver asks for, in seconds.
        chance: A random number from 0 to 1.
    """
    if failures > len(WAITS):
        return None
    wait = WAITS[failures - 1] * (1 + JITTER * (2 * chance - 1))
    return min(max(wait, retry_after or 0.0), MAX_WAIT)
