"""Throttle of one endpoint: adaptive concurrency (AIMD), and a pace after rate limits.

Calls go out no more at once, and no faster, than the endpoint can take.

Concurrency grows by one for every reply until the first refusal (slow start), then by one for every round of
replies, and halves when the endpoint refuses: additive increase, multiplicative decrease. A rate limit (429)
also sets a pace, drawn from what was accepted of late, that creeps up again. What was sent before a refusal
says nothing new: each round of refusals counts once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

START_CONCURRENCY: Final = 16.0
MAX_CONCURRENCY: Final = 64
WINDOW_SECONDS: Final = 10
LEAST_RATE: Final = 1.0
HIGHEST_RATE: Final = 10_000.0
MARGIN: Final = 0.95
"""How much of what was accepted the pace starts with."""
CATCH_UP_SECONDS: Final = 0.1
"""How far calls may lag behind the pace and still make up for it."""
BUCKET_SECONDS: Final = 1.0
"""How many seconds' worth of a requests or tokens ceiling may go at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Ceilings that a user sets for an endpoint; where several apply, the lowest counts."""

    max_concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


class Throttle:
    """How many calls to one endpoint may be in flight, for all who call it from one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = START_CONCURRENCY
        self.ceiling = MAX_CONCURRENCY
        self.in_flight = 0
        self.round = 0
        """Counts refusals: a call carries the number of the round in which it was sent."""
        self.pace = Pace(clock)
        self._limits: Limits | None = None
        self._known_limits: set[Limits] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_slow_start = True

    def apply_limits(self, limits: Limits) -> None:
        """Apply a user's ceilings, beside those applied before."""
        if limits is self._limits:
            return
        self._limits = limits
        if limits in self._known_limits:
            return
        self._known_limits.add(limits)
        ceilings = [each.max_concurrency for each in self._known_limits if each.max_concurrency is not None]
        self.ceiling = min(ceilings, default=MAX_CONCURRENCY)
        self.limit = min(self.limit, float(self.ceiling))
        self.pace.apply_limits(limits)

    async def acquire(self, tokens: int) -> int:
        """Wait until a call of about so many tokens may be sent, and return the number of its round."""
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
        else:
            await self._wait_for_slot()
        if self.pace.active:
            try:
                await self.pace.wait_for_turn(tokens)
            except BaseException:
                self.release()
                raise
        return self.round

    def release(self) -> None:
        """Give the slot of a call back, however the call ended."""
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.limit:
            future = self._waiting.popleft()
            if not future.done():
                self.in_flight += 1
                future.set_result(None)

    def on_success(self, round_sent: int) -> None:
        """Raise the concurrency after a reply; call it before `release`."""
        # A limit that is not in use says nothing about what the endpoint can take, so it does not grow.
        if self.in_flight >= self.limit - 1:
            # Slow start, then additive increase: one more call at once per round of replies (AIMD).
            step = 1.0 if self._is_slow_start else 1.0 / self.limit
            self.limit = min(self.limit + step, float(self.ceiling))
        self.pace.on_success(late=round_sent < self.round)

    def on_overload(self, round_sent: int, *, retry_after: float | None, rate_limited: bool) -> None:
        """Halve the concurrency after a 429, 503, 529 or timeout; a rate limit (429) also slows the pace."""
        # All calls of one round meet the same overload: only the first of their refusals counts.
        if round_sent < self.round:
            return
        self.round += 1
        self._is_slow_start = False
        # Multiplicative decrease, from what was really in flight (D.-M. Chiu, R. Jain, 1989).
        self.limit = max(1.0, min(self.limit, self.in_flight) / 2)
        self.pace.on_overload(retry_after, rate_limited=rate_limited)

    async def _wait_for_slot(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()  # the slot had been handed to us already, and others wait for it
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(future)
            raise


class Pace:
    """When the next call may start: a token bucket per ceiling, and a rate learned from refusals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.active = False
        self.rate: float | None = None
        """Calls a second, None where none was refused."""
        self._clock = clock
        self._next = 0.0
        self._resume = 0.0
        self._refused_at = 0.0
        self._warned_until = 0.0
        self._grown_at = 0.0
        self._accepted: deque[_Second] = deque(maxlen=WINDOW_SECONDS)
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._lock = asyncio.Lock()

    def apply_limits(self, limits: Limits) -> None:
        now = self._clock()
        self._requests = _lower_ceiling(self._requests, limits.requests_per_minute, now)
        self._tokens = _lower_ceiling(self._tokens, limits.tokens_per_minute, now)
        self.active = self.active or self._requests is not None or self._tokens is not None

    async def wait_for_turn(self, tokens: int) -> None:
        """Wait for the turn of a call, and take it."""
        # The lock keeps the order of arrival, and only one call at a time reads the clock and sleeps.
        async with self._lock:
            while (delay := self._delay(tokens)) > 0:
                await asyncio.sleep(delay)
            self._take(tokens)

    def pause(self, seconds: float) -> None:
        """Let no call start for some time."""
        self._resume = max(self._resume, self._clock() + seconds)
        self.active = True

    def correct_estimate(self, tokens: int, estimate: int) -> None:
        """Correct the estimate of a call's tokens once they are known."""
        if self._tokens is not None:
            self._tokens.level -= tokens - estimate

    def on_success(self, *, late: bool) -> None:
        """Count a reply; `late` says that its call was sent before the last refusal, and accepted."""
        now = self._clock()
        second = int(now)
        if self._accepted and self._accepted[-1].number == second:
            self._accepted[-1].count += 1
        else:
            self._accepted.append(_Second(second, now))
        if self.rate is not None:
            self.rate = self._grow_rate(now, self.rate)
            if late:
                self.rate = max(self.rate, self._recent_rate(now) * MARGIN)

    def on_overload(self, wait: float | None, *, rate_limited: bool) -> None:
        """Slow down; a second refusal while the wait of the first one lasts stops everyone until its end."""
        now = self._clock()
        if rate_limited:
            self._slow_down(now)
        if wait is None:
            return
        if now < self._warned_until:
            # One refused call waits alone; where a second one is refused meanwhile, all have to wait.
            self.pause(wait)
        self._warned_until = max(self._warned_until, now + wait)

    def _slow_down(self, now: float) -> None:
        accepted = self._recent_rate(now)
        if not accepted and self.rate is None:
            return  # nothing to draw a pace from: each call waits by itself
        if self.rate is None:
            rate = accepted * MARGIN
        else:
            # Never faster than before, and a tenth slower at most: little may have been accepted only
            # because little was sent.
            rate = min(self.rate * 0.97, max(self.rate * 0.9, accepted * 0.97))
        self.rate = max(rate, LEAST_RATE)
        self._refused_at = self._grown_at = now
        self._next = max(self._next, now + 1 / self.rate)
        self.active = True

    def _recent_rate(self, now: float) -> float:
        """Calls a second that went well, over the last ten seconds at most and one at least."""
        recent = [each for each in self._accepted if each.first >= now - WINDOW_SECONDS]
        if not recent:
            return 0.0
        return sum(each.count for each in recent) / max(now - recent[0].first, 1.0)

    def _grow_rate(self, now: float, rate: float) -> float:
        """Creep up by 1 % a second at first and ever faster, so that a passing shortage is soon forgotten."""
        # Convex like the growth of CUBIC (RFC 9438): careful near the last refusal, bold far from it.
        since = (now - self._refused_at) / 4
        growth = min(0.01 * (1 + since * since) * (now - self._grown_at), 0.5)
        self._grown_at = now
        return min(rate * (1 + growth), HIGHEST_RATE)

    def _delay(self, tokens: int) -> float:
        now = self._clock()
        delays = [self._resume - now, self._next - now if self.rate is not None else 0.0]
        if self._requests is not None:
            delays.append(self._requests.delay(1, now))
        if self._tokens is not None:
            delays.append(self._tokens.delay(tokens, now))
        return max(delays)

    def _take(self, tokens: int) -> None:
        now = self._clock()
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(tokens)
        if self.rate is not None:
            # Not simply `now + 1 / rate`: event loops wake up late, and the lag of each call would add up.
            self._next = max(now - CATCH_UP_SECONDS, self._next) + 1 / self.rate
        elif self._requests is None and self._tokens is None and self._resume <= now:
            self.active = False


@dataclass(slots=True)
class _Second:
    """How many calls went well in one second of the clock, and when the first of them did."""

    number: int
    first: float
    count: int = 1


class Bucket:
    """A ceiling per minute: fills up steadily and holds one second's worth."""

    __slots__ = ("_stamp", "capacity", "level", "per_minute")

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_minute = per_minute
        self.capacity = max(1.0, per_minute / 60 * BUCKET_SECONDS)
        self.level = self.capacity
        self._stamp = now

    def delay(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` is there; one larger than the bucket needs a full one."""
        per_second = self.per_minute / 60
        self.level = min(self.capacity, self.level + (now - self._stamp) * per_second)
        self._stamp = now
        return (min(amount, self.capacity) - self.level) / per_second

    def take(self, amount: float) -> None:
        self.level -= amount


def _lower_ceiling(bucket: Bucket | None, per_minute: float | None, now: float) -> Bucket | None:
    if per_minute is None or (bucket is not None and bucket.per_minute <= per_minute):
        return bucket
    return Bucket(per_minute, now)
