"""Tasks that tell how far they came before they failed: errored items that keep their outputs."""

import json

import pytest

from dokimos import AgentTrace, Dataset, EvalTestCase, Example, Experiment, TaskResult, ToolCall
from dokimos._core.results import RunStatus
from dokimos.comparison import compare_runs
from dokimos.datasets._answer_replay import recorded_task
from dokimos.evaluators import Evaluator, Tokens, ToolErrors, evaluator

ERROR = "RateLimitError: no quota left"
CALLS = [ToolCall("search", {"q": "x"}, result="found")]


@evaluator
def anything(case):
    return True


EVALUATORS = (ToolErrors(), Tokens(max_tokens=1000), anything)


def broken_off(example):
    return TaskResult({"toolCalls": CALLS}, error=ERROR)


def run(task, dataset=None, **options):
    dataset = dataset or Dataset([Example.of("a"), Example.of("b")])
    return Experiment(dataset, task, list(EVALUATORS)).run(progress=False, **options)


def written_items(folder):
    records = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    return [record for record in records if record["t"] == "item"]


@pytest.mark.parametrize("journal", [True, False])
def test_a_task_that_broke_off_makes_an_errored_item_with_its_outputs(journal, tmp_path):
    result = run(broken_off, journal=journal, run_dir=tmp_path)

    item = result.item_results[0]
    assert item.error == ERROR
    assert item.actual_outputs["toolCalls"] == CALLS
    assert (item.eval_results, item.errored, item.success) == ((), True, False)
    assert (result.error_count, result.pass_count, result.status) == (2, 0, RunStatus.BROKEN)


def test_a_trace_with_an_error_is_one_too():
    trace = AgentTrace(CALLS, error=ERROR, errors=["TimeoutError: first try"])

    item = run(lambda example: trace, journal=False).item_results[0]

    assert item.error == ERROR
    assert item.actual_outputs["errors"] == ["TimeoutError: first try"]
    assert "output" not in item.actual_outputs


def test_the_journal_keeps_the_outputs_and_a_resumed_run_has_them(tmp_path):
    calls = []

    def task(example):
        calls.append(example.input)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return broken_off(example)

    with pytest.raises(KeyboardInterrupt):
        run(task, run_dir=tmp_path)
    (folder,) = tmp_path.iterdir()
    again = run(task, run_dir=tmp_path, resume=folder.name)

    assert calls == ["a", "b", "b"]
    assert [item.error for item in again.item_results] == [ERROR, ERROR]
    assert all(len(item.actual_outputs["toolCalls"]) == 1 for item in again.item_results)
    assert len(written_items(folder)) == 2


def test_an_error_is_tried_again_and_written_down_once(tmp_path):
    calls = []

    def task(example):
        calls.append(example.input)
        return broken_off(example) if len(calls) == 1 else "x"

    result = run(task, Dataset([Example.of("a")]), run_dir=tmp_path, retries=1)

    assert result.item_results[0].error is None
    assert [("e" in record) for record in written_items(tmp_path / result.run_id)] == [False]


def test_what_broke_off_is_not_scored_anew():
    rescored = Experiment.rescore(run(broken_off, journal=False), [anything])

    assert [item.eval_results for item in rescored.item_results] == [(), ()]
    assert rescored.error_count == 2


def test_no_evaluator_scores_a_case_with_an_error():
    case = EvalTestCase({"input": "a"}, {"output": "x", "toolCalls": CALLS}, error=ERROR)

    for each in EVALUATORS:
        result = each.evaluate(case)
        assert (result.score, result.success) == (None, None)
        assert ERROR in result.error


def test_no_evaluator_of_the_user_sees_a_case_with_an_error():
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Lenient(Evaluator):
        async def score(self, case):
            raise AssertionError("must not be called")

    result = Lenient().evaluate(EvalTestCase({}, {}, error=ERROR))

    assert result.error == f"EvaluationError: The run failed, so there is nothing to score: {ERROR}"


def test_recorded_errors_are_those_of_the_items(tmp_path):
    rows = [
        Example({"input": "a"}, actual_outputs={"toolCalls": []}, actual_error=ERROR, id="1"),
        Example({"input": "b"}, actual_error="Timeout", id="2"),
        Example({"input": "c"}, actual_outputs={"output": "x"}, id="3"),
    ]
    for name in ("rows.json", "rows.jsonl", "rows.parquet"):
        Dataset(rows).save(tmp_path / name)
        read = Dataset.load(tmp_path / name)
        assert [row.actual_error for row in read] == [ERROR, "Timeout", None]
        assert read.fingerprint == Dataset(rows).fingerprint
        result = Experiment(read, recorded_task(), [anything]).run(journal=False, progress=False)
        assert [item.error for item in result.item_results] == [ERROR, "Timeout", None]


def test_a_table_has_recorded_errors_in_a_column_of_their_own(tmp_path):
    rows = [
        Example.of("a"),
        Example({"input": "b"}, actual_error='He said "no"'),
        Example.of("c", error="mine"),
    ]
    Dataset(rows).save(tmp_path / "rows.csv")

    read = Dataset.load(tmp_path / "rows.csv")

    assert [row.actual_error for row in read] == [None, 'He said "no"', None]
    assert read[2].metadata["error"] == "mine"


def test_an_error_changes_the_fingerprint_of_a_data_set():
    plain, failed = Example.of("a", "b"), Example({"input": "a"}, {"output": "b"}, actual_error=ERROR)

    assert Dataset([plain]).fingerprint != Dataset([failed]).fingerprint


def test_an_error_that_is_no_text_is_refused():
    result = run(lambda example: TaskResult({}, error=ValueError("x")), journal=False)

    assert result.item_results[0].error == "TypeError: TaskResult.error must be text, not ValueError"


def test_an_item_that_broke_off_counts_against_the_candidate():
    good, bad = (
        Experiment(Dataset([Example.of("a")]), task, [anything]).run(journal=False, progress=False)
        for task in (lambda example: "x", broken_off)
    )

    diff = compare_runs(good, bad)

    assert (diff.baseline_pass_rate, diff.candidate_pass_rate) == (1.0, 0.0)
