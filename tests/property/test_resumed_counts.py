"""A resumed run reads finished items from their lines alone: to the same totals, and to the same items."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos._core.eval_result import EvalResult
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult
from dokimos._core.task_result import TaskResult
from dokimos._core.test_case import EvalTestCase
from dokimos._core.wire import to_json
from dokimos.datasets._dataset import Dataset
from dokimos.errors import TooManyErrors
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._finished_counter import FinishedItemCounter
from dokimos.experiment._finished_items import FinishedItems
from dokimos.experiment._kept_items import KeptItems
from dokimos.experiment._remembered_results import RememberedResults
from dokimos.experiment._run_loading import load_run
from dokimos.reporting._memory import MemoryReporter

KEYS = st.sampled_from(["output", "e", "m", "c", "v", "x", "o", '","e":', '"m":{', ',"o":{'])
TEXTS = st.text(max_size=6) | st.sampled_from(
    ['"', '","e":"', '","m":{"latencyMs":7.5},"c":"00000000"}', "}", "\\", "\ud800", "\n"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)
METRICS = st.builds(
    CallMetrics,
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 5),
    cost_usd=st.none() | st.sampled_from([0, 0.25, 1e-7, 3]),
    latency_ms=st.sampled_from([0.25, 3, 1e-9, 0.1, 1e22]),
    model=st.none() | TEXTS,
)
RESULTS = st.sampled_from(["passed", "failed", "error", "unavailable", "skipped", "score", "labelled"])


@dataclass(frozen=True)
class Planned:
    outputs: dict[str, Any] | None
    metrics: CallMetrics
    result: str
    reason: str
    parts: dict[str, float]
    metadata: dict[str, Any] = field(default_factory=dict)
    """Of the example, whose JSON stands before the outputs in a line of the journal."""


ITEMS = st.builds(
    Planned,
    st.none() | st.dictionaries(KEYS, VALUES, max_size=3),
    METRICS,
    RESULTS,
    TEXTS,
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from([0.0, 0.5, 1.0]), min_size=1),
    st.dictionaries(KEYS, VALUES, max_size=2),
)


def plan_of(items: list[Planned], **options: Any) -> Experiment:
    def task(example: Example) -> TaskResult:
        item = items[example.inputs["input"]]
        if item.outputs is None:
            raise ValueError(f"no answer, {item.reason}")
        return TaskResult(item.outputs, item.metrics)

    @evaluator(name="Parts", thresholds={"a": 0.5})
    def parts(case: EvalTestCase) -> dict[str, float]:
        scores: dict[str, float] = items[case.inputs["input"]].parts
        return scores

    data = Dataset(
        [
            Example({"input": i}, {"output": i}, id=f"row {i}", metadata=item.metadata)
            for i, item in enumerate(items)
        ]
    )
    planned = AsPlanned(results=tuple((item.result, item.reason, item.metrics) for item in items))
    return Experiment(data, task, [ExactMatch(), parts, planned], quiet=True, **options)


@dataclass(frozen=True, kw_only=True)
class AsPlanned(Evaluator):
    """Gives the result that an item is drawn with."""

    blocking = False
    results: tuple[tuple[str, str, CallMetrics], ...]

    # In place of `score`, since no score gives an error of a kind.
    def evaluate(self, case: EvalTestCase) -> EvalResult:  # type: ignore[misc] # it is final
        planned, reason, metrics = self.results[case.inputs["input"]]
        match planned:
            case "error":
                return EvalResult(self.name, threshold=0.5, error="It broke.", fail_on_error=False)
            case "unavailable":
                return EvalResult(self.name, threshold=0.5, error="It is down.", error_kind="unavailable")
            case "skipped":
                return EvalResult(self.name, skipped=reason)
            case "score":
                return EvalResult(self.name, 0.25, reason=reason, metrics=metrics)
            case "labelled":
                return EvalResult(self.name, 1, label=reason, metadata={"m": reason})
        return EvalResult(self.name, 0.5, success=planned == "passed", reason=reason)


def finish(plan: Experiment, **options: Any) -> ExperimentResult:
    try:
        return plan.run(**options)
    except TooManyErrors as error:
        return error.result


def what_counts(result: ExperimentResult, folder: Path) -> Any:
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    told = [line for line in lines if not line.startswith(b'{"t":"done"')]
    items = [[to_json(item) for item in run.item_results] for run in result.runs]
    # Sorted, since evaluators in threads write when they are ready.
    return [run.summary for run in result.runs], result.status, result.warnings, sorted(told), items


def what_was_reported(reporter: MemoryReporter) -> Any:
    return [[(to_json(each), each.was_reported) for each in run.items] for run in reporter.runs]


@settings(max_examples=80, deadline=None)
@given(
    items=st.lists(ITEMS, min_size=1, max_size=6) | st.lists(ITEMS, min_size=9, max_size=14),
    runs=st.integers(1, 2),
    shard=st.sampled_from([None, (1, 2)]),
    share=st.floats(0, 1),
    damaged=st.none() | st.integers(0, 10_000),
    kept=st.sampled_from(KeptItems),
    has_reporter=st.booleans(),
    one_by_one=st.booleans(),
    options=st.fixed_dictionaries(
        {
            "retry_errors": st.booleans(),
            "max_errors": st.none() | st.integers(0, 3),
            "fail_fast": st.booleans(),
        }
    ),
)
def test_finished_items_are_what_their_whole_items_would_be(
    items: list[Planned],
    runs: int,
    shard: tuple[int, int] | None,
    share: float,
    damaged: int | None,
    kept: KeptItems,
    has_reporter: bool,
    one_by_one: bool,
    options: dict[str, Any],
) -> None:
    plan = plan_of(items, runs=runs)
    reporters = MemoryReporter(), MemoryReporter()
    plans = [replace(plan, reporters=[each] if has_reporter else []) for each in reporters]
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name, "first"), Path(name, "second")
        run_id = str(plan.run(run_dir=first, shard=shard).run_id)
        journal = first / run_id / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)[:-1]
        content = bytearray(b"".join(lines[: round(share * len(lines))]))
        if damaged is not None and content:
            content[damaged % len(content)] ^= 1
        journal.write_bytes(content)
        shutil.copytree(first, second)

        with patch.object(KeptItems, "of", lambda *_: kept):
            with patch.object(FinishedItems, "counter", lambda *_, **__: None):
                whole = finish(plans[0], run_dir=first, resume=run_id, **options)
            with ExitStack() as patches:
                if one_by_one:
                    patches.enter_context(patch.object(FinishedItemCounter, "count_next", lambda *_: 0))
                quick = finish(plans[1], run_dir=second, resume=run_id, **options)

        assert what_counts(quick, second / run_id) == what_counts(whole, first / run_id)
        assert what_was_reported(reporters[1]) == what_was_reported(reporters[0])


@settings(max_examples=60, deadline=None)
@given(items=st.lists(ITEMS, min_size=1, max_size=5), repeats=st.integers(1, 2), share=st.floats(0, 1))
def test_a_run_is_loaded_as_it_is_where_nothing_is_remembered(
    items: list[Planned], repeats: int, share: float
) -> None:
    """Each item twice, so that the results of the second one are remembered from the first."""
    plan = plan_of([*items, *items], runs=repeats)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, str(plan.run(run_dir=Path(name)).run_id))
        journal = folder / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[: round(share * len(lines))]))
        with patch.object(RememberedResults, "load", lambda *_: None):
            whole = load_run(folder)
        quick = load_run(folder)
        assert quick == whole
        assert what_counts(quick, folder) == what_counts(whole, folder)
    results = [result for item in quick.item_results for result in item.eval_results]
    assert len({id(result.metadata) for result in results}) == len(results), "nobody shares what is theirs"


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("keep_results", [False, True])
def test_finished_items_are_not_read_as_a_whole(
    keep_results: bool, together: bool, monkeypatch: Any, tmp_path: Path
) -> None:
    """Else the property above would hold of two runs that do the same."""
    item = Planned({"output": 'a","e":"b'}, CallMetrics(latency_ms=0.25), "passed", "Because.", {"a": 1.0})
    plan = plan_of([item] * 5, runs=2)
    run_id = str(plan.run(run_dir=tmp_path).run_id)
    counts: list[int | None] = []
    count, count_next = FinishedItemCounter.count, FinishedItemCounter.count_next

    def record(counter: FinishedItemCounter, *arguments: Any) -> Any:
        results = count(counter, *arguments)
        counts.append(None if results is None else len(results))
        return results

    def record_next(counter: FinishedItemCounter, *arguments: Any) -> int:
        counts.append(count_next(counter, *arguments) if together else 0)
        return counts[-1] or 0

    monkeypatch.setattr(FinishedItemCounter, "count", record)
    monkeypatch.setattr(FinishedItemCounter, "count_next", record_next)

    result = plan.run(run_dir=tmp_path, resume=run_id, keep_results=keep_results)

    assert counts == ([5] if together else [0, 3] * 5) * 2
    assert [run.total_count for run in result.runs] == [5, 5]
