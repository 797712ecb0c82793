"""Circuit breakers, by a clock that the tests set."""

import asyncio
from datetime import datetime

import pytest

from dokimos._http.breaker import Breakers, FailureKind, RetryDecision
from dokimos.errors import EndpointDownError, JudgeUnavailableError

LABEL = "openai tiny"


class Clock:
    """Time passes only where somebody sleeps, for all sleepers at once."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        end = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, end)


def breakers_with(clock, **settings):
    wall = lambda: datetime(2026, 11, 22, 12, 30, 5)  # noqa: E731
    return Breakers(clock=clock, sleep=clock.sleep, wall=wall, **settings)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return breakers_with(clock).of("key", LABEL)


async def call(breaker, kind, cause="cannot connect", *, seconds=0.0, wait=None):
    """Make a call that fails, and return what it is to do."""
    await breaker.admit()
    started = breaker.now()
    await breaker.sleep(seconds)
    step = breaker.record_failure(kind, cause, started=started, retry_after=wait)
    if step is RetryDecision.COUNT_ATTEMPTS:
        await breaker.sleep(
            0.5 if kind in (FailureKind.RATE_LIMITED, FailureKind.SERVER_ERROR) else 0
        )  # as a call does
    return step


async def calls_until_down(breaker, kind, **details):
    """Make calls that fail until the endpoint is down; return how many were sent."""
    sent = 1
    while await call(breaker, kind, **details) is not RetryDecision.GIVE_UP:
        sent += 1
        assert sent < 1000
    return sent


async def test_an_endpoint_that_was_never_there_is_down_after_four_tries(breaker, clock):
    assert await calls_until_down(breaker, FailureKind.UNREACHABLE) == 4
    assert clock.now - 1000 == pytest.approx(3.5)


async def test_one_that_takes_long_to_fail_is_down_after_fifteen_seconds(breaker, clock):
    assert await calls_until_down(breaker, FailureKind.UNREACHABLE, seconds=15) == 1


async def test_refused_credentials_are_enough_after_three_tries_and_no_wait(breaker, clock):
    assert await calls_until_down(breaker, FailureKind.DENIED) == 3
    assert clock.now == 1000


async def test_calls_that_were_sent_together_are_one_try(breaker, clock):
    clock.now += 0.1
    for _ in range(50):
        assert (
            breaker.record_failure(FailureKind.DENIED, "401", started=1000.0) is RetryDecision.COUNT_ATTEMPTS
        )


async def test_what_is_down_is_not_tried_and_says_why(breaker):
    await calls_until_down(breaker, FailureKind.UNREACHABLE)

    with pytest.raises(EndpointDownError) as failure:
        await breaker.admit()
    assert str(failure.value) == (
        "openai tiny: not tried: the endpoint has been down since 12:30:05 (cannot connect)"
    )
    assert failure.value.history == "openai tiny has been down since 12:30:05 (cannot connect)"


async def test_the_first_cause_is_named(breaker):
    await call(breaker, FailureKind.UNREACHABLE, "no such host")
    await calls_until_down(breaker, FailureKind.UNREACHABLE, cause="something else")

    assert "no such host" in breaker.history()


async def test_one_call_in_thirty_seconds_looks_whether_it_is_back(breaker, clock):
    await calls_until_down(breaker, FailureKind.UNREACHABLE)
    clock.now += 29.9
    with pytest.raises(EndpointDownError):
        await breaker.admit()

    clock.now += 0.2
    await breaker.admit()  # the one
    with pytest.raises(EndpointDownError):
        await breaker.admit()

    breaker.record_success()
    await breaker.admit()
    assert not breaker.is_open


async def test_a_look_that_fails_keeps_it_down(breaker, clock):
    await calls_until_down(breaker, FailureKind.UNREACHABLE)
    clock.now += 31
    assert await call(breaker, FailureKind.UNREACHABLE) is RetryDecision.GIVE_UP

    clock.now += 29
    with pytest.raises(EndpointDownError):
        await breaker.admit()


@pytest.mark.parametrize(
    "kind", [FailureKind.UNREACHABLE, FailureKind.SERVER_ERROR, FailureKind.RATE_LIMITED]
)
async def test_one_that_had_answered_is_down_after_patience(breaker, clock, kind):
    breaker.record_success()

    await calls_until_down(breaker, kind, seconds=0.1)

    assert 120 <= clock.now - 1000 < 160


async def test_patience_can_be_set(clock):
    breaker = breakers_with(clock, patience=20).of("key", LABEL)
    breaker.record_success()

    await calls_until_down(breaker, FailureKind.RATE_LIMITED)

    assert 20 <= clock.now - 1000 < 40


async def test_a_success_begins_anew(breaker, clock):
    for _ in range(100):
        await call(breaker, FailureKind.SERVER_ERROR, seconds=10)
        breaker.record_success()

    assert not breaker.is_failing
    assert await call(breaker, FailureKind.SERVER_ERROR) is RetryDecision.COUNT_ATTEMPTS


async def test_one_failure_is_not_enough_however_long_it_took(breaker, clock):
    breaker.record_success()

    assert await call(breaker, FailureKind.SERVER_ERROR, seconds=300) is RetryDecision.COUNT_ATTEMPTS


async def test_calls_take_turns_while_it_is_not_there(clock):
    breaker = breakers_with(clock).of("key", LABEL)
    sent = []

    async def tries():
        while True:
            await breaker.admit()
            started = breaker.now()
            sent.append(started)
            if (
                breaker.record_failure(FailureKind.UNREACHABLE, "refused", started=started)
                is RetryDecision.GIVE_UP
            ):
                raise breaker.error("refused")

    async def one():
        with pytest.raises(EndpointDownError):
            await tries()

    await asyncio.gather(*(one() for _ in range(40)))

    assert len(sent) < 40 + 10  # each of them once at the start, then one by one
    assert clock.now - 1000 < 6


async def test_a_rate_limit_that_lets_nothing_through_is_waited_for_in_turn(breaker, clock):
    sent = await calls_until_down(breaker, FailureKind.RATE_LIMITED)

    assert sent < 40
    assert 120 <= clock.now - 1000 < 160


async def test_a_wait_beyond_patience_is_not_waited_for(breaker, clock):
    assert await calls_until_down(breaker, FailureKind.RATE_LIMITED, wait=86_400) == 2
    assert clock.now - 1000 < 5


async def test_a_refusal_of_the_request_itself_shows_that_it_is_there(breaker):
    await call(breaker, FailureKind.UNREACHABLE)
    breaker.record_contact()

    assert not breaker.is_failing


async def test_an_endpoint_that_is_starting_is_waited_for(clock):
    breaker = breakers_with(clock, start_seconds=60).of("key", LABEL)
    while clock.now < 1040:
        assert await call(breaker, FailureKind.UNREACHABLE) is RetryDecision.RETRY
    assert await call(breaker, FailureKind.SERVER_ERROR, "503 Service Unavailable") is RetryDecision.RETRY

    breaker.record_success()
    assert not breaker.is_failing


async def test_one_that_does_not_start_in_time_is_down(clock):
    breaker = breakers_with(clock, start_seconds=60).of("key", LABEL)

    sent = await calls_until_down(breaker, FailureKind.UNREACHABLE)

    assert 60 <= clock.now - 1000 < 63
    assert sent > 50  # it is looked for once a second, so that no time is lost


async def test_endpoints_are_told_apart(clock):
    breakers = breakers_with(clock)
    await calls_until_down(breakers.of("one", "a"), FailureKind.UNREACHABLE)

    await breakers.of("two", "b").admit()
    assert [breaker.label for breaker in breakers.open_breakers()] == ["a"]


async def test_outside_a_run_it_is_a_judge_that_is_not_available(clock):
    breaker = breakers_with(clock, in_run=False).of("key", LABEL)
    await calls_until_down(breaker, FailureKind.UNREACHABLE)

    with pytest.raises(JudgeUnavailableError) as failure:
        await breaker.admit()
    assert not isinstance(failure.value, EndpointDownError)

    clock.now += 5.1
    await breaker.admit()


def test_an_error_is_found_behind_others():
    down = EndpointDownError("down")
    mine, around = ValueError("mine"), KeyError("around")
    mine.__cause__, around.__context__ = down, mine

    assert EndpointDownError.find_in_chain(around) is down
    assert EndpointDownError.find_in_chain(ValueError("other")) is None
