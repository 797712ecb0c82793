import asyncio
import inspect
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._runtime.concurrency import run_sync
from dokimos._runtime.eager_gather import Begun, begin, gather_outcomes

setting = ContextVar("setting", default="none")


async def _follow(steps):
    """Do what a list of steps says, and return what this call saw of itself."""
    task, seen = asyncio.current_task(), []
    for step in steps:
        seen.append((setting.get(), asyncio.current_task() is task))
        if step == "wait":
            await asyncio.sleep(0)
        elif step == "wait for another":
            await asyncio.create_task(asyncio.sleep(0))
        elif step == "set":
            setting.set("changed")
        elif step == "time out":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
        else:
            raise step(f"after {len(seen)} steps")
    return seen


def _comparable(outcomes):
    return [repr(outcome) for outcome in outcomes]


STEPS = st.sampled_from(
    ["wait", "wait for another", "set", "time out", ValueError, GeneratorExit, asyncio.TimeoutError]
)


@given(st.lists(st.lists(STEPS, max_size=4), max_size=5))
def test_outcomes_are_those_of_gather(scripts):
    async def both():
        careful = await asyncio.gather(*map(_follow, scripts), return_exceptions=True)
        quick = await gather_outcomes(map(_follow, scripts))
        assert setting.get() == "none"
        assert asyncio.current_task().cancelling() == 0
        return careful, quick

    careful, quick = run_sync(both())
    assert _comparable(quick) == _comparable(careful)


async def test_what_does_not_wait_makes_no_task():
    loop, made = asyncio.get_running_loop(), []

    def make(loop, coroutine, **options):
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    loop.set_task_factory(make)
    try:
        await gather_outcomes(_follow([]) for _ in range(5))
        assert made == []
        await gather_outcomes(_follow(["wait"]) for _ in range(5))
        assert len(made) == 4
    finally:
        loop.set_task_factory(None)


@pytest.mark.parametrize(
    ("scripts", "seen"),
    [([[], []], []), ([[], ["wait"], []], [1]), ([["wait"], ["wait"]], [0])],
)
async def test_before_anything_waits_it_is_said_once(scripts, seen):
    ended, said = [], []

    async def follow(script):
        await _follow(script)
        ended.append(script)

    await gather_outcomes(map(follow, scripts), before_waiting=lambda: said.append(len(ended)))
    assert said == seen


@given(st.lists(st.sampled_from(["set", ValueError, GeneratorExit, asyncio.CancelledError]), max_size=3))
def test_what_does_not_wait_ends_when_it_is_begun(script):
    async def both():
        outcomes = []
        for run in (_follow, lambda steps: begin(_follow(steps))):
            try:
                outcome = run(script)
                outcomes.append(await outcome if inspect.iscoroutine(outcome) else outcome)
            except BaseException as error:
                outcomes.append(error)
            setting.set("none")
        return outcomes

    awaited, begun = run_sync(both())
    assert repr(begun) == repr(awaited)


async def test_a_begun_call_goes_on_in_its_own_context():
    async def change_and_wait():
        token = setting.set("its own")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        seen = setting.get()
        setting.reset(token)  # which another context than that of `set` would refuse
        return seen

    begun = begin(change_and_wait())
    assert isinstance(begun, Begun)
    assert setting.get() == "none"
    assert await begun == "its own"
    assert setting.get() == "none"


async def test_cancelling_reaches_a_begun_call():
    ended = []
    begun = begin(_wait_and_record("a", ended, suppresses=False))
    task = asyncio.ensure_future(begun)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["a"]


async def test_a_call_that_waits_keeps_none_of_the_others_waiting():
    begun = asyncio.Event()

    async def wait_for_the_next():
        await begun.wait()
        return "first"

    async def begin():
        begun.set()
        return "second"

    assert await gather_outcomes(call() for call in (wait_for_the_next, begin)) == ["first", "second"]


async def _wait_and_record(name, ended, suppresses):
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        ended.append(name)
        if not suppresses:
            raise


async def _begin(count, ended, *, suppresses):
    task = asyncio.create_task(gather_outcomes(_wait_and_record(i, ended, suppresses) for i in range(count)))
    while task.get_coro().cr_await is None:
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # the calls after the first begin in their tasks
    return task


@pytest.mark.parametrize("count", [1, 3])
async def test_to_cancel_it_cancels_all_and_waits_for_them(count):
    ended = []
    task = await _begin(count, ended, suppresses=False)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == list(range(count))


async def test_a_call_that_suppresses_its_cancellation_hides_it_as_if_it_were_alone():
    ended = []
    task = await _begin(1, ended, suppresses=True)
    task.cancel()
    assert await task == [None]

    task = await _begin(3, ended, suppresses=True)
    task.cancel()
    while ended != [0, 0]:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [0, 0, 1, 2]


async def test_it_can_be_closed_while_it_waits():
    calls = [_follow(["wait for another"]) for _ in range(2)]
    gathering = gather_outcomes(calls)
    gathering.send(None)
    assert inspect.getcoroutinestate(calls[0]) == inspect.CORO_SUSPENDED
    gathering.close()
    assert inspect.getcoroutinestate(calls[0]) == inspect.CORO_CLOSED


def test_a_time_limit_that_leaves_its_cancellation_behind_ends_only_its_own_call():
    async def with_a_limit():
        asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)  # as older clients of HTTP do
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "too late"

    async def main():
        outcomes = await gather_outcomes(call() for call in (with_a_limit, with_a_limit))
        return outcomes, asyncio.current_task().cancelling()

    assert run_sync(main()) == (["too late", "too late"], 0)
