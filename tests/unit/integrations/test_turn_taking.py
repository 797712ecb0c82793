"""Calls that wait for one another."""

import asyncio

import pytest

from dokimos.integrations.turn_taking import one_at_a_time
from dokimos.runtime.concurrency import run_sync


async def test_calls_of_one_loop_never_overlap():
    at_once = most = 0

    @one_at_a_time
    async def call(number):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return number

    assert await asyncio.gather(*(call(number) for number in range(5))) == [0, 1, 2, 3, 4]
    assert most == 1


async def test_a_call_that_fails_lets_the_next_one_go():
    @one_at_a_time
    async def call(number):
        if number == 0:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="0"):
        await call(0)
    assert await call(1) == 1


def test_another_loop_has_turns_of_its_own():
    @one_at_a_time
    async def call(number):
        await asyncio.sleep(0)
        return number

    async def both():
        return await asyncio.gather(call(1), call(2))

    assert [run_sync(both()) for _ in range(2)] == [[1, 2], [1, 2]]
