"""Circuit breakers: all calls of a run learn once that an endpoint is down, instead of each by itself.

An endpoint (base URL, credential and model) that never answered is given up after a few tries, one that had
answered after `patience` without one success. Until then its calls try in turn, with growing waits between
them; from then on they fail at once, except for one in every `PROBE_SECONDS` that looks whether it is back.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from datetime import datetime
from enum import Enum, auto
from typing import Final

from dokimos._runtime.time_limits import give_extra_time
from dokimos.errors import EndpointDownError, JudgeUnavailableError

PATIENCE: Final = 120.0
OPENING_TRIES: Final = 4
OPENING_SECONDS: Final = 15.0
"""After so many tries, or so long, an endpoint that never answered is down."""
DENIED_TRIES: Final = 3
"""Refused credentials do not become right by waiting."""
PATIENT_TRIES: Final = 3
"""So often an endpoint is tried at least before `patience` can be over: calls may be far apart."""
PROBE_SECONDS: Final = 30.0
PROBE_SECONDS_OUTSIDE: Final = 5.0
"""Outside a run somebody may be at a prompt, and have just started the server."""
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
LONGEST_START_WAIT: Final = 1.0
"""Between two tries of an endpoint that is still starting."""
LOOK_SECONDS: Final = 0.5
"""How often a call that waits looks whether another one had its answer."""
THROTTLED_TRIES: Final = 2
THROTTLED_SECONDS: Final = 1.0
"""After so many tries and so long, calls that a rate limit refuses take turns, and no longer wait alone."""


class FailureKind(Enum):
    """Why a call had no usable answer."""

    UNREACHABLE = auto()
    """Nothing was sent: no such host, no connection, no TLS."""
    DENIED = auto()
    """401 or 403."""
    RATE_LIMITED = auto()
    """429."""
    SERVER_ERROR = auto()
    """A failure of the server, a cut connection, no answer in time."""


class RetryDecision(Enum):
    """Whether a call that failed is retried, and who decides how often."""

    RETRY = auto()
    """Retry once the breaker admits it, however often it was tried: the breaker decides when to stop."""
    COUNT_ATTEMPTS = auto()
    """Retry with backoff, as often as the call's own attempts allow."""
    GIVE_UP = auto()


