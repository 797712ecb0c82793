"""Calling functions of any kind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from dokimos._runtime.user_calls import call_user_function, is_async


def plain(a, b=1):
    return a + b


async def awaited(a, b=1):
    await asyncio.sleep(0)
    return a + b


def gives_awaitable(a, b=1):
    return awaited(a, b)


class Plain:
    def __call__(self, a, b=1):
        return a + b

    async def method(self, a, b=1):
        return a + b


class Awaited:
    async def __call__(self, a, b=1):
        return a + b


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, False),
        (gives_awaitable, False),
        (Plain(), False),
        (partial(Plain()), False),
        (awaited, True),
        (partial(awaited, 1), True),
        (Awaited(), True),
        (partial(partial(Awaited())), True),
        (Plain().method, True),
        (len, False),
        (Awaited, False),
    ],
)
def test_a_function_is_async_where_a_call_gives_a_coroutine(function, expected):
    assert is_async(function) is expected


@pytest.mark.parametrize(
    "function", [plain, gives_awaitable, awaited, Plain(), Awaited(), partial(Awaited())]
)
def test_a_function_of_any_kind_gives_its_value(function):
    assert asyncio.run(call_user_function(function, 1, b=2)) == 3


def test_only_a_sync_function_goes_into_a_thread():
    async def where():
        return threading.current_thread()

    assert asyncio.run(call_user_function(where)) is threading.main_thread()
    assert asyncio.run(call_user_function(threading.current_thread)) is not threading.main_thread()


def test_an_argument_may_have_the_name_of_a_parameter():
    assert asyncio.run(call_user_function(lambda function: function, function="f(x)")) == "f(x)"


@pytest.mark.parametrize("function", [lambda pool: pool.submit(plain, 2), lambda pool: awaited(2)])
async def test_futures_of_threads_are_awaited_like_coroutines(function):
    with ThreadPoolExecutor(1) as pool:
        assert await call_user_function(function, pool) == 3


async def test_a_future_that_holds_an_awaitable_is_awaited_to_its_end():
    with ThreadPoolExecutor(1) as pool:
        assert await call_user_function(lambda: pool.submit(awaited, 2)) == 3
