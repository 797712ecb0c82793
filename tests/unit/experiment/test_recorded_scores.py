"""When scores are handed to the journal."""

import asyncio
import contextlib
from dataclasses import dataclass

import pytest

from dokimos import EvalResult, EvalTestCase, Evaluator
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import BudgetExceededError
from dokimos.experiment._item_scoring import evaluate_all

CASE = EvalTestCase.of("question", "answer")


@dataclass(frozen=True, kw_only=True)
class Immediate(Evaluator):
    """Does not wait."""

    raises: type[BaseException] | None = None

    async def score(self, case):
        if self.raises is not None:
            raise self.raises("no")
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Waiting(Evaluator):
    """Waits until the test lets it go on."""

    go: asyncio.Event

    async def score(self, case):
        await self.go.wait()
        return 1.0


@dataclass(frozen=True, kw_only=True)
class InThread(Evaluator):
    """Runs in a thread."""

    def score(self, case):
        return 1.0


def score(*evaluators):
    """Return the names that each call of the sink was given, also where an evaluator ends it all."""
    written = []

    def sink(results):
        written.append([result.name for result in results])

    with contextlib.suppress(KeyboardInterrupt, BudgetExceededError):
        run_sync(evaluate_all(evaluators, CASE, sink))
    return written


def test_what_did_not_wait_is_written_together():
    assert score(*(Immediate(name=name) for name in "abc")) == [["a", "b", "c"]]


def test_what_did_not_wait_is_written_before_anything_waits():
    async def scoring():
        written, go = [], asyncio.Event()
        evaluators = (Immediate(name="a"), Immediate(name="b"), Waiting(name="c", go=go), Immediate(name="d"))
        call = asyncio.create_task(
            evaluate_all(evaluators, CASE, lambda results: written.append([r.name for r in results]))
        )
        while len(written) < 2:
            await asyncio.sleep(0)
        before = list(written)
        go.set()
        await call
        return before, written

    before, written = run_sync(scoring())
    assert before == [["a", "b"], ["d"]]
    assert written == [["a", "b"], ["d"], ["c"]]


def test_nothing_is_written_before_there_is_a_result():
    async def scoring():
        written, go = [], asyncio.Event()
        evaluators = [Waiting(name=name, go=go) for name in "ab"]
        call = asyncio.create_task(
            evaluate_all(evaluators, CASE, lambda results: written.append([r.name for r in results]))
        )
        for _ in range(5):
            await asyncio.sleep(0)
        go.set()
        await call
        return written

    assert sorted(run_sync(scoring())) == [["a"], ["b"]]
    assert score(Immediate(name="a", raises=BudgetExceededError), Immediate(name="b")) == [["b"]]
    assert score(Immediate(name="a", raises=KeyboardInterrupt), Immediate(name="b")) == []


def test_results_of_a_thread_are_written_as_they_come():
    written = score(InThread(name="a"), Immediate(name="b"), InThread(name="c"))
    assert sorted(written) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("raises", [KeyboardInterrupt, BudgetExceededError])
def test_what_ends_the_item_leaves_the_results_before_it_written(raises):
    assert score(Immediate(name="a"), Immediate(name="b", raises=raises))[0] == ["a"]


class Detailed(EvalResult):
    """A result of a user's own type."""


@dataclass(frozen=True, kw_only=True)
class OwnResult(Immediate):
    """Gives results of that type, in place of what `score` says."""

    async def evaluate_async(self, case):
        return Detailed(self.name, 1.0)


def test_a_result_of_a_type_derived_from_ours_is_written_like_any_other():
    assert score(Immediate(name="a"), OwnResult(name="b")) == [["a", "b"]]
