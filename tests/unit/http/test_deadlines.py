"""Time limits that share one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVarTuple

import pytest

from dokimos._http.deadlines import Deadlines

Ts = TypeVarTuple("Ts")


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock goes on only when a test says so."""

    now = 0.0
    timers = 0

    def time(self) -> float:
        return self.now

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)


def run_stepped(main: Callable[[SteppedLoop], Coroutine[Any, Any, None]]) -> None:
    loop = SteppedLoop()
    try:
        loop.run_until_complete(main(loop))
    finally:
        loop.close()


async def turn() -> None:
    for _ in range(5):  # what is due runs, and so does what waits for it
        await asyncio.sleep(0)


async def work(deadlines: Deadlines, until: asyncio.Event) -> str:
    with deadlines.limit_time():
        await until.wait()
    return "done"


def test_what_ends_in_time_has_its_result() -> None:
    async def main(loop: SteppedLoop) -> None:
        deadlines, until = Deadlines(10), asyncio.Event()
        task = asyncio.create_task(work(deadlines, until))
        await turn()
        loop.now = 9.9
        await turn()
        until.set()
        assert await task == "done"
        assert task.cancelling() == 0

    run_stepped(main)


def test_each_block_ends_at_its_own_time() -> None:
    async def main(loop: SteppedLoop) -> None:
        deadlines, until = Deadlines(10), asyncio.Event()
        tasks = []
        for start in (0, 0, 4, 7):
            loop.now = float(start)
            tasks.append(asyncio.create_task(work(deadlines, until)))
            await turn()
        ended = []
        for now in (9, 10, 13, 14, 16, 17):
            loop.now = float(now)
            await turn()
            ended.append(sum(task.done() for task in tasks))
        assert ended == [0, 2, 2, 3, 3, 4]
        for task in tasks:
            with pytest.raises(TimeoutError):
                await task

    run_stepped(main)


def test_a_task_goes_on_after_its_block_has_expired() -> None:
    async def main(loop: SteppedLoop) -> None:
        deadlines = Deadlines(10)

        async def twice() -> int:
            count = 0
            for _ in range(2):
                try:
                    with deadlines.limit_time():
                        await asyncio.Event().wait()
                except TimeoutError:
                    count += 1
            await asyncio.sleep(0)  # is not cancelled
            return count

        task = asyncio.create_task(twice())
        for now in (0, 10, 20):
            loop.now = float(now)
            await turn()
        assert task.done()
        assert await task == 2
        assert task.cancelling() == 0

    run_stepped(main)


@pytest.mark.parametrize("seconds", [5, 10])
def test_a_task_that_is_cancelled_from_outside_stays_cancelled(seconds: int) -> None:
    async def main(loop: SteppedLoop) -> None:
        task = asyncio.create_task(work(Deadlines(10), asyncio.Event()))
        await turn()
        loop.now = float(seconds)  # at 10 its time is up as well
        if seconds == 10:
            loop.call_soon(task.cancel)
        else:
            task.cancel()
        await turn()
        assert task.cancelled()

    run_stepped(main)


def test_an_error_inside_the_block_is_not_replaced() -> None:
    async def main(loop: SteppedLoop) -> None:
        async def fail() -> None:
            with Deadlines(10).limit_time():
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise KeyError("of its own") from None

        task = asyncio.create_task(fail())
        await turn()
        loop.now = 10.0
        await turn()
        with pytest.raises(KeyError, match="of its own"):
            await task
        assert task.cancelling() == 0

    run_stepped(main)


def test_all_blocks_share_one_timer_until_it_is_due() -> None:
    async def main(loop: SteppedLoop) -> None:
        deadlines, until = Deadlines(10), asyncio.Event()
        until.set()
        for _ in range(100):
            assert await work(deadlines, until) == "done"
        assert loop.timers == 1
        loop.now = 10.0
        await turn()
        assert loop.timers == 1  # nothing to wait for
        assert await work(deadlines, until) == "done"
        assert loop.timers == 2

    run_stepped(main)


def test_a_timer_ends_with_the_connections() -> None:
    async def main(loop: SteppedLoop) -> None:
        deadlines, until = Deadlines(10), asyncio.Event()
        until.set()
        await work(deadlines, until)
        deadlines.close()
        deadlines.close()
        loop.now = 10.0
        await turn()
        assert loop.timers == 1
        assert await work(deadlines, until) == "done"

    run_stepped(main)
