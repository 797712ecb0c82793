"""Shards make a whole, and new scores need no new answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ExperimentResult, RunStatus
from dokimos._core.task_result import TaskResult
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import Contains, ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._merging import merge_results
from dokimos.experiment._run_loading import load_run

Numbers = Callable[..., Dataset]
Comparable = Callable[[ExperimentResult], Any]


def task(example: Example) -> TaskResult:
    number = int(example.inputs["input"])
    if number % 5 == 4:
        raise ConnectionError("busy")
    return TaskResult({"output": str(number)}, CallMetrics(number, 1, cost_usd=0.1, latency_ms=5.0))


def plan(data: Any, **settings: Any) -> Experiment:
    defaults = {"progress": False, "runs": 2, "name": "sharded"}
    return Experiment(data, task, [ExactMatch(), Contains(values=["1"])], **(defaults | settings))


def shards(data: Any, count: int, **settings: Any) -> list[ExperimentResult]:
    return [plan(data, **settings).run(shard=(i, count)) for i in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 11])
def test_shards_together_equal_a_single_run(numbers: Numbers, comparable: Comparable, count: int) -> None:
    whole = plan(numbers(10)).run()
    parts = shards(numbers(10), count)
    assert comparable(merge_results(parts)) == comparable(whole)
    assert comparable(merge_results(parts[::-1])) == comparable(whole)
    folders = [Path(".dokimos/runs") / (part.run_id or "") for part in parts]
    assert comparable(merge_results([load_run(folder) for folder in folders])) == comparable(whole)


def test_a_shard_runs_every_nth_item_and_says_so(numbers: Numbers) -> None:
    [_, second, _] = shards(numbers(8), 3, journal=False)
    assert [item.index for item in second.runs[0].item_results] == [1, 4, 7]
    assert second.provenance.shard == "2/3"
    assert second.provenance.dataset_size == 8


def test_a_merged_result_is_of_the_whole_data_set(numbers: Numbers) -> None:
    parts = shards(numbers(6), 2)
    provenance = merge_results(parts).provenance
    assert provenance.shard is None
    assert provenance.dataset_size == 6
    assert provenance.run_id == f"{parts[0].run_id}+{parts[1].run_id}"
    assert provenance.started_at == parts[0].provenance.started_at
    assert provenance.ended_at == parts[1].provenance.ended_at


def test_streams_are_sharded_and_merged_too(comparable: Comparable) -> None:
    data = DatasetStream(lambda: (Example.of(str(i), str(i)) for i in range(9)))
    whole = plan(data).run()
    assert comparable(merge_results(shards(data, 4))) == comparable(whole)


def test_a_missing_shard_is_named(numbers: Numbers) -> None:
    parts = shards(numbers(8), 3, journal=False)
    with pytest.raises(
        ConfigurationError,
        match=r"of 8 items, 3 are missing, namely 1, 4, 7 \(no result of shard 2/3 was given\)",
    ):
        merge_results([parts[0], parts[2]])


def test_a_doubled_shard_is_named(numbers: Numbers) -> None:
    first, second = shards(numbers(4), 2)
    with pytest.raises(
        ConfigurationError, match=rf"Item 0 \(n0\) is in both run {first.run_id} \(shard 1/2\)"
    ):
        merge_results([first, second, first])


def test_an_item_that_a_shard_did_not_finish_is_named(numbers: Numbers) -> None:
    first, second = shards(numbers(6), 2, journal=False)
    cut = replace(second.runs[1], item_results=second.runs[1].item_results[:-1], summary=None)
    with pytest.raises(ConfigurationError, match="1 are missing, namely 5"):
        merge_results([first, replace(second, runs=(second.runs[0], cut))])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"name": "other"}, "the name is 'sharded' and 'other'"),
        ({"runs": 1}, "the number of repeats is 2 and 1"),
        ({"data": 5}, "the data set is"),
        ({"count": 3}, "the number of shards is 2 and 3"),
    ],
)
def test_shards_of_something_else_are_refused(numbers: Numbers, other: dict[str, Any], message: str) -> None:
    first = plan(numbers(4), journal=False).run(shard=(1, 2))
    data, count = numbers(other.pop("data", 4)), other.pop("count", 2)
    second = plan(data, journal=False, **other).run(shard=(2, count))
    with pytest.raises(ConfigurationError, match=message):
        merge_results([first, second])


def test_shards_of_differently_configured_evaluators_are_refused(numbers: Numbers) -> None:
    first = plan(numbers(4), journal=False).run(shard=(1, 2))
    other = replace(plan(numbers(4), journal=False), evaluators=[ExactMatch(), Contains(values=["2"])])
    with pytest.raises(ConfigurationError, match="configured the evaluator 'Contains' differently"):
        merge_results([first, other.run(shard=(2, 2))])


def test_an_evaluator_that_only_some_shards_ran_is_named(numbers: Numbers) -> None:
    whole = plan(numbers(4), journal=False)
    first = whole.run(shard=(1, 2))
    second = replace(whole, evaluators=whole.evaluators[:1]).run(shard=(2, 2))
    [warning] = merge_results([first, second]).warnings
    name = whole.evaluators[1].name
    assert warning == f"The evaluator {name!r} was not part of run {second.run_id} (shard 2/2)."


def test_evaluators_chosen_for_each_example_need_not_be_in_every_shard(numbers: Numbers) -> None:
    chosen = {"0": [ExactMatch(), Contains(values=["0"])]}
    whole = replace(
        plan(numbers(4), journal=False), evaluators=lambda example: chosen.get(example.input, [ExactMatch()])
    )
    assert merge_results([whole.run(shard=(1, 2)), whole.run(shard=(2, 2))]).warnings == ()


def test_results_that_were_not_kept_cannot_be_merged_from_memory(
    numbers: Numbers, comparable: Comparable
) -> None:
    parts = shards(numbers(4), 2, keep_results=False)
    with pytest.raises(ConfigurationError, match="keep_results=False; load it from its folder"):
        merge_results(parts)
    loaded = [load_run(Path(".dokimos/runs") / (part.run_id or "")) for part in parts]
    assert comparable(merge_results(loaded)) == comparable(plan(numbers(4)).run())


def test_there_must_be_something_to_merge() -> None:
    with pytest.raises(ConfigurationError, match="nothing to merge"):
        merge_results([])


def test_a_merged_result_is_as_good_as_its_worst_shard(numbers: Numbers) -> None:
    first, second = shards(numbers(4), 2, journal=False)
    stopped = replace(second, status=RunStatus.STOPPED, warnings=("careful",))
    merged = merge_results([first, stopped])
    assert merged.status is RunStatus.STOPPED
    assert merged.warnings == ("careful",)


# New scores


def test_rescoring_replaces_the_scores_and_never_calls_the_task(numbers: Numbers) -> None:
    result = plan(numbers(6)).run()
    again = Experiment.rescore(result, [Contains(values=["2"])])
    assert [info.name for info in again.evaluators] == ["Contains"]
    assert again.run_count == 2
    assert again.item_results[2].eval_results == (again.item_results[2].result("Contains"),)
    assert (again.pass_count, again.error_count) == (1, 1)
    assert again.item_results[4].error == "ConnectionError: busy"
    assert again.item_results[4].eval_results == ()
    assert result.evaluator_names == ("Exact Match", "Contains")


def test_rescoring_sees_outputs_metrics_and_the_repeat(numbers: Numbers) -> None:
    from dokimos._core.test_case import EvalTestCase

    @evaluator
    async def sees(case: EvalTestCase) -> bool:
        return case.metrics is not None and case.metrics.cost_usd == 0.1 and case.run_index in (0, 1)

    assert Experiment.rescore(plan(numbers(3)).run(), sees).pass_rate == 1.0


def test_rescoring_keeps_errors_of_evaluators_as_values(numbers: Numbers) -> None:
    def choose(example: Example) -> list[Evaluator]:
        raise KeyError("rubric")

    again = Experiment.rescore(plan(numbers(1)).run(), choose)
    assert again.item_results[0].eval_results == (EvalResult("evaluators", error="KeyError: 'rubric'"),)


def test_rescoring_needs_the_items(numbers: Numbers) -> None:
    with pytest.raises(ConfigurationError, match="keep_results=False"):
        Experiment.rescore(plan(numbers(2)).run(keep_results=False), [ExactMatch()])


def test_rescoring_checks_its_evaluators_first(numbers: Numbers) -> None:
    result = plan(numbers(1)).run()
    with pytest.raises(ConfigurationError, match="at least one evaluator"):
        Experiment.rescore(result, [])
    with pytest.raises(ConfigurationError, match="Two evaluators"):
        Experiment.rescore(result, [ExactMatch(), ExactMatch()])


def test_rescoring_a_result_read_back_equals_rescoring_the_one_in_memory(
    numbers: Numbers, comparable: Comparable
) -> None:
    result = plan(numbers(6)).run()
    loaded = load_run(Path(".dokimos/runs") / (result.run_id or ""))
    new = [Contains(values=["2"])]
    assert comparable(Experiment.rescore(loaded, new)) == comparable(Experiment.rescore(result, new))
