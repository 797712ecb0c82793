"""When scores are handed to the journal, and when the journal hands its lines to the operating system."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from time import perf_counter

import pytest

from dokimos import EvalResult, EvalTestCase, Evaluator
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import BudgetExceededError
from dokimos.experiment import _run_journal
from dokimos.experiment._item_scoring import evaluate_all
from dokimos.experiment._item_writer import ItemWriter
from dokimos.experiment._run_journal import JOURNAL_FILE, Journal
from dokimos.experiment._run_lock import RunLock

CASE = EvalTestCase.of("question", "answer")
RESULTS = (EvalResult("E", 1.0),)


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


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """A journal that writes nothing by itself."""
    monkeypatch.setattr(_run_journal, "SYNC_SECONDS", 3600)
    made = Journal(tmp_path, RunLock(tmp_path))
    yield made
    made.close(status="completed")


def kinds(folder):
    return [json.loads(line)["t"] for line in (folder / JOURNAL_FILE).read_text().splitlines()]


def write_item(journal, index):
    journal.write_item((0, index), example_hash="0" * 16, example_json="{}", outputs={"output": "a"})


def test_results_that_can_wait_are_written_with_the_next_line(journal):
    write_item(journal, 0)
    journal.write_results((0, 0), RESULTS, can_wait=True)
    assert kinds(journal.folder) == ["item"]
    write_item(journal, 1)
    assert kinds(journal.folder) == ["item", "eval", "item"]
    journal.write_results((0, 1), RESULTS)
    assert kinds(journal.folder) == ["item", "eval", "item", "eval"]


def test_results_that_can_wait_are_written_at_the_end_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(_run_journal, "SYNC_SECONDS", 3600)
    journal = Journal(tmp_path, RunLock(tmp_path))
    journal.write_results((0, 0), RESULTS, can_wait=True)
    journal.close(status="completed")
    assert kinds(tmp_path) == ["eval", "done"]


def test_results_that_can_wait_are_written_soon_where_no_line_follows(tmp_path, wait_until):
    journal = Journal(tmp_path, RunLock(tmp_path))
    journal.write_results((0, 0), RESULTS, can_wait=True)
    wait_until(lambda: kinds(tmp_path) == ["eval"])
    journal.close(status="completed")


@pytest.mark.parametrize(("seconds_ago", "can_wait"), [(-3600, True), (1, False)])
def test_only_scores_that_took_no_time_can_wait(seconds_ago, can_wait):
    class Spy:
        def write_results(self, position, results, *, can_wait):
            self.seen = (position, results, can_wait)

    spy = Spy()
    ItemWriter(spy, None, every_example=False).write_results((0, 3), perf_counter() - seconds_ago, RESULTS)
    assert spy.seen == ((0, 3), RESULTS, can_wait)


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


def test_results_of_a_thread_are_written_as_they_come():
    written = score(InThread(name="a"), Immediate(name="b"), InThread(name="c"))
    assert sorted(written) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("raises", [KeyboardInterrupt, BudgetExceededError])
def test_what_ends_the_item_leaves_the_results_before_it_written(raises):
    assert score(Immediate(name="a"), Immediate(name="b", raises=raises))[0] == ["a"]
