"""An evaluation that is begun gives what `evaluate_async` gives, and changes nothing around it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Coroutine
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import CallMetrics, EvalResult, EvalTestCase, Evaluator, Score
from dokimos._runtime.concurrency import run_sync
from dokimos._runtime.eager_gather import Begun
from dokimos.errors import BudgetExceededError, JudgeReplyError, UnusableOutputError
from dokimos.evaluators._eager_evaluation import IS_SCORED, prepare_evaluator, score_each
from dokimos.judges._run_scope import counting_usage, current_usage, evaluator_timeout

CASE = EvalTestCase.of("question", "answer")
setting: ContextVar[str] = ContextVar("setting", default="none")


async def follow(steps: list[Any], case: EvalTestCase) -> Any:
    """Do what a list of steps says; a step that is a value ends it."""
    assert (setting.get(), case.actual_outputs) == ("none", {"output": "answer"})
    for step in steps:
        if step == "wait":
            await asyncio.sleep(0)
        elif step == "wait for another":
            await asyncio.create_task(asyncio.sleep(0))
        elif step == "wait for ever":
            await asyncio.Event().wait()
        elif step == "set":
            setting.set("changed")
        elif step == "ask":
            usage = current_usage()
            assert usage is not None
            usage.add(CallMetrics(3, 4))
        elif step == "change the case":
            case.actual_outputs.clear()  # type: ignore[attr-defined] # it is a dict
        elif isinstance(step, type):
            raise step("no")
        else:
            return step
    return 1.0


@dataclass(frozen=True, kw_only=True)
class Scripted(Evaluator):
    steps: list[Any]
    threshold: float | None = 0.5

    async def score(self, case: EvalTestCase) -> Any:
        return await follow(self.steps, case)


STEPS = st.sampled_from(
    [
        "wait",
        "wait for another",
        "set",
        "ask",
        "change the case",
        ValueError,
        StopIteration,
        asyncio.CancelledError,
        GeneratorExit,
        BudgetExceededError,
        JudgeReplyError,
        UnusableOutputError,
        0.25,
        True,
        2.0,
        float("nan"),
        "no number",
        Score(0.75, "Because.", label="good", metadata={"a": [1]}),
        {"a": 1.0, "b": None},
        [],
    ]
)


def begin_evaluation(evaluator: Evaluator, limit: float | None = None) -> EvalResult | Awaitable[EvalResult]:
    results: list[EvalResult] = []
    waiting: list[bool] = []
    scoring: Any = score_each([prepare_evaluator(evaluator, limit)], CASE, results, waiting)
    context = copy_context()
    waits_for = context.run(scoring.send, None)
    if waits_for is IS_SCORED:
        return results[0]
    waiting.append(True)
    return Begun(scoring, context, waits_for)


async def begin(evaluator: Evaluator, limit: float | None = None) -> EvalResult:
    outcome = begin_evaluation(evaluator, limit)
    return outcome if isinstance(outcome, EvalResult) else await outcome


async def outcome_of(call: Coroutine[Any, Any, EvalResult]) -> tuple[Any, ...]:
    """Return what a call came to, and what it counted for the block around it."""
    outcome: Any
    with counting_usage() as usage:
        try:
            outcome = await call
        except BaseException as error:
            outcome = (type(error), str(error))
    setting.set("none")
    return repr(outcome), getattr(outcome, "metrics", None), usage.calls, usage.metrics


@given(st.lists(STEPS, max_size=5))
def test_it_gives_what_awaiting_gives(steps: list[Any]) -> None:
    # Once as the last step of several, so that the values are not the end of most of them.
    evaluator = Scripted(steps=[step for step in steps[:-1] if not isinstance(step, float)] + steps[-1:])

    async def both() -> list[tuple[Any, ...]]:
        return [await outcome_of(evaluator.evaluate_async(CASE)), await outcome_of(begin(evaluator))]

    awaited, begun = run_sync(both())
    assert begun == awaited
    assert CASE.actual_outputs == {"output": "answer"}


@given(st.lists(st.lists(STEPS, max_size=3), max_size=4))
def test_none_sees_what_another_has_set(scripts: list[list[Any]]) -> None:
    async def main() -> None:
        waiting = []
        for steps in [*scripts, ["set"], ["set", "wait"], ["set"]]:
            try:
                outcome = begin_evaluation(Scripted(steps=steps))
            except BaseException:
                continue
            finally:
                assert (setting.get(), current_usage()) == ("none", None)
            if isinstance(outcome, EvalResult):
                assert "AssertionError" not in str(outcome.error)
            else:
                waiting.append(outcome)
        for call in waiting:
            with contextlib.suppress(BudgetExceededError, GeneratorExit, asyncio.CancelledError):
                assert "AssertionError" not in str((await call).error)
            assert (setting.get(), current_usage()) == ("none", None)

    run_sync(main())


@dataclass(frozen=True, kw_only=True)
class Future(Evaluator):
    """Gives an awaitable that is not a coroutine, or something that is none."""

    is_async = True
    value: Any

    def score(self, case: EvalTestCase) -> Any:
        if self.value is StopIteration:
            raise StopIteration("no")
        if self.value is None:
            return 1.0
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        future.set_result(self.value)
        return future


@pytest.mark.parametrize("value", [0.75, None, StopIteration])
async def test_any_awaitable_is_awaited(value: Any) -> None:
    evaluator = Future(value=value)
    assert repr(await begin(evaluator)) == repr(await evaluator.evaluate_async(CASE))


async def test_a_limit_holds_where_the_evaluator_is_bounded() -> None:
    never = Scripted(steps=["wait for ever"])
    with evaluator_timeout(0.01):
        assert "TimeoutError" in str((await begin(never, limit=0.01)).error)


async def test_a_cancelled_evaluation_ends_in_its_own_context() -> None:
    seen: list[str] = []

    @dataclass(frozen=True, kw_only=True)
    class Waiting(Evaluator):
        async def score(self, case: EvalTestCase) -> float:
            token = setting.set("its own")
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(setting.get())
                setting.reset(token)  # which another context than that of `set` would refuse
            return 1.0

    task = asyncio.create_task(begin(Waiting()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["its own"]


def test_what_a_subclass_gives_instead_is_taken() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Own(Scripted):
        async def evaluate_async(self, case: EvalTestCase) -> EvalResult:  # type: ignore[misc] # it is final
            return EvalResult("own", 0.5)

    assert run_sync(begin(Own(steps=[]))).name == "own"


def test_several_scores_are_parts_of_one_result() -> None:
    assert [part.name for part in run_sync(begin(Scripted(name="s", steps=[{"a": 1.0}]))).parts] == ["s.a"]


def test_nothing_is_left_to_await(recwarn: pytest.WarningsRecorder) -> None:
    for steps in (["wait"], ["wait", ValueError], [BudgetExceededError]):
        run_sync(outcome_of(begin(Scripted(steps=steps))))
    gc.collect()
    assert [str(one.message) for one in recwarn] == []