class Breaker:
    """The circuit breaker of one endpoint, for all threads and event loops."""

    def __init__(self, label: str, breakers: Breakers) -> None:
        self.label = label
        self.is_failing = False
        """Whether it has failed since its last answer; read without a lock by calls that go well."""
        self.is_open = False
        self.has_answered = False
        self._breakers = breakers
        self._mutex = threading.Lock()
        self._cause = ""
        self._down_since = ""
        self._failure = FailureKind.SERVER_ERROR
        self._first_failure = 0.0
        self._last_try = 0.0
        """When the last try had failed: what was sent before says nothing new."""
        self._next_try = 0.0
        self._tries = 0

    @property
    def is_of_run(self) -> bool:
        return self._breakers.in_run

    @property
    def patience(self) -> float:
        """The longest time that a call of this run waits because the server asks for it."""
        return self._breakers.patience if self.is_of_run else math.inf

    def now(self) -> float:
        """Return the time by the clock of the run."""
        return self._breakers.clock()

    async def sleep(self, seconds: float) -> None:
        await self._breakers.sleep(seconds)

    async def admit(self) -> None:
        """Wait until a call may be sent.

        Raises:
            EndpointDownError: when the endpoint is down, in a run; outside one `JudgeUnavailableError`.
        """
        while self.is_failing and (wait := self.wait_seconds()) > 0:
            seconds = min(wait, LOOK_SECONDS)
            give_extra_time(seconds)
            await self._breakers.sleep(seconds)

    def wait_seconds(self) -> float:
        """Return how long a call has to wait, 0 where it is its turn. Raises as `admit` does."""
        with self._mutex:
            now = self._breakers.clock()
            if self.is_open:
                if now < self._next_try:
                    why = f"the endpoint has been down since {self._down_since} ({self._cause})"
                    raise self._breakers.error(f"{self.label}: not tried: {why}", self)
                # This call is the probe; all others are refused until it has its outcome, or the time of
                # the next has come.
                self._next_try = now + self._breakers.probe_seconds
                return 0.0
            if not self._serializes_calls(now):
                return 0.0
            if now < self._next_try:
                return self._next_try - now
            self._next_try = now + self._pause(None, now)
            return 0.0

    def history(self) -> str:
        """Say since when the endpoint has been down, and why."""
        return f"{self.label} has been down since {self._down_since} ({self._cause})"

    def record_success(self) -> None:
        """Record that a call was answered."""
        if self.has_answered and not self.is_failing:  # the usual case, without the lock
            return
        self.has_answered = True
        self.record_contact()

    def record_contact(self) -> None:
        """Record that the server refused a request for what is in it: it is reachable, and not down."""
        if self.is_failing:
            with self._mutex:
                self.is_failing = self.is_open = False
                self._tries = 0

    def record_failure(
        self, kind: FailureKind, cause: str, *, started: float, retry_after: float | None = None
    ) -> RetryDecision:
        """Record that a call, sent at `started`, failed, and return whether it may be retried.

        `retry_after` is how many seconds the server asks to wait.
        """
        with self._mutex:
            now = self._breakers.clock()
            if not self.is_failing:
                # An endpoint that never answered has been down since the call was sent; another may have
                # failed just now.
                self._start_outage(cause, now if self.has_answered else started, started)
            self._failure = kind
            # A call sent before the last try had failed reports the same outage, not a further try.
            if started >= self._last_try:
                self._tries += 1
                self._last_try = now
                self._next_try = now + self._pause(retry_after, now)
            if self.is_open or self._is_down(now, retry_after):
                self._next_try = max(self._next_try, now + self._breakers.probe_seconds)
                self.is_open = self._breakers.has_opened = True
                return RetryDecision.GIVE_UP
            decides_retries = self.is_of_run and self._serializes_calls(now)
            return RetryDecision.RETRY if decides_retries else RetryDecision.COUNT_ATTEMPTS

    def error(self, message: str) -> JudgeUnavailableError:
        """Return the error of a call that failed for what is wrong with the endpoint, not with itself."""
        return self._breakers.error(message, self)

    def _start_outage(self, cause: str, now: float, started: float) -> None:
        self.is_failing = True
        self._cause = cause
        self._down_since = self._breakers.wall().strftime("%H:%M:%S")
        self._first_failure = now
        self._last_try = started
        self._tries = 0

    def _is_down(self, now: float, wait: float | None) -> bool:
        elapsed = now - self._first_failure
        if not self.has_answered:
            if self._failure is FailureKind.DENIED:
                return self._tries >= DENIED_TRIES
            if self._is_starting(now):
                return False
            if self._failure is FailureKind.UNREACHABLE:
                return self._tries >= OPENING_TRIES or elapsed >= OPENING_SECONDS
        patience = self._breakers.patience
        if wait is not None and wait > patience:
            return self._tries >= THROTTLED_TRIES
        return self._tries >= PATIENT_TRIES and elapsed >= patience

    def _is_starting(self, now: float) -> bool:
        """Whether it is an endpoint whose start is waited for."""
        return not self.has_answered and now - self._first_failure < self._breakers.start_seconds

    def _serializes_calls(self, now: float) -> bool:
        """Whether calls go one by one until the endpoint answers."""
        if self._failure is FailureKind.UNREACHABLE:
            return True
        if self._failure is FailureKind.RATE_LIMITED:
            return self._tries >= THROTTLED_TRIES and now - self._first_failure >= THROTTLED_SECONDS
        return self._failure is FailureKind.SERVER_ERROR and self._is_starting(now)

    def _pause(self, wait: float | None, now: float) -> float:
        longest = LONGEST_START_WAIT if self._is_starting(now) else LONGEST_WAIT
        # Bounded before it is an exponent: after a thousand tries the power would overflow.
        growing = min(FIRST_WAIT * 2.0 ** max(min(self._tries, 20) - 1, 0), longest)
        return growing if wait is None else max(wait, FIRST_WAIT)


class Breakers:
    """The circuit breakers of one run, or of all calls outside runs."""

    def __init__(
        self,
        *,
        patience: float = PATIENCE,
        start_seconds: float = 0.0,
        in_run: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = datetime.now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.patience = patience
        self.start_seconds = start_seconds
        """How long an endpoint that never answered is waited for."""
        self.in_run = in_run
        self.probe_seconds = PROBE_SECONDS if in_run else PROBE_SECONDS_OUTSIDE
        self.clock = clock
        self.wall = wall
        self.sleep = sleep
        self.has_opened = False
        """Whether any endpoint has been found to be down."""
        self._by_key: dict[Hashable, Breaker] = {}

    def of(self, key: Hashable, label: str) -> Breaker:
        """Return the breaker of an endpoint: base URL, model and credential make the key."""
        breaker = self._by_key.get(key)
        # setdefault is atomic: two threads that come first share one breaker.
        return breaker or self._by_key.setdefault(key, Breaker(label, self))

    def open_breakers(self) -> list[Breaker]:
        """Return the breakers of endpoints that are down."""
        return [breaker for breaker in list(self._by_key.values()) if breaker.is_open]

    def error(self, message: str, breaker: Breaker) -> JudgeUnavailableError:
        """Return the error of a call: in a run one that tells the run that its item is not finished."""
        if not self.in_run:
            return JudgeUnavailableError(message)
        return EndpointDownError(message, history=breaker.history() if breaker.is_open else "")


_outside = Breakers(in_run=False)
_of_run: ContextVar[Breakers | None] = ContextVar("dokimos_breakers", default=None)


def current_breakers() -> Breakers:
    """Return the breakers of the run that is calling, or those of all calls outside runs."""
    return _of_run.get() or _outside


def use_breakers(breakers: Breakers | None) -> None:
    """Make the breakers of a run current in this context and in those copied from it; None outside a run."""
    _of_run.set(breakers)


def forget_outages() -> None:
    """Forget what is known of endpoints outside runs, as if the process had just started."""
    _outside._by_key.clear()
