from __future__ import annotations

import json

import pytest

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.errors import ConfigurationError
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import evaluate
from dokimos.exporters._base import export, render
from dokimos.exporters._json import JsonExporter, load_result


def tree_of(result):
    return json.loads(render(result, "json"))


def test_the_documented_members_are_there(make_result):
    tree = tree_of(make_result(runs=3))
    assert tree["version"] == 1
    assert tree["experimentName"] == "support-bot"
    assert tree["timestamp"] == "2026-11-21T22:14:41+00:00"
    assert tree["config"]["runs"] == 3
    summary = tree["summary"]
    assert (summary["totalExamples"], summary["passCount"], summary["failCount"]) == (24, 12, 12)
    assert summary["passRate"] == 0.5
    assert summary["evaluators"]["Token F1"]["averageScore"] == 0.802857
    assert summary["evaluators"]["Token F1"]["stdDev"] == 0.036617


def test_an_item_of_one_run_has_scores(make_result):
    item = tree_of(make_result())["items"][4]
    assert item["input"] == "What is the return policy for order 4?"
    assert item["actualOutput"] == "You can return it within 60 days of the order."
    assert item["success"] is False
    assert item["evaluations"][0] == {
        "evaluator": "Exact Match",
        "averageScore": 0.0,
        "score": 0.0,
        "threshold": 1.0,
        "success": False,
        "reason": "Compared to the letter.",
    }


def test_an_item_of_several_runs_shows_each(make_result):
    item = tree_of(make_result(runs=3))["items"][4]
    token_f1 = item["evaluations"][1]
    assert token_f1["scores"] == [0.62, 0.45, 0.55]
    assert token_f1["averageScore"] == 0.54
    assert token_f1["success"] is False
    assert [run["run"] for run in item["runs"]] == [1, 2, 3]
    assert item["runs"][1]["actualOutput"] == "You can return it within 61 days of the order."


def test_an_item_that_crashed_in_the_first_run_keeps_the_others():
    example = Example.of("q", "a", id="x")
    good = ItemResult(0, example, actual_outputs={"output": "a"}, eval_results=(EvalResult.of("E", 1.0),))
    runs = (
        RunResult(item_results=(ItemResult(0, example, error="boom"),)),
        RunResult(index=1, item_results=(good,)),
    )
    item = tree_of(ExperimentResult(runs=runs))["items"][0]
    assert item["success"] is False
    assert item["errors"] == ["boom"]
    assert item["evaluations"][0]["scores"] == [None, 1.0]


@pytest.mark.parametrize("run_count", [1, 2])
def test_where_errors_come_from_is_in_items_repeats_and_evaluations(run_count):
    detail = ErrorDetail("KeyError", "'answer'", traceback="Traceback")
    score = EvalResult("E", error="boom", error_detail=detail)
    item = ItemResult(0, Example.of("q"), eval_results=(score,), error="boom", error_detail=detail)
    result = ExperimentResult(runs=tuple(RunResult(index=i, item_results=(item,)) for i in range(run_count)))

    tree = tree_of(result)["items"][0]

    expected = {"type": "KeyError", "message": "'answer'", "traceback": "Traceback"}
    repeats = tree.get("runs", [])
    assert len(repeats) == (0 if run_count == 1 else run_count)
    assert all(part["errorDetail"] == expected for part in [tree, *tree["evaluations"], *repeats])


def test_texts_of_halves_of_surrogate_pairs_become_characters():
    score = EvalResult("E", 1.0, reason="\ud83d\ude00 \ud83d")
    item = ItemResult(0, Example.of("q"), eval_results=(score,))
    text = render(ExperimentResult(runs=(RunResult(item_results=(item,)),)), "json")
    assert text.count('"reason":"😀 \\ud83d"') == 2


def test_nothing_scored_is_null_not_zero():
    item = ItemResult(0, Example.of("q"), eval_results=(EvalResult("E", error="no judge"),))
    tree = tree_of(ExperimentResult(runs=(RunResult(item_results=(item,)),)))
    assert tree["summary"]["evaluators"]["E"]["averageScore"] is None
    assert tree["summary"]["evaluators"]["E"]["errorCount"] == 1
    assert tree["items"][0]["evaluations"][0]["error"] == "no judge"


@pytest.mark.parametrize("runs", [1, 3])
def test_it_is_read_back_whole(make_result, tmp_path, runs):
    result = make_result(runs=runs)
    path = export(result, tmp_path / "result.json")
    again = load_result(path)
    assert render(again, "json") == render(result, "json")
    assert again.average_score("Token F1") == result.average_score("Token F1")
    assert load_result(path.read_text()) == again


def test_big_numbers_survive():
    item = ItemResult(0, Example.of(2**70), actual_outputs={"output": 2**63 + 1})
    text = render(ExperimentResult(runs=(RunResult(item_results=(item,)),)), "json")
    assert load_result(text).runs[0].item_results[0].example.inputs["input"] == 2**70


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{oops", "the JSON text is not JSON"),
        pytest.param("[" * 100_000, "the JSON text is not JSON", id="deep"),
        ("[1]", "expected an object, got list"),
        ('{"version": 1, "items": []}', "no 'result' member.*another implementation"),
        ('{"version": 9, "result": {}}', "version 9.*Update dokimos"),
        ('{"version": 1, "result": {"runs": 3}}', "'result' member is damaged.*runs"),
    ],
)
def test_what_cannot_be_read_is_explained(text, message):
    with pytest.raises(ConfigurationError, match=message):
        load_result(text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"missing\.json"):
        load_result(tmp_path / "missing.json")


def test_totals_of_an_earlier_version_are_counted_again():
    soft = EvalResult("Judge", error="down", threshold=0.5, fail_on_error=False)
    items = (ItemResult(0, Example.of("q", "a"), eval_results=(soft,)),)
    tree = json.loads(render(ExperimentResult(runs=(RunResult(item_results=items),)), "json"))
    stale = {"total": 1, "notJudged": 1, "warned": 1, "evaluators": [{"name": "Judge", "errors": 1}]}
    tree["result"]["runs"][0]["summary"] = stale

    again = load_result(json.dumps(tree))

    assert (again.error_count, again.not_judged_count, again.summary.warned) == (1, 0, 0)


def test_a_report_is_written_part_by_part_and_is_what_render_gives(tmp_path):
    examples = [Example.of(f"question {i} " * 40, "Rome") for i in range(50)]
    result = evaluate(examples, lambda example: "Rome", [ExactMatch()], quiet=True, journal=False)
    parts = list(JsonExporter().render_parts(result))
    path = export(result, tmp_path / "report.json")

    assert path.read_bytes() == "".join(parts).encode() == render(result, "json").encode()
    assert max(map(len, parts)) < len("".join(parts)) / 20


def test_an_object_like_a_reference_is_wrapped_only_where_there_are_references():
    example = Example({"input": {"$text": ["a"]}}, {"output": "b"})
    plain = evaluate([example], lambda example: "b", [ExactMatch()], quiet=True, journal=False)
    long = evaluate([example], lambda example: "b" * 300, [ExactMatch()], quiet=True, journal=False)

    assert '"$plain"' not in render(plain, "json")
    assert '"$plain"' in render(long, "json")
    for result in (plain, long):
        assert load_result(render(result, "json")).item_results == result.item_results
