import pytest

from dokimos import EvalTestCase, ToolCall
from dokimos.evaluators import ToolEfficiency


def evaluate(*calls, **options):
    return ToolEfficiency(**options).evaluate(EvalTestCase({}, {"toolCalls": list(calls)}))


A1, A2, B1 = ToolCall("a", {"n": 1}), ToolCall("a", {"n": 2}), ToolCall("b", {"n": 1})
A1_FLOAT = ToolCall("a", {"n": 1.0}, result="other")


@pytest.mark.parametrize(
    ("calls", "score", "redundant", "consecutive"),
    [
        ((), 1, [], []),
        ((A1, A2, B1), 1, [], []),
        ((A1, A1_FLOAT), 0.5, ["a"], ["a"]),
        ((A1, B1, A1), 2 / 3, ["a"], []),
        ((A1, A1, A1, A1), 0.25, ["a"] * 3, ["a"] * 3),
        ((A1, B1, B1, A1), 0.5, ["b", "a"], ["b"]),
    ],
)
def test_repeated_calls_lower_the_score(calls, score, redundant, consecutive):
    result = evaluate(*calls)
    assert result.score == pytest.approx(score)
    assert result.metadata == {
        "totalCalls": len(calls),
        "distinctCalls": len(calls) - len(redundant),
        "redundantCalls": redundant,
        "consecutiveDuplicates": consecutive,
    }


def test_calls_without_arguments_repeat_only_calls_without_arguments():
    assert evaluate(ToolCall("a"), A1).score == 1
    assert evaluate(ToolCall("a"), ToolCall("a")).score == 0.5


def test_the_earlier_call_is_the_expected_one():
    short, long = ToolCall("a", {"n": 1}), ToolCall("a", {"n": 1, "m": 2})
    assert evaluate(short, long, arguments="subset").score == 0.5
    assert evaluate(long, short, arguments="subset").score == 1


def test_malformed_arguments_repeat_only_the_same_text():
    broken, other = ToolCall.of_text("a", "{n"), ToolCall.of_text("a", "{m")
    assert evaluate(broken, other, ToolCall("a")).score == 1
    assert evaluate(broken, broken).score == 0.5


def test_the_reason_tells_of_a_loop():
    assert evaluate(A1, A1).reason == (
        "1 of 2 tool calls repeat an earlier one: 'a'; 1 call right after the call repeated, which may be a "
        "loop."
    )
    assert evaluate(A1, B1, A1).reason == "1 of 3 tool calls repeat an earlier one: 'a'."
