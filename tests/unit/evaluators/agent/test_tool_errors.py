import pytest

from dokimos import EvalTestCase, ToolCall
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ToolErrors
from dokimos.evaluators.registry import build


def evaluate(*results, **options):
    calls = [
        ToolCall("t", result=result) if not isinstance(result, ToolCall) else result for result in results
    ]
    return ToolErrors(**options).evaluate(EvalTestCase({}, {"toolCalls": calls}))


def score(result, **options):
    return evaluate(result, **options).score


@pytest.mark.parametrize(
    "result",
    [
        "3 found",
        "an error occurred",
        '{"rows": []}',
        '{"error": null}',
        '{"error": false}',
        '{"error": ""}',
        '{"data": {"error": "nested"}}',
        '[{"error": "in a list"}]',
        '{"error": "not JSON"',
        '"error"',
        "0",
    ],
)
def test_these_are_no_errors(result):
    assert score(result) == 1


@pytest.mark.parametrize(
    "result",
    [
        None,
        "",
        " \n",
        '{"error": "no such id"}',
        ' {"error": true}',
        '{"error": {"code": 5}}',
        '{"error": 404}',
    ],
)
def test_these_are_errors(result):
    assert score(result) == 0


@pytest.mark.parametrize("result", [None, " "])
def test_blank_results_can_be_fine(result):
    assert score(result, treat_blank_as_error=False) == 1


def test_the_error_field_can_be_left_alone():
    assert score('{"error": "x"}', detect_json_error_field=False) == 1


@pytest.mark.parametrize("detector", [r"HTTP 5\d\d", lambda result: "HTTP 5" in result])
def test_a_detector_comes_on_top(detector):
    assert score("HTTP 503", error_detector=detector) == 0
    assert score("HTTP 200", error_detector=detector) == 1
    assert score('{"error": "x"}', error_detector=detector) == 0


@pytest.mark.parametrize(("reported", "value"), [(True, 0), ("timeout", 0), (False, 1), (None, 1), ("", 1)])
def test_an_error_that_was_reported_counts_whatever_the_result_says(reported, value):
    assert score(ToolCall("t", result="fine", metadata={"error": reported})) == value


def test_the_score_is_the_share_that_did_not_fail():
    result = evaluate("ok", None, "ok", '{"error": "no such id"}')
    assert result.score == 0.5
    assert result.metadata["results"][1] == {"toolName": "t", "errored": True, "reason": "there is no result"}
    assert result.metadata["results"][0] == {"toolName": "t", "errored": False, "reason": ""}
    assert result.reason == "2 of 4 tool calls failed; the first, t, because there is no result."


def test_without_calls_nothing_failed():
    assert evaluate().score == 1
    assert evaluate("a", "b").reason == "2 tool calls and none failed."


def test_a_detector_that_raises_is_an_error_not_a_score():
    assert "KeyError" in evaluate("x", error_detector=lambda result: {}[result]).error


def test_the_name_is_the_documented_one():
    assert ToolErrors().name == "Tool Error"
    assert build("tool_errors", {"error_detector": "HTTP 5.."}).evaluate(
        EvalTestCase({}, {"toolCalls": [{"name": "a", "result": "HTTP 500"}]})
    ).score == 0  # fmt: skip


def test_a_wrong_detector_is_refused():
    with pytest.raises(ConfigurationError, match="error_detector must be a pattern or a function"):
        ToolErrors(error_detector="(")


@pytest.mark.parametrize(("good", "bad", "threshold"), [(1, 4, 0.2), (1, 9, 0.1)])
def test_a_share_that_is_the_threshold_passes(good, bad, threshold):
    assert evaluate(*["ok"] * good, *[None] * bad, threshold=threshold).success is True
