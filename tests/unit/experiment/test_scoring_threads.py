"""Sync evaluators run in threads, and none of them holds up the event loop or a run."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.scoring_threads import serial_thread_of
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError
from dokimos.evaluators._agent.tool_errors import ToolErrors
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._conversation.per_turn import PerTurn
from dokimos.evaluators._function import FunctionEvaluator, evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.suites._graders import GraderEvaluator
from dokimos.testing._assertions import assert_eval

Numbers = Callable[..., Dataset]
WAIT = 60.0
"""Seconds after which a test that waits for another thread fails."""


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Ends what hangs when the test is over."""
    event = threading.Event()
    yield event
    event.set()


async def echo(example: Example) -> str:
    await asyncio.sleep(0)
    return str(example.inputs["input"])


def run(data: Any, *evaluators: Evaluator, **settings: Any) -> ExperimentResult:
    return Experiment(data, echo, evaluators, **({"progress": False} | settings)).run()


def met_by(count: int) -> Callable[[], bool]:
    """Return a call that comes back once so many are in it at the same time."""
    barrier = threading.Barrier(count)
    return lambda: barrier.wait(WAIT) >= 0


def test_sync_evaluators_run_at_the_same_time_from_the_first_item_on(numbers: Numbers) -> None:
    together = met_by(4)

    @evaluator
    def meets(output: str) -> bool:
        return together()

    assert run(numbers(8), meets, parallelism=4).pass_count == 8


@dataclass(frozen=True, kw_only=True)
class OffMain(Evaluator):
    """Passes where it is not in the thread of the run."""

    def score(self, case: EvalTestCase) -> bool:
        return threading.current_thread() is not threading.main_thread()


@dataclass(frozen=True, kw_only=True)
class Child(OffMain):
    """Inherits all."""


@dataclass(frozen=True, kw_only=True)
class OnMain(OffMain):
    """Stays, and what is made of it stays."""

    blocking = False


@dataclass(frozen=True, kw_only=True)
class ChildOnMain(OnMain):
    """Scores by itself."""

    def score(self, case: EvalTestCase) -> bool:
        return super().score(case)


@dataclass(frozen=True, kw_only=True)
class Ours(ExactMatch):
    """A built-in evaluator with a score of its own."""

    def score(self, case: EvalTestCase) -> Any:
        return threading.current_thread() is not threading.main_thread()


def off_main(*_: Any) -> bool:
    return threading.current_thread() is not threading.main_thread()


@pytest.mark.parametrize(
    ("one", "in_thread"),
    [
        pytest.param(OffMain(), True, id="class"),
        pytest.param(Child(), True, id="subclass"),
        pytest.param(Ours(name="ours"), True, id="subclass of a built-in one"),
        pytest.param(OnMain(), False, id="class that stays"),
        pytest.param(ChildOnMain(), False, id="subclass of one that stays"),
        pytest.param(FunctionEvaluator(function=lambda output: off_main()), True, id="lambda"),
        pytest.param(
            FunctionEvaluator(function=lambda output: off_main(), blocking=False), False, id="stays"
        ),
        pytest.param(FunctionEvaluator(function=lambda output: off_main(), serial=True), True, id="serial"),
        pytest.param(GraderEvaluator(name="g", grader=lambda ctx: off_main()), True, id="grader"),
        pytest.param(
            GraderEvaluator(name="g", grader=lambda ctx: off_main(), blocking=False),
            False,
            id="grader that stays",
        ),
    ],
)
def test_what_users_wrote_runs_in_threads_unless_it_says_that_it_stays(
    numbers: Numbers, one: Evaluator, in_thread: bool
) -> None:
    for beside in ((), (ExactMatch(),), (OffMain(name="other"),)):
        result = run(numbers(2), one, *beside)
        assert [r.success for item in result.item_results for r in item.eval_results[:1]] == [in_thread] * 2


def test_built_in_evaluators_stay_on_the_loop_unless_they_call_users_code() -> None:
    assert not ExactMatch().blocking
    assert not ToolErrors().blocking
    assert ToolErrors(error_detector=lambda text: False).blocking
    assert not PerTurn(evaluator=ExactMatch()).blocking
    inner = FunctionEvaluator(function=lambda output: True, serial=True)
    wrapped = PerTurn(evaluator=inner)
    assert (wrapped.blocking, wrapped.serial, wrapped.is_async) == (True, True, False)
    assert wrapped._owner() is inner.function


