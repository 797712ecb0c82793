"""Retries of one call: which failures are sent again, how often, and with which backoff between them.

A refusal for a rate limit (429) is retried longer than a failing server (5xx, a cut connection, a timeout):
`ATTEMPTS` and `RATE_LIMITED_ATTEMPTS`. Which status codes are retried at all is decided by
`ErrorReply.is_retryable`, when an endpoint counts as down by its `Breaker`, and how many calls go out at once
by its `Throttle`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Final

from dokimos._http.backoff import backoff
from dokimos._http.breaker import Breaker, FailureKind, RetryDecision
from dokimos.errors import DokimosError, JudgeUnavailableError

ATTEMPTS: Final = 5
RATE_LIMITED_ATTEMPTS: Final = 12
"""A rate limit is not a failure, and is retried more often."""
PATIENCE_SECONDS: Final = 300.0
"""How long a call may be retried in all, beyond the timeout of its last attempt."""


class Retries:
    """The attempts of one call at an endpoint.

    Args:
        breaker: The circuit breaker of the endpoint, which all calls to it share.
        attempts: How often the call may be sent while the endpoint fails.
        timeout: The seconds that one attempt may take.
        error: The type of error to raise when the attempts are used up, unless the endpoint is down.
    """

    __slots__ = (
        "_attempts",
        "_error",
        "_failures",
        "_refusals",
        "_started",
        "_timeout",
        "breaker",
        "sent_at",
    )

    def __init__(
        self,
        breaker: Breaker,
        *,
        attempts: int = ATTEMPTS,
        timeout: float = 0.0,
        error: Callable[[str], DokimosError] = JudgeUnavailableError,
    ) -> None:
        self.breaker = breaker
        self._attempts = attempts
        self._timeout = timeout
        self._error = error
        self._failures = 0
        self._refusals = 0
        self._started = self.sent_at = breaker.now()

    def begin(self) -> None:
        """Record that an attempt is sent now."""
        self.sent_at = self.breaker.now()

    def next_delay(self, kind: FailureKind, problem: str, retry_after: float | None = None) -> float:
        """Record a failure and return the seconds to wait before the next attempt.

        Args:
            kind: What kind of failure it was.
            problem: What happened, for the error.
            retry_after: The seconds that the server asked to wait, None where it did not.

        Raises:
            EndpointDownError: when the endpoint is down, or refused all attempts for its rate limit.
            DokimosError: when the attempts of this call are used up.
        """
        decision = self.breaker.record_failure(kind, problem, started=self.sent_at, retry_after=retry_after)
        is_rate_limited = kind is FailureKind.RATE_LIMITED
        self._refusals += is_rate_limited
        self._failures += not is_rate_limited
        if decision is RetryDecision.GIVE_UP:
            raise self.breaker.error(self._message(f"{problem}{self._format_attempts()}"))
        if decision is RetryDecision.RETRY:
            return 0.0  # the breaker makes the call wait until it is admitted
        count, most = self._failures, self._attempts
        if is_rate_limited:
            count = self._refusals
            most = self._max_rate_limited_attempts()
        # A little more than the server asked for, so that its clients do not all come back at once.
        delay = (
            backoff(count) if retry_after is None else retry_after + random.uniform(0, 0.1 + retry_after / 10)
        )
        stop_reason = self._stop_reason(count, most, delay, retry_after)
        if stop_reason is None:
            return delay
        message = self._message(f"{problem}{stop_reason}")
        # A failing server may fail on this very request; the other kinds are the endpoint's, and resuming
        # tries again.
        raise self._error(message) if kind is FailureKind.SERVER_ERROR else self.breaker.error(message)

    def access_denied(self, problem: str) -> DokimosError:
        """Return the error for a 401 or 403: the endpoint's own as long as it never accepted anything."""
        message = self._message(problem)
        if self.breaker.has_answered:
            return self._error(message)
        self.breaker.record_failure(FailureKind.DENIED, problem, started=self.sent_at)
        return self.breaker.error(message)

    def _stop_reason(self, count: int, most: int, delay: float, retry_after: float | None) -> str | None:
        """Say why there is no further attempt, None where there is one."""
        if count >= most:
            return "" if most == 1 else self._format_attempts()
        waited = self.breaker.now() - self._started
        is_bearable = retry_after is None or retry_after <= self.breaker.patience
        if is_bearable and waited + delay <= PATIENCE_SECONDS + self._timeout:
            return None
        asked = "" if retry_after is None else f"it asks to wait {retry_after:.0f} s, "
        return f" ({asked}given up after {waited:.0f} s)"

    def _max_rate_limited_attempts(self) -> int:
        """A run has patience for all of its calls together, also for those that are sent only once."""
        if self.breaker.is_of_run:
            return sys.maxsize
        return 1 if self._attempts == 1 else RATE_LIMITED_ATTEMPTS

    def _format_attempts(self) -> str:
        times = self._failures + self._refusals
        return f" (tried {times} times)" if times > 1 else ""

    def _message(self, problem: str) -> str:
        return f"{self.breaker.label}: {problem}"
