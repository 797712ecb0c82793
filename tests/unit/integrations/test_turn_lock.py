"""Callers of an agent that remembers wait for one another."""

import asyncio

import pytest

from dokimos._runtime.concurrency import run_sync
from dokimos.integrations._turn_lock import TurnLock


async def test_calls_of_one_loop_never_overlap():
    turn = TurnLock()
    at_once = most = 0

    async def call(number):
        nonlocal at_once, most
        async with turn:
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
        return number

    assert await asyncio.gather(*(call(number) for number in range(5))) == [0, 1, 2, 3, 4]
    assert most == 1


async def test_a_call_that_fails_lets_the_next_one_go():
    turn = TurnLock()

    with pytest.raises(ValueError, match="0"):
        async with turn:
            raise ValueError(0)
    async with turn:
        pass


def test_another_loop_has_turns_of_its_own():
    turn = TurnLock()

    async def call(number):
        async with turn:
            await asyncio.sleep(0)
        return number

    async def both():
        return await asyncio.gather(call(1), call(2))

    assert [run_sync(both()) for _ in range(2)] == [[1, 2], [1, 2]]