def test_no_more_evaluators_are_in_threads_than_items_at_once(numbers: Numbers) -> None:
    now, most, guard = [0], [0], threading.Lock()

    def counted(output: str) -> bool:
        with guard:
            now[0] += 1
            most[0] = max(most[0], now[0])
        with guard:
            now[0] -= 1
        return True

    several = [FunctionEvaluator(function=counted, name=str(n)) for n in range(4)]
    graders = [GraderEvaluator(name=f"g{n}", grader=lambda ctx: counted("")) for n in range(4)]
    result = run(numbers(20), *several, *graders, parallelism=2, evaluator_timeout=WAIT)
    assert result.pass_count == 20
    assert most[0] <= 2


def test_one_after_another_at_parallelism_one(numbers: Numbers) -> None:
    inside = threading.Lock()

    def alone(output: str) -> bool:
        if not inside.acquire(blocking=False):
            return False
        asyncio.run(asyncio.sleep(0))
        inside.release()
        return True

    several = [FunctionEvaluator(function=alone, name=str(n)) for n in range(5)]
    assert run(numbers(5), *several).pass_count == 5
    assert run(numbers(5), *several, evaluator_timeout=WAIT).pass_count == 5


def test_context_variables_reach_the_threads(numbers: Numbers) -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")

    def known(output: str) -> bool:
        return who.get() == "me"

    several = [
        FunctionEvaluator(function=known, name="pooled"),
        FunctionEvaluator(function=known, name="pooled too"),
        FunctionEvaluator(function=known, name="serial", serial=True),
    ]
    token = who.set("me")
    try:
        assert run(numbers(3), *several, parallelism=2).pass_count == 3
    finally:
        who.reset(token)


def test_a_serial_evaluator_always_has_the_same_thread(numbers: Numbers) -> None:
    made: list[sqlite3.Connection] = []

    @evaluator(serial=True)
    def looks_up(output: str) -> bool:
        if not made:
            made.append(sqlite3.connect(":memory:"))
        return made[0].execute("select 1").fetchone() == (1,)

    strict = FunctionEvaluator(function=looks_up, name="Twin")  # another evaluator of the same function
    for _ in range(2):
        assert run(numbers(20), looks_up, strict, parallelism=8).pass_count == 20


def test_an_error_of_thread_affinity_names_both_ways_out(numbers: Numbers) -> None:
    connection = sqlite3.connect(":memory:")

    @evaluator
    def looks_up(output: str) -> bool:
        return connection.execute("select 1").fetchone() == (1,)

    error = run(numbers(1), looks_up).item_results[0].eval_results[0].error
    assert error is not None
    assert "created in a thread" in error
    assert error.endswith(
        ". Sync evaluators run in threads: blocking=False keeps this one in the thread of the run, "
        "serial=True gives it one thread of its own."
    )
    stays = FunctionEvaluator(function=looks_up, blocking=False)
    assert run(numbers(3), stays, parallelism=2).pass_count == 3
    connection.close()


def test_the_way_out_is_named_of_errors_inside_errors_but_not_of_others(numbers: Numbers) -> None:
    @evaluator
    def no_loop(output: str) -> bool:
        try:
            asyncio.get_event_loop_policy().get_event_loop()
        except RuntimeError as error:
            raise ValueError("no client") from error
        return True

    @evaluator
    def other(output: str) -> bool:
        raise ValueError("threadbare")

    first, second = run(numbers(1), no_loop, other).item_results[0].eval_results
    assert "serial=True" in (first.error or "")
    assert second.error == "ValueError: threadbare"


def test_an_assertion_scores_in_the_thread_of_the_test() -> None:
    connection = sqlite3.connect(":memory:")

    @evaluator
    def looks_up(output: str) -> bool:
        return connection.execute("select 1").fetchone() == (1,)

    @evaluator(name="async")
    async def waits(output: str) -> bool:
        await asyncio.sleep(0)
        return True

    results = assert_eval(EvalTestCase.of("a", "b"), waits, looks_up)
    assert [result.name for result in results] == ["async", "Looks Up"]
    assert assert_eval(EvalTestCase.of("a", "b"), looks_up)[0].success
    connection.close()


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose one of them"):
        FunctionEvaluator(function=lambda output: True, blocking=False, serial=True)

    async def waits(output: str) -> bool:
        return True

    with pytest.raises(ConfigurationError, match="runs on the event loop"):
        FunctionEvaluator(function=waits, serial=True)


def test_where_it_runs_is_no_part_of_what_it_measures() -> None:
    plain, moved = (FunctionEvaluator(function=off_main_of, blocking=flag) for flag in (True, False))
    assert plain.info().fingerprint == moved.info().fingerprint


def off_main_of(output: str) -> bool:
    return off_main()


