from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult
from dokimos._core.task_result import TaskResult
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._merging import merge_results


@evaluator(threshold=0.5)
def graded(output: float) -> float:
    return output


def parts_of(result: ExperimentResult) -> Any:
    return (
        [(run.index, run.item_results, run.summary) for run in result.runs],
        result.evaluators,
        result.status,
        result.pass_rate,
        result.average_score("Graded"),
        result.score_std_dev("Graded"),
        result.metrics,
    )


@settings(max_examples=40, deadline=None)
@given(
    outputs=st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=12),
    count=st.integers(1, 5),
    runs=st.integers(1, 3),
    order=st.randoms(use_true_random=False),
)
def test_any_shards_in_any_order_merge_into_the_single_run(
    outputs: list[float | None], count: int, runs: int, order: Any
) -> None:
    """An output of None errors; one shard or another may get no item at all."""

    def task(example: Example) -> TaskResult | None:
        output = outputs[example.inputs["input"]]
        return None if output is None else TaskResult({"output": output}, CallMetrics(1, 2, latency_ms=3.0))

    data = Dataset([Example.of(i, i) for i in range(len(outputs))])
    plan = Experiment(data, task, [graded, ExactMatch()], runs=runs, journal=False, progress=False)
    shards = [plan.run(shard=(i, count)) for i in range(1, count + 1)]
    order.shuffle(shards)
    whole, merged = parts_of(plan.run()), parts_of(merge_results(shards))
    assert merged[:2] == whole[:2]
    assert merged[3:] == whole[3:]
