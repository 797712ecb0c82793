import asyncio

import pytest

from dokimos._http.throttle import Limits, Pace, Throttle


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


async def acquire(throttle, count):
    return [await throttle.acquire(0) for _ in range(count)]


async def rounds_of(throttle, replies):
    for _ in range(replies):
        sent = await throttle.acquire(0)
        throttle.on_success(sent)
        throttle.release()


async def fill(throttle):
    """Send as many as it lets through, and have them all answered."""
    rounds = await acquire(throttle, int(throttle.limit))
    for sent in rounds:
        throttle.on_success(sent)
    for _ in rounds:
        throttle.release()


async def test_concurrency_grows_with_replies_up_to_its_ceiling():
    throttle = Throttle()
    for _ in range(100):
        await fill(throttle)

    assert throttle.limit == 64
    assert throttle.in_flight == 0


async def test_concurrency_does_not_grow_where_it_is_not_used():
    throttle = Throttle()

    await rounds_of(throttle, 200)

    assert throttle.limit == 16


async def test_a_round_of_refusals_halves_concurrency_once():
    throttle = Throttle()
    rounds = await acquire(throttle, 16)

    for sent in rounds:
        throttle.on_overload(sent, retry_after=None, rate_limited=False)

    assert throttle.limit == 8


async def test_refusals_of_later_calls_halve_it_again():
    throttle = Throttle()
    await acquire(throttle, 8)
    throttle.on_overload(0, retry_after=None, rate_limited=False)
    throttle.on_overload(1, retry_after=None, rate_limited=False)

    assert throttle.limit == 2


async def test_it_never_falls_below_one():
    throttle = Throttle()
    await acquire(throttle, 1)
    for sent in range(10):
        throttle.on_overload(sent, retry_after=None, rate_limited=False)

    assert throttle.limit == 1


async def test_after_a_refusal_it_grows_by_one_for_each_round_of_replies():
    throttle = Throttle()
    await acquire(throttle, 16)
    throttle.on_overload(0, retry_after=None, rate_limited=False)
    for _ in range(16):
        throttle.release()

    await fill(throttle)

    assert throttle.limit == pytest.approx(9, abs=0.1)


async def test_who_waits_comes_in_their_turn():
    throttle = Throttle()
    throttle.apply_limits(Limits(max_concurrency=1))
    order = []

    async def call(name):
        await throttle.acquire(0)
        order.append(name)
        await asyncio.sleep(0)
        throttle.release()

    await asyncio.gather(*(call(name) for name in "abcd"))

    assert order == list("abcd")


async def test_the_lowest_ceiling_counts():
    throttle = Throttle()
    throttle.apply_limits(Limits(max_concurrency=20))
    throttle.apply_limits(Limits(max_concurrency=5))
    throttle.apply_limits(Limits())

    assert (throttle.ceiling, throttle.limit) == (5, 5)


async def test_a_waiter_that_is_cancelled_leaves_its_place_to_the_next():
    throttle = Throttle()
    throttle.apply_limits(Limits(max_concurrency=1))
    await throttle.acquire(0)
    first = asyncio.create_task(throttle.acquire(0))
    second = asyncio.create_task(throttle.acquire(0))
    await asyncio.sleep(0)

    throttle.release()  # hands the place to the first, which is cancelled before it can take it
    first.cancel()
    await asyncio.wait_for(second, 60)

    assert first.cancelled()
    assert throttle.in_flight == 1


async def test_a_rate_limit_sets_the_pace_to_what_was_accepted():
    clock = Clock()
    pace = Pace(clock)
    for _ in range(100):
        clock.now += 0.02
        pace.on_success(late=False)

    pace.on_overload(None, rate_limited=True)

    assert pace.rate == pytest.approx(50 * 0.95, rel=0.03)


async def test_calls_accepted_before_the_refusal_still_count():
    clock = Clock()
    pace = Pace(clock)
    pace.on_success(late=False)
    pace.on_overload(None, rate_limited=True)
    for _ in range(49):
        pace.on_success(late=True)

    assert pace.rate == pytest.approx(50 * 0.95, rel=0.03)


async def test_the_pace_creeps_up_and_a_passing_shortage_is_forgotten():
    clock = Clock()
    pace = Pace(clock)
    for _ in range(10):
        pace.on_success(late=False)
    pace.on_overload(None, rate_limited=True)
    start = pace.rate

    rates = []
    for _ in range(600):
        clock.now += 0.1
        pace.on_success(late=False)
        rates.append(pace.rate)

    assert rates[20] < start * 1.05
    assert rates[-1] > start * 10


async def test_a_first_refusal_holds_up_only_its_own_call_and_a_second_one_everyone():
    clock = Clock()
    pace = Pace(clock)

    pace.on_overload(5.0, rate_limited=False)
    assert not pace.active

    pace.on_overload(5.0, rate_limited=False)
    assert pace.active
    assert pace._delay(0) == 5.0


async def test_tokens_per_minute_hold_calls_back_until_there_are_enough():
    clock = Clock()
    pace = Pace(clock)
    pace.apply_limits(Limits(tokens_per_minute=6000))  # a hundred a second

    await pace.wait_for_turn(100)
    assert pace._delay(50) == pytest.approx(0.5)
    pace.correct_estimate(tokens=40, estimate=100)
    assert pace._delay(50) <= 0