@pytest.mark.parametrize("kind", ["sync", "serial", "async", "stubborn"])
def test_an_evaluator_that_hangs_is_an_error_of_its_item(
    numbers: Numbers, release: threading.Event, limits: Any, kind: str
) -> None:
    async def waits(output: str) -> bool:
        if output == "1":
            limits.reach()
        while output == "1":
            try:
                await asyncio.sleep(WAIT)
            except asyncio.CancelledError:
                if kind == "async" or release.is_set():
                    raise
        return True

    def hangs(output: str) -> bool:
        return output != "1" or limits.reach() or release.wait(WAIT)

    if kind in ("async", "stubborn"):
        one = FunctionEvaluator(function=waits, name="one")
    else:
        one = FunctionEvaluator(function=hangs, name="one", serial=kind == "serial")
    result = run(numbers(4), one, ExactMatch(), evaluator_timeout=0.3)
    release.set()
    errors = [item.eval_results[0].error for item in result.item_results]
    told = "TimeoutError: no result within 0.3 s; the call was abandoned"
    assert errors == [None, told, None, None]
    assert [item.eval_results[1].score for item in result.item_results] == [1.0] * 4
    assert result.item_results[1].eval_results[0].score is None


def test_waiting_for_its_turn_is_not_counted_as_time_of_a_serial_evaluator(
    numbers: Numbers, limits: Any, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    begun: list[int] = []

    def slow(output: str) -> bool:
        if not begun:  # the first waits until all others wait for their turn
            wait_until(lambda: serial_thread_of(slow)._calls.qsize() == 19)
        begun.append(len(limits.begun))
        return True

    one = FunctionEvaluator(function=slow, serial=True)
    assert run(numbers(20), one, parallelism=20, evaluator_timeout=0.6).pass_count == 20
    assert begun[0] <= 1
    assert limits.begun == [0.6] * 20


def test_the_thread_of_an_owner_ends_with_it() -> None:
    def owner() -> None: ...

    thread = serial_thread_of(owner)._thread
    assert serial_thread_of(owner)._thread is thread
    del owner
    thread.join(WAIT)
    assert not thread.is_alive()


def test_a_bound_method_has_the_thread_of_its_object() -> None:
    class Holder:
        def check(self, output: str) -> bool:
            return True

    holder = Holder()
    assert serial_thread_of(holder.check) is serial_thread_of(holder.check)


def test_a_judge_that_is_a_function_and_hangs_is_bounded_too(
    numbers: Numbers, release: threading.Event
) -> None:
    from dokimos.evaluators._llm.llm_judge import LLMJudge

    def judge(prompt: str) -> str:
        release.wait(WAIT)
        return '{"score": 1, "reason": "late"}'

    one = LLMJudge(criteria="The reply is right.", judge=judge)
    result = run(numbers(2), one, parallelism=2, evaluator_timeout=0.3)
    assert {item.eval_results[0].error for item in result.item_results} == {
        "TimeoutError: no result within 0.3 s; the call was abandoned"
    }


def test_rescoring_is_bounded_too(numbers: Numbers, release: threading.Event) -> None:
    result = run(numbers(2), ExactMatch())
    hangs = FunctionEvaluator(function=lambda output: release.wait(WAIT), name="hangs")
    scored = Experiment.rescore(result, hangs, evaluator_timeout=0.3)
    assert all("TimeoutError" in (i.eval_results[0].error or "") for i in scored.item_results)


def test_each_turn_of_a_suite_has_the_time_for_itself(release: threading.Event, limits: Any) -> None:
    from dokimos.judges._run_scope import evaluator_timeout
    from dokimos.suites._case_plan import TURNS, TurnPlan
    from dokimos.suites._turn_metric import ConversationMetric, TurnMetric

    def hangs(ctx: Any) -> bool:
        return ctx.turn_input == "quick" or limits.reach() or release.wait(WAIT)

    grader = GraderEvaluator(name="g", grader=hangs)
    turns = [TurnPlan(index=n, input=text) for n, text in enumerate(("quick", "slow"))]
    parts = tuple(TurnMetric(name="g", inner=grader, turn=turn, conversation=True) for turn in turns)
    metric = ConversationMetric(name="g", parts=parts)
    case = EvalTestCase({"input": "x"}, {TURNS: [{"output": "a"}, {"output": "b"}]})

    async def main() -> Any:
        with evaluator_timeout(0.3):
            return await metric.evaluate_async(case)

    assert asyncio.run(main()).error == (
        "turn 2: TimeoutError: no result within 0.3 s; the call was abandoned"
    )
