"""How a call goes on after each of its failures."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Final

from dokimos.errors import DokimosError, JudgeUnavailableError
from dokimos.http.breaker import Breaker, NextStep, Trouble

ATTEMPTS: Final = 5
RATE_LIMITED_ATTEMPTS: Final = 12
"""A rate limit is no failure, and is waited for longer."""
PATIENCE_SECONDS: Final = 300.0
"""Until when a request that was not answered may be sent again, after its own timeout."""
FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 30.0


def backoff(count: int) -> float:
    """Return the seconds to wait after the `count`-th failure: doubled each time, and half of it random."""
    longest = min(FIRST_BACKOFF * 2 ** (count - 1), LONGEST_BACKOFF)
    return random.uniform(longest / 2, longest)


class Retries:
    """The attempts of one call at an endpoint.

    Args:
        breaker: What is known of the endpoint.
        attempts: How often the call may be sent where the endpoint fails.
        timeout: The seconds that one attempt may take.
        error: Makes the error for a failure that is the call's own, such as one of the server.
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
        """Say that an attempt is sent now."""
        self.sent_at = self.breaker.now()

    def failed(self, trouble: Trouble, problem: str, wait: float | None = None) -> float:
        """Return the seconds to wait before the next attempt.

        Raises:
            EndpointDownError: when the endpoint is given up, or did not take the call in all attempts.
            DokimosError: when the attempts of the call are used up.
        """
        step = self.breaker.failed(trouble, problem, started=self.sent_at, wait=wait)
        limited = trouble is Trouble.LIMITED
        self._refusals += limited
        self._failures += not limited
        if step is NextStep.GIVE_UP:
            raise self.breaker.error(self._message(f"{problem}{self._tried()}"))
        if step is NextStep.TRY_AGAIN:
            return 0.0
        count, most = self._failures, self._attempts
        if limited:
            count = self._refusals
            most = self._most_refusals()
        delay = backoff(count) if wait is None else wait + random.uniform(0, 0.1 + wait / 10)
        why = self._why_enough(count, most, delay, wait)
        if why is None:
            return delay
        message = self._message(f"{problem}{why}")
        raise self._error(message) if trouble is Trouble.FAILING else self.breaker.error(message)

    def denied(self, problem: str) -> DokimosError:
        """Return the error for a 401 or 403: the endpoint's own as long as it never accepted anything."""
        message = self._message(problem)
        if self.breaker.has_answered:
            return self._error(message)
        self.breaker.failed(Trouble.DENIED, problem, started=self.sent_at)
        return self.breaker.error(message)

    def _why_enough(self, count: int, most: int, delay: float, wait: float | None) -> str | None:
        if count >= most:
            return "" if most == 1 else self._tried()
        waited = self.breaker.now() - self._started
        bearable = wait is None or wait <= self.breaker.patience
        if bearable and waited + delay <= PATIENCE_SECONDS + self._timeout:
            return None
        asked = "" if wait is None else f"it asks to wait {wait:.0f} s, "
        return f" ({asked}given up after {waited:.0f} s)"

    def _most_refusals(self) -> int:
        """A run has patience for all of its calls together, also for those that are sent only once."""
        if self.breaker.is_of_run:
            return sys.maxsize
        return 1 if self._attempts == 1 else RATE_LIMITED_ATTEMPTS

    def _tried(self) -> str:
        times = self._failures + self._refusals
        return f" (tried {times} times)" if times > 1 else ""

    def _message(self, problem: str) -> str:
        return f"{self.breaker.label}: {problem}"
