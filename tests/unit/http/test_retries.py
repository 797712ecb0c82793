"""How a call goes on after its failures, by a clock that the tests set."""

import pytest

from dokimos._http.backoff import backoff
from dokimos._http.breaker import Breakers, FailureKind
from dokimos._http.retries import Retries
from dokimos.errors import AgentError, EndpointDownError, JudgeUnavailableError


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def retries_of(clock, *, in_run=True, answered=True, **settings):
    breaker = Breakers(clock=clock, in_run=in_run).of("key", "openai tiny")
    if answered:
        breaker.record_success()
    return Retries(breaker, **settings)


def fail(retries, kind, times=1, *, clock, wait=None, apart=0.01):
    """Let a call fail so often; return how long it was told to wait each time."""
    waits = []
    for _ in range(times):
        retries.begin()
        clock.now += apart
        waits.append(retries.next_delay(kind, "no luck", wait))
    return waits


def test_waits_double_and_are_half_random():
    assert 0.25 <= backoff(1) <= 0.5
    assert 4 <= backoff(5) <= 8
    assert 15 <= backoff(50) <= 30


def test_a_failing_server_is_tried_as_often_as_allowed(clock):
    retries = retries_of(clock, attempts=3)
    fail(retries, FailureKind.SERVER_ERROR, 2, clock=clock)

    with pytest.raises(JudgeUnavailableError, match=r"openai tiny: no luck \(tried 3 times\)") as failure:
        fail(retries, FailureKind.SERVER_ERROR, clock=clock)
    assert not isinstance(failure.value, EndpointDownError)


def test_the_error_of_a_failing_server_is_the_callers(clock):
    retries = retries_of(clock, attempts=1, error=AgentError)

    with pytest.raises(AgentError, match=r"openai tiny: no luck$"):
        fail(retries, FailureKind.SERVER_ERROR, clock=clock)


def test_what_no_server_took_does_not_use_up_attempts_in_a_run(clock):
    retries = retries_of(clock, attempts=1)

    assert fail(retries, FailureKind.UNREACHABLE, 5, clock=clock) == [0.0] * 5


def test_a_rate_limit_does_not_use_up_attempts_in_a_run(clock):
    retries = retries_of(clock, attempts=1)

    assert len(fail(retries, FailureKind.RATE_LIMITED, 30, clock=clock, apart=1)) == 30


def test_outside_a_run_both_do(clock):
    with pytest.raises(JudgeUnavailableError):
        fail(retries_of(clock, attempts=1, in_run=False), FailureKind.UNREACHABLE, clock=clock)
    with pytest.raises(JudgeUnavailableError):
        fail(retries_of(clock, attempts=1, in_run=False), FailureKind.RATE_LIMITED, clock=clock)
    with pytest.raises(JudgeUnavailableError, match="tried 12 times"):
        fail(retries_of(clock, in_run=False), FailureKind.RATE_LIMITED, 12, clock=clock)


def test_what_the_server_asks_for_is_waited_for(clock):
    (wait,) = fail(retries_of(clock), FailureKind.RATE_LIMITED, clock=clock, wait=20)

    assert 20 <= wait <= 22.1


def test_more_than_a_run_has_patience_for_is_not(clock):
    retries = retries_of(clock)

    with pytest.raises(EndpointDownError, match=r"no luck \(it asks to wait 400 s, given up after 0 s\)"):
        fail(retries, FailureKind.RATE_LIMITED, clock=clock, wait=400)


def test_refused_credentials_are_the_endpoints_fault_until_it_has_answered(clock):
    new, known = retries_of(clock, answered=False), retries_of(clock)

    assert isinstance(new.access_denied("401"), EndpointDownError)
    assert type(known.access_denied("401")) is JudgeUnavailableError
    assert str(known.access_denied("401")) == "openai tiny: 401"
