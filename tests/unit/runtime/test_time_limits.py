"""Limits that grow by what a call waits for an endpoint."""

import asyncio

import pytest

from dokimos._runtime.time_limits import (
    ExtraTime,
    count_extra_time,
    give_extra_time,
    limit_time,
    wait_with_limit,
)


async def test_extra_time_goes_to_all_limits_around():
    with count_extra_time() as outer:
        give_extra_time(1)
        with count_extra_time() as inner:
            give_extra_time(2)
    give_extra_time(4)

    assert (outer.seconds, inner.seconds) == (3, 2)


async def test_tasks_and_threads_that_are_begun_inside_count():
    with count_extra_time() as extra:
        task = asyncio.create_task(asyncio.to_thread(give_extra_time, 5))
    await task

    assert extra.seconds == 5


async def test_a_reply_in_time_is_no_error():
    async with limit_time(60) as limit:
        await asyncio.sleep(0)
    assert not limit.expired()


async def test_a_limit_without_extra_time_ends():
    with pytest.raises(TimeoutError):
        async with limit_time(0.01) as limit:
            await asyncio.Event().wait()
    assert limit.expired()


async def test_an_error_inside_passes():
    with pytest.raises(ValueError, match="mine"):
        async with limit_time(60):
            raise ValueError("mine")


async def test_what_was_waited_for_does_not_count():
    async with limit_time(0.01) as limit:
        give_extra_time(60)
        await asyncio.sleep(0.05)  # longer than the limit alone
    assert not limit.expired()


async def test_something_is_waited_for_with_extra_time():
    extra = ExtraTime()
    done = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(wait_with_limit(done, 0.01, extra))
    extra.seconds = 60
    await asyncio.sleep(0.05)  # longer than the limit alone
    assert not waiting.done()

    done.set_result(None)
    await waiting


async def test_it_is_given_up_without():
    never = asyncio.get_running_loop().create_future()

    await wait_with_limit(never, 0.01, ExtraTime())

    assert not never.done()
