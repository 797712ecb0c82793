"""Order, isolation, evaluators, prices, options: how a run behaves whatever the task is."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, RunStatus, Score
from dokimos._core.task_result import TaskResult
from dokimos._core.test_case import EvalTestCase
from dokimos.datasets._answer_replay import recorded_task
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.datasets._fingerprint import BATCH
from dokimos.errors import ConfigurationError, DatasetError, JudgeReplyError, TooManyErrors
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import Contains, ExactMatch
from dokimos.experiment import _task_calls as task_calls
from dokimos.experiment._experiment import Experiment, evaluate
from dokimos.experiment._run_options import RunOptions
from dokimos.judges._budget import Budget
from dokimos.judges._run_scope import current_scope

Numbers = Callable[..., Dataset]


def echo(example: Example) -> str:
    return example.inputs["input"]


async def echo_async(example: Example) -> str:
    return example.inputs["input"]


def plan(data: Any, task: Any = echo, evaluators: Any = None, **settings: Any) -> Experiment:
    chosen = [ExactMatch()] if evaluators is None else evaluators
    return Experiment(data, task, chosen, **({"journal": False, "progress": False} | settings))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_results_keep_dataset_order_whatever_finishes_first(numbers: Numbers, kind: str) -> None:
    finished: list[str] = []
    may_end = threading.Event()

    def task(example: Example) -> str:
        time.sleep(random.Random(example.id).uniform(0, 0.02))  # some take longer than others
        if echo(example) == "0":
            assert may_end.wait(60)
        finished.append(echo(example))
        if echo(example) == "5":
            may_end.set()
        return echo(example)

    async def task_async(example: Example) -> str:
        await asyncio.sleep(random.Random(example.id).uniform(0, 0.02))
        while echo(example) == "0" and not may_end.is_set():
            await asyncio.sleep(0.001)
        finished.append(echo(example))
        if echo(example) == "5":
            may_end.set()
        return echo(example)

    result = plan(numbers(30), task_async if kind == "async" else task, parallelism=10).run()
    assert [item.index for item in result.item_results] == list(range(30))
    assert [item.actual_output for item in result.item_results] == [str(i) for i in range(30)]
    assert finished != [str(i) for i in range(30)]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_never_more_than_parallelism_tasks_run_at_once(numbers: Numbers, kind: str) -> None:
    running = most = 0
    lock = threading.Lock()
    together, together_async = threading.Barrier(4), asyncio.Barrier(4)

    def enter(step: int) -> None:
        nonlocal running, most
        with lock:
            running += step
            most = max(most, running)

    def task(example: Example) -> str:
        enter(1)
        together.wait(60)
        enter(-1)
        return "x"

    async def task_async(example: Example) -> str:
        enter(1)
        await together_async.wait()
        enter(-1)
        return "x"

    plan(numbers(20), task_async if kind == "async" else task, parallelism=4).run()
    assert most == 4


def test_a_stream_is_pulled_only_as_fast_as_workers_are_free() -> None:
    pulled: list[int] = []
    ahead: list[int] = []
    done = 0

    def read() -> Any:
        for i in range(5 * BATCH):
            pulled.append(i)
            yield Example.of(str(i), str(i))

    async def task(example: Example) -> str:
        nonlocal done
        await asyncio.sleep(0)
        ahead.append(len(pulled) - done)
        done += 1
        return echo(example)

    result = plan(DatasetStream(read), task, parallelism=3).run()
    assert result.pass_count == 5 * BATCH
    assert max(ahead) <= 3
    assert result.provenance.dataset_size == 5 * BATCH
    assert result.provenance.dataset_fingerprint is not None


def test_without_keeping_results_only_the_totals_are_there(numbers: Numbers) -> None:
    kept = plan(numbers(7)).run()
    result = plan(numbers(7), keep_results=False).run()
    assert result.item_results == ()
    assert (result.total_count, result.pass_count) == (7, 7)
    assert result.average_score("Exact Match") == kept.average_score("Exact Match") == 1.0
    with pytest.raises(ValueError, match="keep_results=False"):
        result.to_rows()


def test_every_repeat_is_there_and_knows_its_index(numbers: Numbers) -> None:
    seen: list[int] = []

    def task(example: Example) -> str:
        seen.append(current_scope().run_index)
        return echo(example)

    @evaluator
    def run_index_is_known(case: EvalTestCase) -> bool:
        return case.run_index == current_scope().run_index

    result = plan(numbers(2), task, [run_index_is_known], runs=3, seed=9).run()
    assert seen == [0, 0, 1, 1, 2, 2]
    assert result.run_count == 3
    assert result.pass_rate == 1.0
    assert result.provenance.seed == 9


def test_the_scope_of_a_run_does_not_leak_into_the_caller(numbers: Numbers) -> None:
    plan(numbers(1), runs=2, seed=5).run()
    assert current_scope().seed is None


# Evaluators


@dataclass(frozen=True, kw_only=True)
class Raises(Evaluator):
    """Raises what it is told to."""

    error: Any = None

    def score(self, case: EvalTestCase) -> Any:
        raise self.error


@dataclass(frozen=True, kw_only=True)
class RaisesAsync(Evaluator):
    """Raises what it is told to, on the event loop."""

    error: Any = None

    async def score(self, case: EvalTestCase) -> Any:
        await asyncio.sleep(0)
        raise self.error


@dataclass(frozen=True, kw_only=True)
class Says(Evaluator):
    """Returns what it is told to."""

    what: Any = None

    def score(self, case: EvalTestCase) -> Any:
        return self.what


@pytest.mark.parametrize("kind", [Raises, RaisesAsync])
def test_an_evaluator_that_raises_leaves_everything_else_in_place(numbers: Numbers, kind: Any) -> None:
    result = plan(numbers(1), evaluators=[kind(name="Bad", error=KeyError("x")), ExactMatch()]).run()
    [item] = result.item_results
    assert item.error is None
    assert item.actual_output == "0"
    assert item.metrics is not None
    assert [r.name for r in item.eval_results] == ["Bad", "Exact Match"]
    assert item.eval_results[0].error == "KeyError: 'x'"
    assert item.eval_results[0].score is None
    assert item.eval_results[1].success is True
    assert item.success is False
    assert result.average_score("Bad") is None
    assert (result.fail_count, result.error_count) == (1, 1)


def test_an_async_evaluator_with_a_cancellation_of_its_own_is_errored(numbers: Numbers) -> None:
    bad = RaisesAsync(name="Bad", threshold=0.5, error=asyncio.CancelledError())
    for others in ([], [ExactMatch()]):
        result = plan(numbers(2), evaluators=[bad, *others]).run()
        found = result.item_results[0].result("Bad")
        assert found == EvalResult("Bad", threshold=0.5, error="CancelledError")
        assert result.total_count == 2


def test_an_error_that_only_warns_does_not_fail_the_item(numbers: Numbers) -> None:
    soft = Raises(name="Soft", error=ValueError("no"), fail_on_error=False)
    result = plan(numbers(1), evaluators=[soft, ExactMatch()]).run()
    assert result.item_results[0].warnings == ("Soft: ValueError: no",)
    assert (result.pass_count, result.error_count) == (1, 0)


@pytest.mark.parametrize("nonsense", [None, "high", 1.5, -0.1, float("nan"), Score(7), object(), [1]])
def test_nonsense_from_an_evaluator_is_an_error_and_never_a_score(numbers: Numbers, nonsense: Any) -> None:
    [item] = plan(numbers(1), evaluators=[Says(name="Odd", what=nonsense)]).run().item_results
    assert item.eval_results[0].score is None
    assert (item.eval_results[0].error or "").startswith("EvaluationError: Odd ")


def test_results_of_sync_async_and_blocking_evaluators_come_in_declared_order(numbers: Numbers) -> None:
    @evaluator(name="Slow")
    async def slow(output: str) -> bool:
        await asyncio.sleep(0.03)
        return True

    @evaluator(name="Fast")
    async def fast(output: str) -> bool:
        return True

    @evaluator(name="Blocking", blocking=True)
    def blocking(output: str) -> bool:
        return threading.current_thread() is not threading.main_thread()

    result = plan(numbers(3), evaluators=[slow, ExactMatch(), blocking, fast], parallelism=2).run()
    assert [r.name for r in result.item_results[0].eval_results] == [
        "Slow",
        "Exact Match",
        "Blocking",
        "Fast",
    ]
    assert result.pass_rate == 1.0


def test_async_evaluators_of_one_item_run_together(numbers: Numbers) -> None:
    inside: list[str] = []
    all_inside = asyncio.Event()

    @dataclass(frozen=True, kw_only=True)
    class WaitsForTheOthers(Evaluator):
        async def score(self, case: EvalTestCase) -> bool:
            inside.append(self.name)
            if len(inside) == 5:
                all_inside.set()
            await asyncio.wait_for(all_inside.wait(), 20)
            return True

    result = plan(numbers(1), evaluators=[WaitsForTheOthers(name=str(i)) for i in range(5)]).run()
    assert result.pass_rate == 1.0


def test_evaluators_may_be_chosen_for_each_example(numbers: Numbers) -> None:
    def choose(example: Example) -> Sequence[Evaluator]:
        return [ExactMatch()] if echo(example) == "0" else [Contains(values=["1"]), ExactMatch(name="Same")]

    result = plan(numbers(2), evaluators=choose).run()
    assert [[r.name for r in item.eval_results] for item in result.item_results] == [
        ["Exact Match"],
        ["Contains", "Same"],
    ]
    assert {info.name for info in result.evaluators} == {"Exact Match", "Contains", "Same"}


def test_a_choice_of_one_evaluator_or_none_is_fine(numbers: Numbers) -> None:
    assert plan(numbers(1), evaluators=lambda example: ExactMatch()).run().pass_rate == 1.0
    nothing = plan(numbers(1), evaluators=lambda example: []).run()
    assert nothing.item_results[0].success is None
    assert nothing.pass_rate is None


def test_a_choice_that_fails_is_an_error_of_its_item_which_keeps_its_output(numbers: Numbers) -> None:
    def choose(example: Example) -> Sequence[Evaluator]:
        if echo(example) == "1":
            raise KeyError("rubric")
        return [ExactMatch()]

    result = plan(numbers(3), evaluators=choose).run()
    assert (result.pass_count, result.error_count) == (2, 1)
    item = result.item_results[1]
    assert item.actual_output == "1"
    assert item.eval_results == (EvalResult("evaluators", error="KeyError: 'rubric'"),)


def test_two_chosen_evaluators_of_one_name_are_a_configuration_error(numbers: Numbers) -> None:
    with pytest.raises(ConfigurationError, match="Two evaluators are called 'Exact Match'"):
        plan(numbers(1), evaluators=lambda example: [ExactMatch(), ExactMatch()]).run()


# Configuration errors come before anything runs


def never(example: Example) -> str:
    raise AssertionError("the task was called")


def test_an_option_that_does_not_exist_is_refused_by_run_too(numbers: Numbers) -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'retries'"):
        plan(numbers(1), never).run(retrys=2)


def test_options_may_be_given_as_an_object_and_overridden_by_keywords(numbers: Numbers) -> None:
    options = RunOptions(seed=3, journal=False, progress=False)
    made = Experiment(numbers(1), echo, ExactMatch(), options=options, seed=4)
    assert made.options == replace(options, seed=4)
    assert made.run(seed=5).provenance.seed == 5
    assert made.options.seed == 4


def test_a_variant_of_a_plan_is_made_by_replace(numbers: Numbers) -> None:
    first = plan(numbers(1), never, name="a", runs=2, timeout=60)
    second = replace(first, task=echo)
    assert (second.name, second.runs, second.options.timeout) == ("a", 2, 60)
    assert second.run().pass_rate == 1.0


def test_evaluate_is_the_short_form(numbers: Numbers) -> None:
    result = evaluate(numbers(2), echo, ExactMatch(), name="short", journal=False, progress=False)
    assert (result.name, result.pass_rate) == ("short", 1.0)


def test_a_list_of_examples_is_a_dataset() -> None:
    assert plan([Example.of("a", "a")]).run().pass_rate == 1.0


# Prices


def with_tokens(example: Example) -> TaskResult:
    return TaskResult({"output": echo(example)}, CallMetrics(10, 5, model="m"))


def test_a_price_is_stored_as_it_was_given(numbers: Numbers) -> None:
    asked: list[Any] = []

    def prices(*parts: Any) -> float:
        asked.append(parts)
        return 0.00012345678901234

    result = plan(numbers(2), with_tokens, prices=prices).run()
    assert asked == [("m", 10, 5)] * 2
    assert result.item_results[0].metrics is not None
    assert result.item_results[0].metrics.cost_usd == 0.00012345678901234
    assert (result.summary.priced, result.summary.tokenized) == (2, 2)


def test_a_cost_that_the_task_knows_is_not_looked_up(numbers: Numbers) -> None:
    def task(example: Example) -> TaskResult:
        return TaskResult({"output": "x"}, CallMetrics(1, 1, cost_usd=0.25))

    def prices(*parts: Any) -> float:
        raise AssertionError("asked")

    result = plan(numbers(1), task, prices=prices).run()
    assert result.metrics.cost_usd == 0.25
    assert result.warnings == ()


def test_an_item_without_tokens_counts_neither_as_priced_nor_as_tokenized(numbers: Numbers) -> None:
    result = plan(numbers(2), prices=lambda *parts: 1.0).run()
    assert (result.summary.priced, result.summary.tokenized) == (0, 0)
    assert result.metrics.cost_usd is None


def test_an_unknown_price_leaves_items_unpriced_without_a_warning(numbers: Numbers) -> None:
    result = plan(numbers(2), with_tokens, prices=lambda *parts: None).run()
    assert (result.summary.priced, result.summary.tokenized) == (0, 2)
    assert result.warnings == ()


@pytest.mark.parametrize("nonsense", ["1.0", -1.0, float("nan"), float("inf"), object()])
def test_a_price_that_is_none_leaves_items_unpriced_and_is_said(numbers: Numbers, nonsense: Any) -> None:
    result = plan(numbers(2), with_tokens, prices=lambda *parts: nonsense).run()
    assert result.summary.priced == 0
    assert result.pass_rate == 1.0
    assert any("which is not a price" in warning for warning in result.warnings)


def test_a_price_table_that_raises_leaves_items_unpriced_and_is_said(numbers: Numbers) -> None:
    def prices(*parts: Any) -> float:
        raise KeyError("gpt")

    result = plan(numbers(2), with_tokens, prices=prices).run()
    assert result.pass_rate == 1.0
    (warning,) = result.warnings
    assert warning.startswith("The price table raised KeyError: 'gpt' (")
    assert warning.endswith(" in prices); those items are unpriced.")


# Too many errors


def fails_from_3_on(example: Example) -> str:
    if int(echo(example)) >= 3:
        raise ConnectionError("endpoint is down")
    return echo(example)


def test_a_total_of_errors_stops_the_run_and_names_the_common_one(numbers: Numbers) -> None:
    with pytest.raises(TooManyErrors, match="endpoint is down") as caught:
        plan(numbers(100), fails_from_3_on, max_errors=4).run()
    result = caught.value.result
    assert result.status is RunStatus.STOPPED
    assert (result.pass_count, result.error_count) == (3, 5)
    assert "max_errors=4" in str(caught.value)


def test_no_error_at_all_may_be_allowed(numbers: Numbers) -> None:
    with pytest.raises(TooManyErrors) as caught:
        plan(numbers(100), fails_from_3_on, max_errors=0).run()
    assert caught.value.result.total_count == 4


def test_a_share_of_errors_is_looked_at_from_20_items_on(numbers: Numbers) -> None:
    with pytest.raises(TooManyErrors) as caught:
        plan(numbers(100), fails_from_3_on, max_errors=0.5).run()
    assert caught.value.result.total_count == 20
    few = plan(numbers(10), fails_from_3_on, max_errors=0.5).run()
    assert few.status is RunStatus.COMPLETED


def test_a_share_that_is_not_exceeded_does_not_stop_the_run(numbers: Numbers) -> None:
    result = plan(
        numbers(30),
        lambda example: fails_from_3_on(example) if int(echo(example)) < 6 else "x",
        max_errors=0.15,
    ).run()
    assert (result.error_count, result.status) == (3, RunStatus.COMPLETED)


def test_errors_of_evaluators_count_too_and_soft_ones_do_not(numbers: Numbers) -> None:
    bad = Raises(name="Bad", error=ValueError("judge is down"))
    with pytest.raises(TooManyErrors, match="Bad: ValueError: judge is down"):
        plan(numbers(10), evaluators=[bad], max_errors=2).run()
    beside_a_verdict = [replace(bad, fail_on_error=False), ExactMatch()]
    assert plan(numbers(10), evaluators=beside_a_verdict, max_errors=2).run().total_count == 10


def test_calls_in_flight_do_not_keep_a_stopped_run(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dokimos.experiment._workers.STOP_SECONDS", 0.1)

    async def task(example: Example) -> str:
        if echo(example) == "0":
            await asyncio.sleep(60)
        raise ConnectionError("down")

    start = time.perf_counter()
    with pytest.raises(TooManyErrors):
        plan(numbers(10), task, parallelism=2, max_errors=2).run()
    assert time.perf_counter() - start < 30


def test_a_run_in_which_everything_errored_is_broken_and_says_why(numbers: Numbers) -> None:
    def task(example: Example) -> str:
        raise ConnectionError("down")

    result = plan(numbers(3), task, runs=2).run()
    assert result.status is RunStatus.BROKEN
    told = "Every item errored. The most common error (6 times): ConnectionError: down ("
    assert result.warnings[0].startswith(told)
    assert result.warnings[0].endswith(" in task)")
    assert result.pass_rate == 0.0


def test_a_common_error_of_many_lines_is_told_in_one(numbers: Numbers) -> None:
    def task(example: Example) -> str:
        raise ValueError("\n".join(["first", *["second" * 50] * 20]))

    [warning] = plan(numbers(3), task).run().warnings
    assert warning.startswith("Every item errored. The most common error (3 times): ValueError: first second")
    assert "\n" not in warning
    assert len(warning.rpartition(" (")[0]) < 400


# Retries


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses between attempts instead of making them."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        if seconds:
            made.append(seconds)

    monkeypatch.setattr(task_calls.asyncio, "sleep", sleep)
    return made


def test_a_failed_call_is_repeated_with_growing_pauses(numbers: Numbers, pauses: list[float]) -> None:
    attempts: list[str] = []

    def task(example: Example) -> str:
        attempts.append(echo(example))
        if len(attempts) < 4:
            raise ConnectionError("busy")
        return echo(example)

    result = plan(numbers(1), task, retries=3).run()
    assert result.pass_rate == 1.0
    assert len(attempts) == 4
    assert len(pauses) == 3
    assert all(0.5 * full <= pause <= full for pause, full in zip(pauses, [0.5, 1.0, 2.0], strict=True))
    assert "Retried 3 calls of the task that had failed." in result.warnings


def test_pauses_do_not_grow_without_end(numbers: Numbers, pauses: list[float]) -> None:
    def task(example: Example) -> str:
        raise ConnectionError("down")

    assert plan(numbers(1), task, retries=12).run().error_count == 1
    assert max(pauses) <= task_calls.LONGEST_RETRY_SECONDS
    assert len(pauses) == 12


def test_an_error_that_was_recorded_is_not_asked_for_again(numbers: Numbers, pauses: list[float]) -> None:
    crashed = Dataset([replace(each, actual_error="TimeoutError: no reply") for each in numbers(3).examples])

    result = plan(crashed, recorded_task(), retries=3).run()

    assert result.error_count == 3
    assert pauses == []
    assert not any("Repeated" in warning for warning in result.warnings)


def test_nothing_is_repeated_unless_asked_for(numbers: Numbers) -> None:
    attempts: list[str] = []

    def task(example: Example) -> str:
        attempts.append("x")
        raise ConnectionError("down")

    plan(numbers(2), task).run()
    assert len(attempts) == 2


def test_tasks_go_on_while_a_slow_source_is_waited_for():
    finished = threading.Event()

    def rows():
        yield Example.of("first")
        assert finished.wait(60), "the first task was held up by the second row"
        yield Example.of("second")

    async def task(example: Example) -> str:
        await asyncio.sleep(0.01)
        finished.set()
        return "done"

    stream = DatasetStream(rows, waits=True)
    result = Experiment(stream, task, [ExactMatch()], parallelism=2).run(journal=False)
    assert [item.actual_output for item in result.item_results] == ["done", "done"]


def test_a_slow_source_that_fails_breaks_the_run_with_what_was_finished():
    def rows():
        yield Example.of("first")
        raise OSError("the pipe burst")

    stream = DatasetStream(rows, name="pipe", waits=True)
    with pytest.raises(
        DatasetError, match="'pipe' failed after 1 example: OSError: the pipe burst"
    ) as broken:
        Experiment(stream, lambda example: "done", [ExactMatch()]).run(journal=False)
    assert broken.value.result.total_count == 1


def test_a_reply_of_no_use_errors_the_item_and_keeps_what_it_cost():
    paid = CallMetrics(100, 5, cost_usd=0.25)

    def task(example: Example) -> str:
        raise JudgeReplyError("cut off", metrics=paid)

    result = Experiment([Example.of("q")], task, [ExactMatch()], budget=Budget(max_cost_usd=1.0)).run()
    (item,) = result.item_results
    assert (item.error, item.metrics) == ("JudgeReplyError: cut off", paid)
    assert result.metrics.cost_usd == 0.25
